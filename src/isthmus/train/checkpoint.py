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

from isthmus.atomic import replacing

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
