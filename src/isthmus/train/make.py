"""``isthmus train``: its commands, from data to an encoder's folder.

make_mini     train each shipped recipe, take the mean of their weights, export
make_lens     mine hard negatives, train, export
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from isthmus.align.retrievers import Bm25
from isthmus.errors import BadInput
from isthmus.train import judged, lens, sentence
from isthmus.train.export import export
from isthmus.train.mini import SHIPPED, mean_of, train
from isthmus.train.towers import Pretrained, minilm


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

    ``report`` receives lines of progress.
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


def make_lens(
    data: Path,
    out: Path,
    *,
    start: str | None = None,
    recipe: lens.LensRecipe | None = None,
    device: str = "cpu",
    half: bool | None = None,
    small: bool = False,
    report: Callable[[str], object] = str,
) -> None:
    """Train ``start`` (default: MiniLM) on a set in BEIR's layout; write ``out/st`` and ``out/onnx``.

    ``out/run`` keeps the hard negatives, the log and a checkpoint: a second call resumes. ``half``: in bfloat16;
    default: only on a GPU. ``small``: 8-bit weights in the ONNX file.
    """
    recipe = recipe or lens.LensRecipe()
    name = start or str(minilm())
    known = judged.read(data)
    learned, held = judged.split(known, recipe.held, recipe.seed, apart=recipe.apart)
    report(f"{len(learned)} queries to train on, {len(held)} held out, {len(known.documents)} documents")
    half = device.startswith("cuda") if half is None else half
    model = sentence.SentenceModel.load(name, device, half=half)
    negatives = _negatives(known, model, name, recipe, out / "run" / "negatives.json", report)
    lesson = lens.LensLesson(known, negatives, learned, held)
    trained = lens.train(recipe, model, lesson, out / "run", report=report)
    report("writing the encoder")
    sentence.save(trained, out, name=out.name, small=small)


def _negatives(
    known: judged.Judged,
    model: sentence.SentenceModel,
    start: str,
    recipe: lens.LensRecipe,
    kept: Path,
    report: Callable[[str], object],
) -> Mapping[str, Sequence[str]]:
    """Return the hard negatives of a run, mined once and kept."""
    told = json.dumps([list(known.documents.items()), {name: sorted(right) for name, right in known.right.items()}])
    made = {
        "start": start,
        "depth": recipe.depth,
        "length": recipe.length,
        "data": hashlib.sha256(told.encode()).hexdigest()[:16],
    }
    if kept.exists():
        saved = json.loads(kept.read_text("utf-8"))
        if saved["made"] != made:
            raise BadInput(
                f"{kept} was mined with other settings: {saved['made']}. Continue with those, or write to another "
                "folder."
            )
        return dict(saved["negatives"])
    report("mining hard negatives")
    ids, texts = list(known.documents), list(known.documents.values())
    nearest = sentence.Nearest.of(model, ids, texts, recipe.length)
    negatives = judged.mined(known, [Bm25(ids, texts), nearest], recipe.depth)
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps({"made": made, "negatives": negatives}), "utf-8")
    return negatives
