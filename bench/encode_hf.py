"""The speed of ``hf:`` encoders, tokenising and decoding included, relative to their bare models.

    python bench/encode_hf.py [--device cpu] [--photos 64]       (extra hf; nothing is downloaded)

The model is CLIP ViT-B/32 with random weights, as transformers' own defaults describe it; its words are the built-in
bank's. Texts are those of the bank; photos are synthetic (500 × 375 JPEG). Encoder and bare model alternate, because
machines drift. Read the ratios.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from encode import photos
from machine import share
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

from isthmus import encoders
from isthmus.documents import Document, Query
from isthmus.encoders.bank import queries
from isthmus.encoders.cache import MemoryCache

BATCH = 32
START, END = "<start>", "<end>"
ENDS = {START: 0, END: 1}


def written(folder: Path) -> Path:
    """Write a random CLIP ViT-B/32 with a tokenizer of the bank's words and CLIP's own image processor."""
    torch.manual_seed(0)
    words = Tokenizer(models.WordLevel(unk_token=END))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.train_from_iterator(queries(), trainers.WordLevelTrainer(special_tokens=list(ENDS)))
    words.post_processor = processors.TemplateProcessing(single=f"{START} $A {END}", special_tokens=list(ENDS.items()))
    reader = transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, model_max_length=77, eos_token=END, pad_token=END
    )
    config = transformers.CLIPConfig()
    config.text_config.eos_token_id = ENDS[END]
    config.text_config.vocab_size = len(reader)
    for each in (transformers.CLIPModel(config), reader, CLIPImageProcessorPil()):
        each.save_pretrained(folder)
    return folder


def bare(model: Any, inputs: list[dict[str, Any]], features: str) -> Callable[[], object]:
    """Return a run of the model on tensors that are ready on its device."""

    def run() -> None:
        with torch.inference_mode():
            for each in inputs:
                getattr(model, features)(**each).pooler_output.float().cpu()

    return run


def main(device: str, count: int, texts: int = 256) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = written(Path(place))
        encoder = encoders.load(f"hf:{folder}", device=device, batch=BATCH, cache=MemoryCache(limit=0))
        model = transformers.CLIPModel.from_pretrained(folder).eval().to(device)
        reader = transformers.AutoTokenizer.from_pretrained(folder)
    asked = sorted(queries()[:texts], key=len)
    parts = [reader(asked[at : at + BATCH], padding=True, return_tensors="pt") for at in range(0, texts, BATCH)]
    names = ("input_ids", "attention_mask")
    tokens = [{name: part[name].to(device) for name in names} for part in parts]
    pixels = [{"pixel_values": torch.zeros(BATCH, 3, 224, 224, device=device)}] * (count // BATCH)
    wanted = [Query(text=text) for text in asked]
    pictures = [Document(id=str(row), image=picture) for row, picture in enumerate(photos(count))]
    part, taken = share(bare(model, tokens, "get_text_features"), lambda: encoder.encode_queries(wanted), 5)
    print(f"hf: CLIP ViT-B/32, {texts / taken:.0f} texts a second, {part:.2f} of the bare model (tokenising included)")
    part, taken = share(bare(model, pixels, "get_image_features"), lambda: encoder.encode_documents(pictures), 5)
    print(f"hf: CLIP ViT-B/32, {count / taken:.1f} photos a second, {part:.2f} of the bare model (decoding included)")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--photos", type=int, default=64)
    options = parser.parse_args()
    main(options.device, options.photos)
