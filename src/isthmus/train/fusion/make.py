"""``isthmus train fusion``: read pairs, encode them with the towers once, train, export."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from isthmus import encoders
from isthmus.encoders.base import Settings
from isthmus.encoders.fusion import FusionEncoder
from isthmus.encoders.locations import EMBEDDED
from isthmus.encoders.tokens import IMAGE, TEXT, TokenTowers
from isthmus.errors import BadFile, BadInput
from isthmus.train.fusion import data as pairs
from isthmus.train.fusion import echo
from isthmus.train.fusion.data import TrainingPair
from isthmus.train.fusion.export import Towers, describe, export
from isthmus.train.fusion.features import Report
from isthmus.train.fusion.lessons import lesson
from isthmus.train.fusion.loop import train
from isthmus.train.fusion.recipe import FusionRecipe


def make_fusion(
    data: Path,
    out: Path,
    *,
    recipe: FusionRecipe | None = None,
    towers: str = "mini",
    tensors: tuple[str, str] = (TEXT, IMAGE),
    device: str = "cpu",
    small: bool = True,
    report: Report = str,
) -> None:
    """Train on a set in the layout of Mr. Right, over the towers of ``mini`` or of another encoder's folder.

    ``tensors`` name where the two towers are cut: the text tower's token states, the image tower's feature map. The
    encoder is written to ``out``, the log to ``out/run``.
    """
    recipe = recipe or FusionRecipe()
    check_device(device)
    folder = EMBEDDED[towers] if towers in EMBEDDED else Path(towers.removeprefix("onnx:")).expanduser()
    if out.resolve() == folder.resolve():
        raise BadInput(f"{out} is the folder of the towers. Write the new encoder to another one.")
    text, image = tensors
    below = TokenTowers.open(folder, Settings(), text=text, image=image)
    read = pairs.read(data, seed=recipe.seed)
    if missing := [stage for stage in read.stages if stage not in recipe.steps]:
        raise BadInput(f"{data} has pairs for {missing[0]}, and the recipe has no steps for it.")
    counts = ", ".join(f"{len(several)} to {stage}" for stage, several in read.stages.items())
    report(f"pairs: {counts}, {len(read.held)} held out; {read.left_out} incomplete rows left out")
    stages = {stage: lesson(below, several, device, report) for stage, several in read.stages.items()}
    held = lesson(below, read.held, device, report)
    model = train(recipe, stages, held, out / "run", report=report)
    report("writing the encoder")
    name = towers if towers in EMBEDDED else str(folder.resolve())
    told = Towers(towers=name, identity=below.identity, text=text, image=image)
    export(model, out, told, name=out.resolve().name, small=small)
    if model.query.sides > 1:
        choose_echo(out, told, read.held, report)


def choose_echo(out: Path, towers: Towers, held: Sequence[TrainingPair], report: Report = str) -> None:
    """Choose the echo of an exported encoder on held-out pairs, and write it to its description."""
    encoder = encoders.load(f"onnx:{out}")
    if not isinstance(encoder, FusionEncoder):
        raise BadFile(f"{out} has no [fusion] in its encoder.toml. Train it again.")
    found = echo.chosen(encoder, held)
    report(f"echo: {found.vectors} in vectors, {found.matcher} in the matcher (text, image)")
    told = {"echo": found.vectors, "match_echo": found.matcher}
    describe(out, towers, name=out.resolve().name, dim=encoder.dim, sides=encoder.query.count, **told)


def check_device(device: str) -> None:
    """Reject a GPU that does not exist, before anything is read."""
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise BadInput(
            f"The device {device!r} is not available: torch finds no GPU. Leave --device out to train on the CPU."
        )
