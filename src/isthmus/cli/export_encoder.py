"""``isthmus export-encoder``: write an encoder as a folder that runs without torch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from isthmus._optional import require
from isthmus.cli import progress
from isthmus.cli.options import Quiet
from isthmus.cli.terminal import echo


def export_encoder(
    name: Annotated[str, typer.Argument(help="the encoder: hf:, st: or open_clip: and its name")],
    out: Annotated[Path, typer.Argument(help="output folder")],
    quiet: Quiet = False,
) -> None:
    """Write an encoder of torch as an onnx: folder, so that it runs without torch.

        isthmus export-encoder hf:openai/clip-vit-base-patch32 clip

    The vectors of the folder are compared with those of the encoder before it is written.
    """
    for module in ("torch", "transformers", "onnx"):
        require(module, extra="hf,train")
    from isthmus.train.export_encoder import export_encoder as export  # late: it imports torch

    with progress.waiting("exporting", quiet=quiet):
        written = export(name, out)
    echo(f"{written.dim} dimensions, {', '.join(written.modalities)}: --encoder onnx:{out}")
