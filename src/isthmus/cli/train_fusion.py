"""``isthmus train fusion``: one vector for documents that hold text and image."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def train_fusion(  # noqa: PLR0913 - one name per wish
    data: Annotated[Path, typer.Option(help="folder with pairs in the layout of the Mr. Right benchmark")],
    out: Annotated[Path, typer.Option(help="where the encoder and the log go")] = Path("fusion"),
    towers: Annotated[str, typer.Option(help="mini, or onnx:FOLDER with a text and an image tower")] = "mini",
    text_tensor: Annotated[str | None, typer.Option(help="the text tower's token states, where it is not mini")] = None,
    image_tensor: Annotated[
        str | None, typer.Option(help="the image tower's feature map, where it is not mini")
    ] = None,
    device: Annotated[str, typer.Option(envvar="ISTHMUS_DEVICE", help="cuda or cpu")] = "cpu",
    steps: Annotated[int, typer.Option(min=0, help="of pre-training")] = 900,
    later_steps: Annotated[int, typer.Option(min=0, help="of fine-tuning")] = 300,
    batch: Annotated[int, typer.Option(min=2, help="documents in a batch")] = 128,
    queue: Annotated[int, typer.Option(min=0, help="recent representations to contrast with")] = 2048,
    rate: Annotated[
        float | None, typer.Option(min=0, help="of what begins as the towers' vectors; 0, with --paper 1e-5")
    ] = None,
    paper: Annotated[bool, typer.Option("--paper", help="pool and call documents wrong as the paper does")] = False,
    seed: Annotated[int, typer.Option(help="of every draw")] = 0,
    small: Annotated[bool, typer.Option("--small/--float", help="8-bit weights in the ONNX files")] = True,
) -> None:
    """Train one representation of text and image (Mr. Right), and a matcher, over towers that stay as they are."""
    from isthmus.encoders.tokens import IMAGE, TEXT
    from isthmus.train.fusion.loop import Recipe
    from isthmus.train.fusion.make import make_fusion

    recipe = Recipe(
        steps={"pretrain": steps, "finetune": later_steps},
        batch=batch,
        queue=queue,
        slow=(1e-5 if paper else 0.0) if rate is None else rate,
        paper=paper,
        pool="mean" if paper else "kinds",
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
        report=lambda line: typer.echo(line, err=True),
    )
    typer.echo(f"The encoder is in {out}: isthmus.encoders.load('onnx:{out}')")
