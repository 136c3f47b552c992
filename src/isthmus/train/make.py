"""``isthmus train mini``: train each shipped recipe, take the mean of their weights, write the encoder's folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
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
    report: Callable[[str], object] = str,
) -> None:
    """Train ``SHIPPED`` (with ``changes`` to every recipe) and export the mean; checkpoints under ``out/runs``.

    ``report`` is told what is going on, a line at a time.
    """
    if not (data / "flickr8k" / "Flickr8k.token.txt").exists():
        raise BadInput(f"{data / 'flickr8k'} has no Flickr8k.token.txt. Pass --data, the folder that holds flickr8k/.")
    recipes = [replace(recipe, **(changes or {})) for recipe in SHIPPED]
    text, image = weights
    pretrained = Pretrained(text, image) if text and image else Pretrained.installed(recipes[0].backbone)
    models = []
    for number, recipe in enumerate(recipes):
        place = f"run {number + 1} of {len(recipes)}"
        report(f"{place}: reading photos and sentences")
        tell = partial(_tell, report, place)
        folder = out / "runs" / str(number)
        models.append(train(recipe, pretrained, data, folder, device=device, limit=limit, progress=tell))
    report("writing the encoder")
    export(mean_of(models), pretrained.text / "tokenizer.json", out, name="mini", size=recipes[0].size)


def _tell(report: Callable[[str], object], place: str, step: int, steps: int) -> None:
    report(f"{place}: step {step} of {steps}")
