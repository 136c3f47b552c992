"""``isthmus train fusion --paper``: read pairs, train towers and model, export."""

from __future__ import annotations

from pathlib import Path

import torch

from isthmus.encoders.folder import describe
from isthmus.encoders.locations import EMBEDDED
from isthmus.errors import BadInput
from isthmus.train.fusion import data as pairs
from isthmus.train.fusion.features import Report
from isthmus.train.fusion.make import check_device
from isthmus.train.mr_right.export import export
from isthmus.train.mr_right.loop import train
from isthmus.train.mr_right.measure import held_out
from isthmus.train.mr_right.model import MrRight
from isthmus.train.mr_right.recipe import MrRightRecipe
from isthmus.train.mr_right.start import image_tower, text_tower
from isthmus.train.mr_right.tensors import PairTensors


def make_mr_right(
    data: Path,
    out: Path,
    *,
    recipe: MrRightRecipe | None = None,
    towers: str = "mini",
    device: str = "cpu",
    small: bool = True,
    report: Report = str,
) -> None:
    """Train the paper's model on a set in the layout of Mr. Right, from the towers of ``mini`` or of another folder.

    The encoder is written to ``out``, the log and the checkpoint to ``out/run``.
    """
    recipe = recipe or MrRightRecipe()
    check_device(device)
    folder = tower_folder(towers)
    if out.resolve() == folder.resolve():
        raise BadInput(f"{out} is the folder of the towers. Write the new encoder to another one.")
    words = describe(folder).text
    if words is None:
        raise BadInput(f"{folder} has no text tower. Name an encoder of text and images: mini.")
    read = pairs.read(data, seed=recipe.seed)
    if missing := [stage for stage in read.stages if stage not in recipe.epochs]:
        raise BadInput(f"{data} has pairs for {missing[0]}, and the recipe has no epochs for it.")
    counts = ", ".join(f"{len(several)} to {stage}" for stage, several in read.stages.items())
    report(f"pairs: {counts}, {len(read.held)} held out; {read.left_out} incomplete rows left out")
    stages = {name: PairTensors.of(several, folder, recipe, device, report) for name, several in read.stages.items()}
    held = PairTensors.of(read.held, folder, recipe, device, report)
    model = train(_untrained(folder, recipe), recipe, stages, held, out / "run", report=report)
    last = held_out(model, held, match=True)
    report("held out: " + ", ".join(f"{name} {value:.3f}" for name, value in last.items()))
    report("writing the encoder")
    export(model, folder / words.tokenizer, out, name=out.resolve().name, recipe=recipe, small=small)


def tower_folder(towers: str) -> Path:
    """Return the folder of an embedded encoder, or of ``onnx:FOLDER``."""
    return EMBEDDED[towers] if towers in EMBEDDED else Path(towers.removeprefix("onnx:")).expanduser()


def _untrained(folder: Path, recipe: MrRightRecipe) -> MrRight:
    """Return the model that a training starts from."""
    torch.manual_seed(recipe.seed)
    text, image = text_tower(folder), image_tower(folder, recipe.size, recipe.drop)
    dim: int = text.state_dict()["bert.embeddings.word_embeddings.weight"].shape[1]
    return MrRight(text, image, recipe.shape(dim), recipe.temperature)
