"""The speed of ``hf:`` encoders, tokenising and decoding included, relative to their bare models; how busy they are.

    python bench/encode_hf.py                                                    (extra hf; nothing is downloaded)
    python bench/encode_hf.py --device cuda --size base --precision bfloat16

The model is a CLIP with random weights, as transformers' own defaults describe it: ``base`` has an image tower of
ViT-B/16, ``small`` one of ViT-B/32. Its words are the built-in bank's. Texts are those of the bank; photos are
synthetic (500 × 375 JPEG). Encoder and bare model alternate, because machines drift. Read the ratios.

*busy* is the share of the time during which a tower was at work, from its first operation to its last, in each
batch. On a GPU it is measured by the GPU's own events. *input* is the path without a model: of texts, splitting and
tokenising; of pictures, decoding, resizing, and the copy to the device, on all cores.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
import transformers
from encode import photos
from machine import seconds, share
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

from isthmus import encoders
from isthmus.documents import Document, Query
from isthmus.encoders.bank import queries
from isthmus.encoders.cache import MemoryCache
from isthmus.encoders.once import launched
from isthmus.encoders.picture_recipe import tensor_of

START, END = "<start>", "<end>"
ENDS = {START: 0, END: 1}
PATCHES = {"base": 16, "small": 32}
KINDS = 256  # different photos; more are the same ones with other bytes at the end, so that none is encoded twice


def written(folder: Path, patch: int) -> Path:
    """Write a random CLIP with a tokenizer of the bank's words and CLIP's own image processor."""
    torch.manual_seed(0)
    words = Tokenizer(models.WordLevel(unk_token=END))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.train_from_iterator(queries(), trainers.WordLevelTrainer(special_tokens=list(ENDS)))
    words.post_processor = processors.TemplateProcessing(single=f"{START} $A {END}", special_tokens=list(ENDS.items()))
    reader = transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, model_max_length=77, eos_token=END, pad_token=END
    )
    config = transformers.CLIPConfig()
    config.vision_config.patch_size = patch
    config.text_config.eos_token_id = ENDS[END]
    config.text_config.vocab_size = len(reader)
    for each in (transformers.CLIPModel(config), reader, CLIPImageProcessorPil()):
        each.save_pretrained(folder)
    return folder


def many(count: int) -> list[bytes]:
    """Return photos, each of which has bytes of its own."""
    made = photos(min(count, KINDS))
    return [made[row % len(made)] + row.to_bytes(4, "big") for row in range(count)]


@dataclass(slots=True)
class Watch:
    """Measures how long a module is at work."""

    module: Any
    gpu: bool
    marks: list[Any] = field(default_factory=list)

    def share(self, run: Callable[[], object]) -> float:
        """Return the share of the time of a run."""
        before = self.module.register_forward_pre_hook(lambda *_: self.mark())
        after = self.module.register_forward_hook(lambda *_: self.mark())
        self.marks.clear()
        start = perf_counter()
        run()
        taken = perf_counter() - start
        before.remove()
        after.remove()
        pairs = zip(self.marks[::2], self.marks[1::2], strict=True)
        spans = (one.elapsed_time(other) / 1000 if self.gpu else other - one for one, other in pairs)
        return float(sum(spans)) / taken

    def mark(self) -> None:
        if not self.gpu:
            self.marks.append(perf_counter())
            return
        event: Any = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        self.marks.append(event)


def bare(model: Any, inputs: list[dict[str, Any]], features: str) -> Callable[[], object]:
    """Return a run of the model on tensors that are ready on its device."""

    def run() -> None:
        with torch.inference_mode():
            for rows in [getattr(model, features)(**each).pooler_output.float() for each in inputs]:
                rows.cpu()

    return run


def without_model(encoder: Any) -> Any:
    """Return the encoder with an image tower that only gets its input ready."""
    image = encoder.image

    class Input:
        frame = image.frame

        def encode(self, pixels: Any) -> Any:
            return tensor_of(pixels, image.levels)[:, 0, 0, : encoder.dim].cpu().numpy() + 9

        launch = staticmethod(lambda pixels: launched(Input().encode)(pixels))

    return replace(encoder, image=Input(), dim=min(encoder.dim, image.frame.size))


class WithoutModel:
    """A text tower that only splits texts."""

    def __init__(self, tower: Any) -> None:
        self.split = tower.split

    def encode(self, passages: Any) -> Any:
        return np.ones((len(passages), 8), dtype=np.float32)


def main(options: argparse.Namespace) -> None:
    device = options.device
    gpu = device.startswith("cuda")
    count, texts = options.photos or (8192 if gpu else 64), options.texts or (16384 if gpu else 256)
    kept = MemoryCache(limit=0)
    precision = options.precision
    with tempfile.TemporaryDirectory() as place:
        folder = written(Path(place), PATCHES[options.size])
        encoder: Any = encoders.load(
            f"hf:{folder}", device=device, batch=options.batch, precision=precision, cache=kept
        )
        model = transformers.CLIPModel.from_pretrained(folder).eval().to(device, getattr(torch, precision))
        reader = transformers.AutoTokenizer.from_pretrained(folder)
    batch = encoder.settings.batch_size
    asked = sorted((queries() * (texts // len(queries()) + 1))[:texts], key=len)
    asked = [f"{text} {row}" for row, text in enumerate(asked)]  # no two alike
    parts = [reader(asked[at : at + batch], padding=True, return_tensors="pt") for at in range(0, texts, batch)]
    names = ("input_ids", "attention_mask")
    tokens = [{name: part[name].to(device) for name in names} for part in parts]
    size = min(batch, count)
    empty = torch.zeros(size, 3, 224, 224, device=device, dtype=model.dtype)
    pixels = [{"pixel_values": empty}] * (count // size)
    wanted = [Query(text=text) for text in asked]
    pictures = [Document(id=str(row), image=picture) for row, picture in enumerate(many(count // size * size))]
    title = f"hf: CLIP ViT-B/{PATCHES[options.size]}, {device}, {precision}, batch {batch}"
    part, taken = share(bare(model, tokens, "get_text_features"), lambda: encoder.encode_queries(wanted), options.times)
    print(f"{title}: {texts / taken:.0f} texts a second, {part:.2f} of the bare model (tokenising included)")
    part, taken = share(
        bare(model, pixels, "get_image_features"), lambda: encoder.encode_documents(pictures), options.times
    )
    print(f"{title}: {len(pictures) / taken:.1f} photos a second, {part:.2f} of the bare model (decoding included)")
    towers = encoder.image.model.model
    watched: dict[str, tuple[Any, Callable[[], object]]] = {
        "text": (towers.text_model, lambda: encoder.encode_queries(wanted)),
        "image": (towers.vision_model, lambda: encoder.encode_documents(pictures)),
    }
    for name, (module, run) in watched.items():
        busy = max(Watch(module, gpu=gpu).share(run) for _ in range(options.times))
        print(f"{title}: the {name} tower is busy {busy:.2f} of the time")
    alone = replace(encoder, text=WithoutModel(encoder.text), dim=8)
    taken = seconds(lambda: alone.encode_queries(wanted), options.times)
    print(f"{title}: input path without the model, {texts / taken:.0f} texts a second")
    taken = seconds(lambda: without_model(encoder).encode_documents(pictures), options.times)
    print(f"{title}: input path without the model, {len(pictures) / taken:.0f} photos a second")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--size", choices=sorted(PATCHES), default="small")
    parser.add_argument("--precision", default="float32", help="float32, float16 or bfloat16")
    parser.add_argument("--photos", type=int, default=None, help="default: 64; 8192 on a GPU")
    parser.add_argument("--texts", type=int, default=None, help="default: 256; 16384 on a GPU")
    parser.add_argument("--batch", type=int, default=None, help="default: that of the encoder")
    parser.add_argument("--times", type=int, default=5, help="runs, of which the fastest counts")
    main(parser.parse_args())
