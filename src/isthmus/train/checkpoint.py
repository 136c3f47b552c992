"""Checkpoints: every trainer writes them to its folder, and resumes from them.

OUT/checkpoint.pt     the state of the training, replaced atomically
OUT/log.jsonl         a line for each measurement
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from isthmus.atomic import replacing
from isthmus.errors import BadInput
from isthmus.train import noise

CHECKPOINT = "checkpoint.pt"
LOG = "log.jsonl"


def save(out: Path, state: Mapping[str, Any]) -> None:
    """Write the checkpoint of a folder."""
    with replacing(out / CHECKPOINT) as draft:
        torch.save(dict(state), draft)


def load(out: Path, device: torch.device | str = "cpu") -> dict[str, Any] | None:
    """Return the checkpoint; None if there is none."""
    path = out / CHECKPOINT
    if not path.exists():
        return None
    saved: dict[str, Any] = torch.load(path, map_location=device, weights_only=True)
    return saved


def changed(saved: Mapping[str, Any], now: Mapping[str, Any], free: Sequence[str] = ()) -> list[str]:
    """Return the names of settings that differ from a saved recipe's, except the ``free`` ones.

    >>> changed({"steps": 10, "rate": 0.1}, {"steps": 20, "rate": 0.2}, free=["steps"])
    ['rate']
    """
    return [name for name, value in now.items() if name not in free and saved[name] != value]


def log(out: Path, row: Mapping[str, Any]) -> None:
    """Add a line to the log."""
    with (out / LOG).open("a") as file:
        file.write(json.dumps(row) + "\n")


def check_recipe(out: Path, saved: Mapping[str, Any], recipe: Mapping[str, Any]) -> None:
    """Reject the checkpoint of a training with other settings."""
    before = saved["recipe"]
    if other := changed(before, recipe):
        told = ", ".join(f"{name} ({before[name]}, now {recipe[name]})" for name in other)
        raise BadInput(f"{out} has a training with another {told}. Continue with that, or write to another folder.")


def keep(
    out: Path,
    step: int,
    models: Sequence[nn.Module],
    optimiser: torch.optim.Optimizer,
    rng: torch.Generator,
    recipe: Mapping[str, Any],
) -> None:
    """Save the whole state of a training loop, and its settings."""
    state = {
        "recipe": dict(recipe),
        "step": step,
        "models": [model.state_dict() for model in models],
        "optimiser": optimiser.state_dict(),
        "rng": rng.get_state(),
        "noise": noise.state(),
    }
    save(out, state)


def resume(
    out: Path,
    models: Sequence[nn.Module],
    optimiser: torch.optim.Optimizer,
    rng: torch.Generator,
    recipe: Mapping[str, Any],
) -> int:
    """Restore what ``keep`` saved with the same settings; return the number of steps done."""
    saved = load(out, next(models[0].parameters()).device)
    if saved is None:
        return 0
    check_recipe(out, saved, recipe)
    for model, state in zip(models, saved["models"], strict=True):
        model.load_state_dict(state)
    optimiser.load_state_dict(saved["optimiser"])
    rng.set_state(saved["rng"].cpu())
    noise.restore(saved["noise"])
    return int(saved["step"])
