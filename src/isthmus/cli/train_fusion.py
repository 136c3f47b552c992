"""``isthmus train fusion``: one vector for documents with text and image."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from isthmus.cli.options import Quiet
from isthmus.cli.terminal import echo, reporter
from isthmus.errors import BadInput

if TYPE_CHECKING:
    from isthmus.train.fusion.recipe import FusionRecipe
    from isthmus.train.mr_right.recipe import MrRightRecipe

FROZEN = ("steps", "later_steps", "choosing", "noise", "text_tensor", "image_tensor")  # of the training without --paper
TRAINED = ("epochs", "later_epochs", "size", "query_tokens", "document_tokens", "keep")  # of that with --paper
NAMES = {"rate": "slow", "merge_layers": "merge", "match_layers": "match"}  # of settings whose options have other names


def train_fusion(  # noqa: PLR0913 - one name per option
    data: Annotated[Path, typer.Option(help="folder with pairs, laid out as the Mr. Right benchmark")],
    out: Annotated[Path, typer.Option(help="output folder for the encoder and the log")] = Path("fusion"),
    towers: Annotated[str, typer.Option(help="mini, or onnx:FOLDER with a text and an image tower")] = "mini",
    device: Annotated[str, typer.Option(envvar="ISTHMUS_DEVICE", help="cuda or cpu")] = "cpu",
    paper: Annotated[
        bool,
        typer.Option(
            "--paper",
            help="train Mr. Right as printed: both towers are trained, one mean over all tokens, a matcher of 6 layers "
            "with [CLS] and two classes, the paper's settings; for a GPU",
        ),
    ] = False,
    one_mean: Annotated[
        bool,
        typer.Option(
            "--one-mean",
            help="on frozen towers: one mean over all tokens, an unsplit query, two layers of merge attention and two "
            "in the matcher",
        ),
    ] = False,
    batch: Annotated[int | None, typer.Option(min=2, help="documents per batch; default: 512, with --paper 64")] = None,
    queue: Annotated[
        int | None,
        typer.Option(min=0, help="recent vectors used as negatives; default: 2048, with --paper 9600"),
    ] = None,
    matched: Annotated[
        int | None,
        typer.Option(min=1, help="queries of a batch that the matcher reads; default: 128, with --paper all"),
    ] = None,
    merge_layers: Annotated[
        int | None,
        typer.Option(min=0, help="attention layers over both parts; default: 0, with --one-mean 2, with --paper 6"),
    ] = None,
    match_layers: Annotated[
        int | None, typer.Option(min=0, help="layers of the matcher; default: 0, with --one-mean 2, with --paper 6")
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="with --paper: the highest learning rate, default 5e-5; otherwise that of weights that start as the "
            "towers' vectors, default 0, with --one-mean 1e-5",
        ),
    ] = None,
    epochs: Annotated[int | None, typer.Option(min=0, help="with --paper: of pre-training; default: 40")] = None,
    later_epochs: Annotated[int | None, typer.Option(min=0, help="with --paper: of fine-tuning; default: 20")] = None,
    size: Annotated[int | None, typer.Option(min=32, help="with --paper: pixels a side; default: 288")] = None,
    query_tokens: Annotated[int | None, typer.Option(min=3, help="with --paper: of a query; default: 40")] = None,
    document_tokens: Annotated[int | None, typer.Option(min=3, help="with --paper: of a text; default: 128")] = None,
    keep: Annotated[
        str | None,
        typer.Option(
            help="with --paper: weights of the best epoch on the held-out pairs, or of the last; default: best"
        ),
    ] = None,
    steps: Annotated[int | None, typer.Option(min=0, help="steps of pre-training; default: 300")] = None,
    later_steps: Annotated[int | None, typer.Option(min=0, help="steps of fine-tuning; default: 100")] = None,
    choosing: Annotated[
        int | None,
        typer.Option(min=0, help="further steps for the side of each word alone; they are cheap; default: 0"),
    ] = None,
    noise: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="perturbation of pictures that the towers were trained on; 0 for new pictures; default: 0.85, with "
            "--one-mean 0",
        ),
    ] = None,
    text_tensor: Annotated[
        str | None, typer.Option(help="name of the text tower's token states; default: mini's")
    ] = None,
    image_tensor: Annotated[
        str | None, typer.Option(help="name of the image tower's feature map; default: mini's")
    ] = None,
    seed: Annotated[int, typer.Option(help="random seed")] = 0,
    small: Annotated[
        bool, typer.Option("--small/--float", help="store 8-bit weights in the ONNX files, or floats")
    ] = True,
    quiet: Quiet = False,
) -> None:
    """Train one vector for documents with text and image, and a matcher.

    Without --paper it is our variant of Mr. Right's method, on frozen towers. The same command continues an interrupted
    run.
    """
    shared = {"batch": batch, "queue": queue, "matched": matched, "rate": rate, "merge_layers": merge_layers}
    shared |= {"match_layers": match_layers}
    trained = dict(zip(TRAINED, (epochs, later_epochs, size, query_tokens, document_tokens, keep), strict=True))
    frozen = dict(zip(FROZEN, (steps, later_steps, choosing, noise, text_tensor, image_tensor), strict=True))
    given = {name: value for name, value in {**shared, **trained, **frozen}.items() if value is not None}
    check(given, paper=paper, one_mean=one_mean)
    if paper:
        from isthmus.train.mr_right.make import make_mr_right

        make_mr_right(
            data,
            out,
            recipe=paper_recipe(given, seed),
            towers=towers,
            device=device,
            small=small,
            report=reporter(quiet=quiet),
        )
    else:
        from isthmus.encoders.tokens import IMAGE, TEXT
        from isthmus.train.fusion.make import make_fusion

        make_fusion(
            data,
            out,
            recipe=frozen_recipe(given, seed, one_mean=one_mean),
            towers=towers,
            tensors=(text_tensor or TEXT, image_tensor or IMAGE),
            device=device,
            small=small,
            report=reporter(quiet=quiet),
        )
    echo(f"The encoder is in {out}: isthmus.encoders.load('onnx:{out}')")


def check(given: Mapping[str, Any], *, paper: bool, one_mean: bool) -> None:
    """Reject options of the other training."""
    if paper and one_mean:
        raise BadInput("--paper trains the towers and --one-mean does not. Choose one of them.")
    if wrong := [name for name in (FROZEN if paper else TRAINED) if name in given]:
        option = f"--{wrong[0].replace('_', '-')}"
        raise BadInput(
            f"{option} is for the training on frozen towers. Leave it out, or leave out --paper."
            if paper
            else f"{option} is for --paper. Add --paper, or leave it out."
        )


def paper_recipe(given: Mapping[str, Any], seed: int) -> MrRightRecipe:
    """Return the paper's settings, changed where an option says so."""
    from isthmus.train.mr_right.recipe import MrRightRecipe

    usual = MrRightRecipe(seed=seed)
    epochs = {"pretrain": given.get("epochs", usual.epochs["pretrain"])}
    epochs["finetune"] = given.get("later_epochs", usual.epochs["finetune"])
    names = {**NAMES, "rate": "rate"}
    settings = {names.get(name, name): value for name, value in given.items() if "epochs" not in name}
    return replace(usual, epochs=epochs, **settings)


def frozen_recipe(given: Mapping[str, Any], seed: int, *, one_mean: bool) -> FusionRecipe:
    """Return the settings of the training on frozen towers."""
    from isthmus.train.fusion.recipe import ONE_MEAN, FusionRecipe

    usual = ONE_MEAN if one_mean else FusionRecipe()
    steps = {"pretrain": given.get("steps", usual.steps["pretrain"])}
    steps["finetune"] = given.get("later_steps", usual.steps["finetune"])
    settings = {NAMES.get(name, name): value for name, value in given.items()}
    for name in ("steps", "later_steps", "text_tensor", "image_tensor"):
        settings.pop(name, None)
    return replace(usual, steps=steps, seed=seed, **settings)
