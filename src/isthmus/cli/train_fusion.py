"""``isthmus train fusion``: one vector for documents with text and image."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from isthmus.cli.options import Quiet
from isthmus.cli.terminal import echo, reporter


def train_fusion(  # noqa: PLR0913 - one name per option
    data: Annotated[Path, typer.Option(help="folder with pairs, laid out as the Mr. Right benchmark")],
    out: Annotated[Path, typer.Option(help="output folder for the encoder and the log")] = Path("fusion"),
    towers: Annotated[str, typer.Option(help="mini, or onnx:FOLDER with a text and an image tower")] = "mini",
    text_tensor: Annotated[
        str | None, typer.Option(help="name of the text tower's token states; default: mini's")
    ] = None,
    image_tensor: Annotated[
        str | None, typer.Option(help="name of the image tower's feature map; default: mini's")
    ] = None,
    device: Annotated[str, typer.Option(envvar="ISTHMUS_DEVICE", help="cuda or cpu")] = "cpu",
    steps: Annotated[int, typer.Option(min=0, help="steps of pre-training")] = 300,
    later_steps: Annotated[int, typer.Option(min=0, help="steps of fine-tuning")] = 100,
    batch: Annotated[int, typer.Option(min=2, help="documents per batch")] = 512,
    queue: Annotated[int, typer.Option(min=0, help="number of recent representations used as negatives")] = 2048,
    choosing: Annotated[
        int, typer.Option(min=0, help="further steps for the side of each word alone; they are cheap")
    ] = 0,
    matched: Annotated[int, typer.Option(min=1, help="queries of a batch that the matcher reads")] = 128,
    noise: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="perturbation of pictures that the towers were trained on; 0 for new pictures; default: 0.85, with "
            "--paper 0",
        ),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(
            min=0, help="learning rate of weights that start as the towers' vectors; default: 0, with --paper 1e-5"
        ),
    ] = None,
    merge_layers: Annotated[
        int | None, typer.Option(min=0, help="attention layers over both parts; default: 0, with --paper 2")
    ] = None,
    match_layers: Annotated[
        int | None, typer.Option(min=0, help="layers of the matcher; default: 0, with --paper 2")
    ] = None,
    paper: Annotated[
        bool, typer.Option("--paper", help="use the settings of the paper: one mean, merge attention, its negatives")
    ] = False,
    seed: Annotated[int, typer.Option(help="random seed")] = 0,
    small: Annotated[
        bool, typer.Option("--small/--float", help="store 8-bit weights in the ONNX files, or floats")
    ] = True,
    quiet: Quiet = False,
) -> None:
    """Train one vector for documents with text and image, and a matcher, on frozen towers.

    The method is that of the Mr. Right benchmark. The same command continues an interrupted run.
    """
    from isthmus.encoders.tokens import IMAGE, TEXT
    from isthmus.train.fusion.make import make_fusion
    from isthmus.train.fusion.recipe import PAPERS, FusionRecipe

    usual = PAPERS if paper else FusionRecipe()
    recipe = replace(
        usual,
        steps={"pretrain": steps, "finetune": later_steps},
        batch=batch,
        queue=queue,
        matched=matched,
        choosing=choosing,
        noise=usual.noise if noise is None else noise,
        slow=usual.slow if rate is None else rate,
        merge=usual.merge if merge_layers is None else merge_layers,
        match=usual.match if match_layers is None else match_layers,
        seed=seed,
    )
    make_fusion(
        data,
        out,
        recipe=recipe,
        towers=towers,
        tensors=(text_tensor or TEXT, image_tensor or IMAGE),
        device=device,
        small=small,
        report=reporter(quiet=quiet),
    )
    echo(f"The encoder is in {out}: isthmus.encoders.load('onnx:{out}')")
