"""Training a rewriter by reinforcement: the terms are the equations, and a tiny model learns a task that can be solved."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig, PreTrainedTokenizerFast

from isthmus.align.retrievers import Bm25
from isthmus.errors import BadInput
from isthmus.train import forge, warmup
from isthmus.train.forge import Lesson, Policy, Recipe, Rewrites
from isthmus.train.reward import Retrieval

THINGS = ["cat", "dog", "moon", "rain", "salt", "iron"]
CHATTER = ["hi", "all", "my", "is", "odd", "thanks", "please", "well", "so", "oh", "you", "know", "ok", "right"]
PAD, END = 0, 1


def tokenizer() -> Any:
    words = {word: place for place, word in enumerate(["<pad>", "<end>", "<unk>", *THINGS, *CHATTER, "search", ":"])}
    split = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    split.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=split, eos_token="<end>", pad_token="<pad>", unk_token="<unk>")


def policy(kind: str = "llama", seed: int = 0) -> Policy:
    torch.manual_seed(seed)
    words = tokenizer()
    shared = {"vocab_size": len(words), "bos_token_id": None, "eos_token_id": END, "pad_token_id": PAD}
    config: Any
    if kind == "llama":
        config = LlamaConfig(
            **shared, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2, head_dim=16
        )
    else:
        config = GPT2Config(**shared, n_embd=32, n_layer=2, n_head=2, n_positions=64)
    return Policy(AutoModelForCausalLM.from_config(config), words, prompt="search :", new=4)


def lessons() -> list[Lesson]:
    """Each message is chatter around one thing."""
    rng = np.random.default_rng(0)
    made = []
    for row in range(24):
        thing, chatter = THINGS[row % len(THINGS)], rng.choice(CHATTER, 3)
        made.append(Lesson(f"q{row}", f"{chatter[0]} {chatter[1]} {thing} {chatter[2]}", thing))
    return made


def worth() -> Retrieval:
    """A library with one text about each thing."""
    qrels = {lesson.id: {str(lesson.target): 1} for lesson in lessons()}
    return Retrieval(Bm25(THINGS, THINGS), qrels)


def rewards(out: Path) -> list[float]:
    return [json.loads(line)["reward"] for line in (out / "log.jsonl").read_text().splitlines()]


QUICK = Recipe(steps=60, queries=12, rate=5e-3, warm=5, every=20)


def test_a_tiny_model_learns_to_say_what_finds_the_document(tmp_path: Path) -> None:
    made = policy()
    forge.train(QUICK, made, lessons(), worth(), tmp_path)
    curve = rewards(tmp_path)
    print(curve)
    assert np.mean(curve[:5]) < 0.3
    assert np.mean(curve[-5:]) > np.mean(curve[:5]) + 0.4
