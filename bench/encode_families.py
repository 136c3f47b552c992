"""The speed of ``st:`` and ``clap:`` encoders, tokenising and decoding included, relative to their bare models.

    python bench/encode_families.py [--times 3]                        (extras st, hf, sound; nothing is downloaded)

The models have random weights: ``st:`` is a BERT of the size of all-MiniLM-L6, ``clap:`` has transformers' own
defaults, which are those of clap-htsat-unfused. Texts are those of the built-in bank; sounds are files of noise, 10 s
each at 44.1 kHz, so that they are resampled. The bare model gets tensors that are ready. Both alternate, because
machines drift. Read the ratios. *input* is the path of texts without a model: splitting, tokenising, caching.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import sentence_transformers
import soundfile
import torch
import transformers
from encode_hf import END, ENDS, START
from machine import seconds, share
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers

from isthmus import encoders
from isthmus.documents import Document, Query
from isthmus.encoders.bank import queries
from isthmus.encoders.cache import MemoryCache

BATCH, RATE = 32, 44_100


def words() -> Any:
    """Return a tokenizer of the bank's words."""
    made = Tokenizer(models.WordLevel(unk_token=END))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.train_from_iterator(queries(), trainers.WordLevelTrainer(special_tokens=list(ENDS)))
    made.post_processor = processors.TemplateProcessing(single=f"{START} $A {END}", special_tokens=list(ENDS.items()))
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, model_max_length=256, eos_token=END, pad_token=END, unk_token=END
    )


def sentence_model(folder: Path) -> Path:
    """Write a sentence-transformers model of the size of all-MiniLM-L6."""
    reader = words()
    config = transformers.BertConfig(
        vocab_size=len(reader), hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536
    )
    for each in (transformers.BertModel(config), reader):
        each.save_pretrained(folder / "bert")
    sentence_transformers.SentenceTransformer(str(folder / "bert"), device="cpu").save(
        str(folder / "st")
    )  # mean pooling
    return folder / "st"


def clap_model(folder: Path) -> Path:
    """Write a CLAP of the default size."""
    reader = words()
    text = {"vocab_size": len(reader), "max_position_embeddings": 514, "pad_token_id": 1}
    listen = transformers.ClapFeatureExtractor(truncation="rand_trunc")
    for each in (transformers.ClapModel(transformers.ClapConfig(text_config=text)), reader, listen):
        each.save_pretrained(folder / "clap")
    return folder / "clap"


def repeated(call: Callable[..., object], inputs: list[dict[str, Any]]) -> Callable[[], object]:
    """Return a run of a model on tensors that are ready."""

    def run() -> None:
        with torch.inference_mode():
            for each in inputs:
                call(**each)

    return run


def tokens(reader: Any, texts: list[str]) -> list[dict[str, Any]]:
    """Return the tensors of texts, in batches."""
    parts = [reader(texts[at : at + BATCH], padding=True, return_tensors="pt") for at in range(0, len(texts), BATCH)]
    return [{name: part[name] for name in ("input_ids", "attention_mask")} for part in parts]


class NoModel:
    """A text tower that only splits texts."""

    def __init__(self, tower: Any) -> None:
        self.split = tower.split

    def encode(self, passages: Any) -> Any:
        return np.ones((len(passages), 8), dtype=np.float32)


def told(name: str, what: str, count: int, measured: tuple[float, float]) -> None:
    """Print a line."""
    part, taken = measured
    print(f"{name} {count / taken:.1f} {what} a second, {part:.2f} of the bare model", flush=True)


def main(options: argparse.Namespace) -> None:
    torch.manual_seed(0)
    texts = sorted(queries()[: options.texts], key=len)
    asked = [Query(text=text) for text in texts]
    kept = MemoryCache(limit=0)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        st: Any = encoders.load(f"st:{sentence_model(folder)}", cache=kept)
        clap: Any = encoders.load(f"clap:{clap_model(folder)}", cache=kept)
        bert, model = st.text.model.model[0], clap.text.model.model
        ready = tokens(words(), texts)
        features = [{"features": dict(each)} for each in ready]
        told(
            "st:", "texts", len(texts), share(repeated(bert, features), lambda: st.encode_queries(asked), options.times)
        )
        run = repeated(model.get_text_features, ready)
        told("clap:", "texts", len(texts), share(run, lambda: clap.encode_queries(asked), options.times))
        noise = np.random.default_rng(0).normal(size=(options.sounds, 10 * RATE)) * 0.1
        for row, samples in enumerate(noise):
            soundfile.write(folder / f"{row}.wav", samples, RATE)
        heard = [Document(id=str(row), audio=folder / f"{row}.wav") for row in range(options.sounds)]
        silent = {"input_features": torch.zeros(1, 1, 1001, 64), "is_longer": torch.zeros(1, 1, dtype=torch.bool)}
        run = repeated(model.get_audio_features, [silent] * options.sounds)
        told("clap:", "sounds of 10 s", len(heard), share(run, lambda: clap.encode_documents(heard), options.times))
    many = [Query(text=f"{text} {row}") for row in range(16384 // len(texts)) for text in texts]
    for name, encoder in (("st:", st), ("clap:", clap)):
        alone = replace(encoder, text=NoModel(encoder.text), dim=8)
        taken = seconds(partial(alone.encode_queries, many), options.times)
        print(f"{name} input path without the model, {len(many) / taken:.0f} texts a second")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=256, help="how many")
    parser.add_argument("--sounds", type=int, default=8, help="how many")
    parser.add_argument("--times", type=int, default=3, help="runs, of which the fastest counts")
    main(parser.parse_args())
