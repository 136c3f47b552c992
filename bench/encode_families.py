"""The speed of the families of encoders, tokenising and decoding included, relative to their bare models.

    python bench/encode_families.py [--only st,clap] [--times 2] [--profile]   (extras st, hf, sound; no downloads)

The models have random weights (``family_models.py``): ``st:`` of the size of all-MiniLM-L6, ``hf:`` CLIP ViT-B/32,
``clap:`` of clap-htsat-unfused, ``open_clip:`` ViT-B-32, each in full size; ``vlm:`` a small Qwen2-VL; ``http:`` asks a
server on this machine that takes 50 ms for a request, and beside it stands a plain client that sends the same batches.
Texts are those of the built-in bank, photos 500 × 375 JPEG, sounds 10 s of noise at 44.1 kHz, so that they are
resampled. The bare model gets tensors that are ready. Both alternate, because machines drift. Read the ratios; the
target is .85. *at work* is the share of the encoder's own time that its model takes, which other programs change less.
*input* is the path of texts without a model. ``--profile`` lists where the time outside the models goes.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch
from encode_hf import Watch, WithoutModel, many, written
from family_models import clap_model, open_clip_weights, sentence_model, service, vlm_model, words
from machine import seconds, share

from isthmus import encoders
from isthmus.documents import Document, Query
from isthmus.encoders.bank import queries
from isthmus.encoders.cache import MemoryCache

BATCH, RATE, TARGET = 32, 44_100, 0.85
OPEN_CLIP = "ViT-B-32"
Run = Callable[[], object]


@dataclass(slots=True)
class Workload:
    """What is encoded, and where models are written."""

    folder: Path
    texts: list[str]
    photos: list[Document]
    sounds: list[Document]
    stack: ExitStack = field(default_factory=ExitStack)

    @property
    def asked(self) -> list[Query]:
        return [Query(text=text) for text in self.texts]


@dataclass(slots=True)
class Measured:
    """A run of an encoder beside that of its bare model."""

    what: str
    count: int
    bare: Run
    ours: Run
    encoder: Any
    module: Any = None  # the model, whose share of the time is measured


def loaded(name: str) -> Any:
    return encoders.load(name, cache=MemoryCache(limit=0), batch=BATCH)


def repeated(call: Callable[..., object], inputs: list[dict[str, Any]]) -> Run:
    """Return a run of a model on tensors that are ready."""

    def run() -> None:
        with torch.inference_mode():
            for each in inputs:
                call(**each)

    return run


def tokens(reader: Any, texts: list[str], size: int = BATCH) -> list[dict[str, Any]]:
    """Return the tensors of texts, in batches."""
    parts = [reader(texts[at : at + size], padding=True, return_tensors="pt") for at in range(0, len(texts), size)]
    return [{name: part[name] for name in ("input_ids", "attention_mask")} for part in parts]


def pixels(count: int) -> list[dict[str, Any]]:
    """Return pictures as a CLIP wants them, in batches."""
    return [{"pixel_values": torch.zeros(min(BATCH, count - at), 3, 224, 224)} for at in range(0, count, BATCH)]


def st(work: Workload) -> Iterator[Measured]:
    encoder = loaded(f"st:{sentence_model(work.folder)}")
    bare = repeated(encoder.text.model.model[0], [{"features": each} for each in tokens(words(), work.texts)])
    yield Measured(
        "texts", len(work.texts), bare, lambda: encoder.encode_queries(work.asked), encoder, encoder.text.model.model[0]
    )


def hf(work: Workload) -> Iterator[Measured]:
    encoder = loaded(f"hf:{written(work.folder / 'hf', 32)}")
    model = encoder.text.model.model
    bare = repeated(model.get_text_features, tokens(words(), work.texts))
    yield Measured(
        "texts", len(work.texts), bare, lambda: encoder.encode_queries(work.asked), encoder, model.text_model
    )
    bare = repeated(model.get_image_features, pixels(len(work.photos)))
    yield Measured(
        "photos", len(work.photos), bare, lambda: encoder.encode_documents(work.photos), encoder, model.vision_model
    )


def clap(work: Workload) -> Iterator[Measured]:
    encoder = loaded(f"clap:{clap_model(work.folder)}")
    model = encoder.text.model.model
    bare = repeated(model.get_text_features, tokens(words(), work.texts))
    yield Measured(
        "texts", len(work.texts), bare, lambda: encoder.encode_queries(work.asked), encoder, model.text_model
    )
    silent = {"input_features": torch.zeros(1, 1, 1001, 64), "is_longer": torch.zeros(1, 1, dtype=torch.bool)}
    bare = repeated(model.get_audio_features, [silent] * len(work.sounds))
    yield Measured(
        "sounds of 10 s",
        len(work.sounds),
        bare,
        lambda: encoder.encode_documents(work.sounds),
        encoder,
        model.audio_model,
    )


def vlm(work: Workload) -> Iterator[Measured]:
    encoder = loaded(f"vlm:gme:{vlm_model(work.folder)}")
    tower, texts = encoder.tower, work.texts[:BATCH]
    frame = tower.prompts.words["document"]
    ready = tokens(tower.tokenizer, [frame.replace("{image}", "").replace("{text}", text) for text in texts])
    ours = [Document(id=str(row), text=text) for row, text in enumerate(texts)]
    bare = repeated(tower.model.model.model, ready)
    yield Measured("texts", len(texts), bare, lambda: encoder.encode_documents(ours), encoder, tower.model.model.model)


def open_clip(work: Workload) -> Iterator[Measured]:
    weights = open_clip_weights(work.folder, OPEN_CLIP)
    encoder = loaded(f"open_clip:{OPEN_CLIP}/{weights}")
    model = encoder.text.model.model
    import open_clip as library

    reader = library.get_tokenizer(OPEN_CLIP)
    ready = [{"text": reader(work.texts[at : at + BATCH])} for at in range(0, len(work.texts), BATCH)]
    bare = repeated(model.encode_text, ready)
    yield Measured(
        "texts", len(work.texts), bare, lambda: encoder.encode_queries(work.asked), encoder, model.transformer
    )
    seen = [{"image": each["pixel_values"]} for each in pixels(len(work.photos))]
    bare = repeated(model.encode_image, seen)
    yield Measured(
        "photos", len(work.photos), bare, lambda: encoder.encode_documents(work.photos), encoder, model.visual
    )


def http(work: Workload) -> Iterator[Measured]:
    url = work.stack.enter_context(service())
    encoder = loaded(f"http:openai:some@{url}")

    def client() -> None:
        for at in range(0, len(work.texts), BATCH):
            body = json.dumps({"model": "some", "input": work.texts[at : at + BATCH]}).encode()
            asked = urllib.request.Request(f"{url}/embeddings", body, {"Content-Type": "application/json"})  # noqa: S310
            with urllib.request.urlopen(asked) as answer:  # noqa: S310 - on this machine
                np.array([row["embedding"] for row in json.loads(answer.read())["data"]], dtype=np.float32)

    yield Measured("texts", len(work.texts), client, lambda: encoder.encode_queries(work.asked), encoder)


FAMILIES: dict[str, Callable[[Workload], Iterator[Measured]]] = {
    "st": st,
    "hf": hf,
    "clap": clap,
    "vlm": vlm,
    "open_clip": open_clip,
    "http": http,
}


def input_path(encoder: Any, texts: list[str], times: int) -> float:
    """Return how many texts a second are split, tokenised, hashed and stacked, without a model."""
    asked = [Query(text=f"{text} {row}") for row in range(max(1, 8192 // len(texts))) for text in texts]
    alone = replace(encoder, text=WithoutModel(encoder.text), dim=8)
    return len(asked) / seconds(lambda: alone.encode_queries(asked), times)


def told(name: str, one: Measured, options: argparse.Namespace) -> None:
    """Measure and print a line; with ``--profile``, where the time goes."""
    part, taken = share(one.bare, one.ours, options.times)
    mark = "" if part >= TARGET else f"   below {TARGET}"
    print(
        f"{name + ':':<11} {one.count / taken:9.1f} {one.what} a second, {part:.2f} of the bare model{mark}", flush=True
    )
    if one.module is not None:
        busy = max(Watch(one.module, gpu=False).share(one.ours) for _ in range(options.times))
        print(f"{name + ':':<11} the model is at work for {busy:.2f} of the time with {one.what}", flush=True)
    if options.profile:
        profile = cProfile.Profile()
        profile.runcall(one.ours)
        pstats.Stats(profile).sort_stats("tottime").print_stats(r"isthmus|tokenizers|PIL|numpy", 12)


def measured(name: str, work: Workload, options: argparse.Namespace) -> None:
    several = list(FAMILIES[name](work))
    for one in several:
        one.ours()  # loads what is loaded late
        told(name, one, options)
    if getattr(several[0].encoder, "text", None) is not None:
        rate = input_path(several[0].encoder, work.texts, options.times)
        print(f"{name + ':':<11} {rate:9.0f} texts a second through the input path, without the model", flush=True)


def main(options: argparse.Namespace) -> None:
    torch.manual_seed(0)
    only = options.only.split(",") if options.only else list(FAMILIES)
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        folder = Path(place)
        noise = np.random.default_rng(0).normal(size=(options.sounds, 10 * RATE)) * 0.1
        for row, samples in enumerate(noise):
            soundfile.write(folder / f"{row}.wav", samples, RATE)
        sounds = [Document(id=str(row), audio=folder / f"{row}.wav") for row in range(options.sounds)]
        photos = [Document(id=str(row), image=data) for row, data in enumerate(many(options.photos))]
        work = Workload(folder, sorted(queries()[: options.texts], key=len), photos, sounds, stack)
        for name in only:
            missing = [module for module in encoders.KINDS[name].needs if find_spec(module) is None]
            if missing:
                print(f"{name + ':':<11} not measured: {', '.join(missing)} is not installed", flush=True)
            else:
                measured(name, work, options)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help=f"families, as in st,hf; default: {','.join(FAMILIES)}")
    parser.add_argument("--texts", type=int, default=256, help="how many")
    parser.add_argument("--photos", type=int, default=64, help="how many")
    parser.add_argument("--sounds", type=int, default=8, help="how many")
    parser.add_argument("--times", type=int, default=2, help="runs, of which the fastest counts")
    parser.add_argument("--profile", action="store_true", help="show where the time outside the models goes")
    main(parser.parse_args())
