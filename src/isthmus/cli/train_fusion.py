"""``isthmus train fusion``: one vector for documents that hold text and image."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from isthmus.cli.terminal import echo


def train_fusion(  # noqa: PLR0913 - one name per wish
    data: Annotated[Path, typer.Option(help="folder with pairs in the layout of the Mr. Right benchmark")],
    out: Annotated[Path, typer.Option(help="where the encoder and the log go")] = Path("fusion"),
    towers: Annotated[str, typer.Option(help="mini, or onnx:FOLDER with a text and an image tower")] = "mini",
    text_tensor: Annotated[str | None, typer.Option(help="the text tower's token states, where it is not mini")] = None,
    image_tensor: Annotated[
        str | None, typer.Option(help="the image tower's feature map, where it is not mini")
    ] = None,
    device: Annotated[str, typer.Option(envvar="ISTHMUS_DEVICE", help="cuda or cpu")] = "cpu",
    steps: Annotated[int, typer.Option(min=0, help="of pre-training")] = 300,
    later_steps: Annotated[int, typer.Option(min=0, help="of fine-tuning")] = 100,
    batch: Annotated[int, typer.Option(min=2, help="documents in a batch")] = 512,
    queue: Annotated[int, typer.Option(min=0, help="recent representations to contrast with")] = 2048,
    rate: Annotated[
        float | None, typer.Option(min=0, help="of what begins as the towers' vectors; 0, with --paper 1e-5")
    ] = None,
    merge_layers: Annotated[
        int | None, typer.Option(min=0, help="of attention over both parts; 0, the paper 2")
    ] = None,
    match_layers: Annotated[
        int | None, typer.Option(min=0, help="of the matcher's transformer; 0, the paper 2")
    ] = None,
    paper: Annotated[
        bool, typer.Option("--paper", help="the paper's own: one mean, merge attention, its negatives")
    ] = False,
    seed: Annotated[int, typer.Option(help="of every draw")] = 0,
    small: Annotated[bool, typer.Option("--small/--float", help="8-bit weights in the ONNX files")] = True,
) -> None:
    """Train one representation of text and image (Mr. Right), and a matcher, over towers that stay as they are.

    Run again with the same options it goes on where it stopped.
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
        report=lambda line: echo(line, err=True),
    )
    echo(f"The encoder is in {out}: isthmus.encoders.load('onnx:{out}')")
