"""``isthmus train mini``: train each shipped recipe, take the mean of their weights, write the encoder's folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from isthmus.errors import BadInput
from isthmus.train.export import export
from isthmus.train.mini import SHIPPED, mean_of, train
from isthmus.train.towers import Pretrained


def make_mini(
    data: Path,
    out: Path,
    *,
    device: str,
    weights: tuple[Path | None, Path | None] = (None, None),
    limit: int | None = None,
    changes: Mapping[str, Any] | None = None,
) -> None:
    """Train ``SHIPPED`` (with ``changes`` to every recipe) and export the mean; checkpoints under ``out/runs``."""
    if not (data / "flickr8k" / "Flickr8k.token.txt").exists():
        raise BadInput(f"{data / 'flickr8k'} has no Flickr8k.token.txt. Pass --data, the folder that holds flickr8k/.")
    recipes = [replace(recipe, **(changes or {})) for recipe in SHIPPED]
    text, image = weights
    pretrained = Pretrained(text, image) if text and image else Pretrained.installed(recipes[0].backbone)
    models = [
        train(recipe, pretrained, data, out / "runs" / str(number), device=device, limit=limit)
        for number, recipe in enumerate(recipes)
    ]
    export(mean_of(models), pretrained.text / "tokenizer.json", out, name="mini", size=recipes[0].size)
