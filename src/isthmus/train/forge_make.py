"""``isthmus train forge-mini``: read claims and captions, teach, reinforce, write the rewriter as one file.

FILE            the rewriter, as ONNX; ``isthmus.align.mini.load(FILE)`` opens it
FILE.jsonl      a line per step: the loss of supervised steps; reward and share of words kept of the others
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import torch

from isthmus.align.reading import WindowReader
from isthmus.align.retrievers import Cached
from isthmus.atomic import replacing
from isthmus.train import forge_data
from isthmus.train.forge_data import HELD_OUT
from isthmus.train.forge_mini import (
    ForgeMiniPolicy,
    ForgeMiniRecipe,
    TrainingCurve,
    export,
    reinforced,
    supervised,
)


def make_forge_mini(
    data: Path,
    out: Path,
    *,
    recipe: ForgeMiniRecipe,
    device: str = "cpu",
    held_out: int = HELD_OUT,
    report: Callable[[str], object] = str,
) -> None:
    """Train on queries of several domains in many styles (``forge_data``); ``data`` holds scifact/ and flickr8k/.

    The last ``held_out`` claims are not used for training. A recipe without ``rl_steps`` makes the supervised model;
    one without ``sft_steps`` starts reinforcement from random weights.
    """
    corpora, several = forge_data.training(data, held_out)
    learned = forge_data.examples(several, WindowReader.open(1), os.cpu_count() or 1, report)
    torch.manual_seed(recipe.seed)
    policy = ForgeMiniPolicy(recipe).to(device)
    curves: dict[str, TrainingCurve] = {}
    if recipe.sft_steps:
        curves["sft"] = supervised(policy, learned, recipe, device, report)
        policy.lean(recipe.keep)
    if recipe.rl_steps:
        report(f"encoding {sum(len(corpus.ids) for corpus in corpora)} texts that are searched")
        retrievers = [[Cached(each) for each in corpus.retrievers()] for corpus in corpora]
        judged = [each for each in learned if each.right]
        curves["rl"] = reinforced(policy, judged, retrievers, recipe, device, report=report)
    out.parent.mkdir(parents=True, exist_ok=True)
    with replacing(out) as draft:
        export(policy, draft)
    rows = [{"stage": stage, **row} for stage, curve in curves.items() for row in curve.rows]
    out.with_name(f"{out.name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
