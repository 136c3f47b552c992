"""``isthmus train lens``: fine-tune a sentence encoder on queries whose right documents are known."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from isthmus.cli.options import Quiet
from isthmus.cli.terminal import echo, reporter


def train_lens(  # noqa: PLR0913 - one name per option
    data: Annotated[Path, typer.Option(help="folder with corpus.jsonl, queries.jsonl and qrels/train.tsv (BEIR)")],
    out: Annotated[Path, typer.Option(help="output folder for the encoder, the log and the checkpoint")] = Path("lens"),
    start: Annotated[
        str | None, typer.Option(help="a sentence-transformers name or folder; default: the installed MiniLM")
    ] = None,
    device: Annotated[str, typer.Option(envvar="ISTHMUS_DEVICE", help="cuda or cpu")] = "cpu",
    epochs: Annotated[int, typer.Option(min=1, help="maximum number of epochs; the best one is kept")] = 6,
    batch: Annotated[int, typer.Option(min=2, help="queries per batch")] = 32,
    rate: Annotated[float, typer.Option(min=0, help="learning rate after the warm-up")] = 5e-5,
    negatives: Annotated[int, typer.Option(min=0, help="hard negatives per query")] = 7,
    depth: Annotated[
        int, typer.Option(min=1, help="depth of the BM25 and encoder rankings that negatives come from")
    ] = 20,
    skip: Annotated[
        int, typer.Option(min=0, help="number of top negatives to skip, since they may be unjudged right answers")
    ] = 0,
    length: Annotated[int, typer.Option(min=8, help="maximum tokens per document in training")] = 256,
    apart: Annotated[
        bool, typer.Option("--apart", help="validate on queries that share no right document with the training queries")
    ] = False,
    seed: Annotated[int, typer.Option(help="random seed")] = 0,
    half: Annotated[
        bool | None, typer.Option("--half/--float", help="train in bfloat16; default: on a GPU only")
    ] = None,
    small: Annotated[bool, typer.Option("--small", help="write the ONNX file with 8-bit weights")] = False,
    quiet: Quiet = False,
) -> None:
    """Fine-tune a sentence encoder with hard negatives.

    The result loads as `st:OUT/st` and `onnx:OUT/onnx`. The same command continues an interrupted run.
    """
    from isthmus.train.lens import LensRecipe
    from isthmus.train.make import make_lens

    recipe = LensRecipe(
        epochs=epochs,
        batch=batch,
        rate=rate,
        negatives=negatives,
        depth=depth,
        skip=skip,
        length=length,
        apart=apart,
        seed=seed,
    )
    make_lens(
        data,
        out,
        start=start,
        recipe=recipe,
        device=device,
        half=half,
        small=small,
        report=reporter(quiet=quiet),
    )
    echo(f"The encoder is in {out}: isthmus.encoders.load('onnx:{out / 'onnx'}'), or 'st:{out / 'st'}'")
