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


def keep(
    out: Path, step: int, models: Sequence[nn.Module], optimiser: torch.optim.Optimizer, rng: torch.Generator
) -> None:
    """Save the whole state of a training loop."""
    state = {
        "step": step,
        "models": [model.state_dict() for model in models],
        "optimiser": optimiser.state_dict(),
        "rng": rng.get_state(),
        "noise": noise.state(),
    }
    save(out, state)


def resume(out: Path, models: Sequence[nn.Module], optimiser: torch.optim.Optimizer, rng: torch.Generator) -> int:
    """Restore what ``keep`` saved; return the number of steps done."""
    saved = load(out, next(models[0].parameters()).device)
    if saved is None:
        return 0
    for model, state in zip(models, saved["models"], strict=True):
        model.load_state_dict(state)
    optimiser.load_state_dict(saved["optimiser"])
    rng.set_state(saved["rng"].cpu())
    noise.restore(saved["noise"])
    return int(saved["step"])
