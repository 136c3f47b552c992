"""``isthmus train``: its commands, from data to an encoder's folder.

make_mini     train the text tower of both embedded encoders, then mini's image tower, export
make_lens     mine hard negatives, train, export
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from isthmus.align.retrievers import Bm25
from isthmus.encoders.clip_source import find_clip
from isthmus.encoders.projection import ClipProjection
from isthmus.errors import BadInput
from isthmus.train import base, checkpoint, judged, lens, mini, pictures, sentence
from isthmus.train.base import BaseRecipe
from isthmus.train.export import export
from isthmus.train.frozen_clip import FrozenClip
from isthmus.train.mini import MiniRecipe
from isthmus.train.pace import TrainingPace
from isthmus.train.towers import Pretrained, minilm


def make_mini(
    data: Path,
    out: Path,
    *,
    device: str,
    weights: tuple[Path | None, Path | None] = (None, None),
    limit: int | None = None,
    recipes: tuple[BaseRecipe, MiniRecipe] | None = None,
    clip: FrozenClip | None = None,
    report: Callable[[str], object] = str,
) -> None:
    """Train the text tower and the projection of ``base``, then the image tower of ``mini``, and write both.

    ``data`` holds packed sets (``isthmus.train.data``). ``out/base`` and ``out/mini`` are the encoders' folders;
    ``out/runs`` keeps logs and checkpoints, and a second call resumes. ``clip`` is the frozen image tower; default: the
    one that ``base`` uses. ``report`` receives lines of progress.
    """
    for_base, for_mini = recipes or (BaseRecipe(), MiniRecipe())
    text, image = weights
    pretrained = Pretrained(text, image) if text and image else Pretrained.installed(for_mini.backbone)
    clip = (clip or installed_clip()).to(device)
    sets = pictures.load(data, device, limit=limit, report=report)
    report(f"{sets.left_out} training photos are almost one of dev or test: left out")
    taught = _base(for_base, sets, clip, pretrained.text, data, out / "runs" / "base", device, report)
    model = mini.begin(for_mini, taught, pretrained.text, pretrained.image, device)
    lesson = mini.prepare(for_mini, taught, clip, sets.train, pretrained.text)
    student = mini.train(for_mini, model, lesson, out / "runs" / "mini", progress=TrainingPace("mini", report))
    report("writing the encoders")
    export(student, pretrained.text / "tokenizer.json", out / "mini", name="mini", size=for_mini.size)
    ClipProjection.write(out / "base", taught.projection.arrays(), text="../mini")  # the text tower made here


def installed_clip() -> FrozenClip:
    """Return CLIP's image tower from where ``base`` finds it."""
    tower = find_clip().read()
    return FrozenClip.of({name: tower.array(name) for name in tower.weights})


def _base(
    recipe: BaseRecipe,
    sets: pictures.PictureSets,
    clip: FrozenClip,
    text: Path,
    data: Path,
    run: Path,
    device: str,
    report: Callable[[str], object],
) -> base.Base:
    """Train ``base``'s text tower and projection, or read them if the run is complete."""
    model = base.begin(recipe, text, clip, device)
    saved = checkpoint.load(run, device)
    if saved is not None:
        checkpoint.check_recipe(run, saved, asdict(recipe))
    if saved is not None and saved["step"] >= recipe.steps:
        model.load_state_dict(saved["models"][1])
        return model.eval().requires_grad_(False)
    lesson = base.prepare(recipe, model, clip, sets.train, held_texts(data), text, report=report)
    return base.train(recipe, model, lesson, run, progress=TrainingPace("base", report)).requires_grad_(False)


def held_texts(data: Path) -> tuple[list[str], list[str]]:
    """Return the sentences and passages whose vectors training preserves."""
    return _texts(data / "sentences.json"), _texts(data / "passages.json")


def _texts(path: Path) -> list[str]:
    return list(json.loads(path.read_text("utf-8"))) if path.exists() else []


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
