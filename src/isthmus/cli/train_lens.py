"""``isthmus train lens``: fine-tune a sentence encoder on queries whose right documents are known."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from isthmus.cli.terminal import echo


def train_lens(  # noqa: PLR0913 - one name per wish
    data: Annotated[Path, typer.Option(help="folder with corpus.jsonl, queries.jsonl and qrels/train.tsv (BEIR)")],
    out: Annotated[Path, typer.Option(help="where the encoder, the log and the checkpoint go")] = Path("lens"),
    start: Annotated[
        str | None, typer.Option(help="a sentence-transformers name or folder; else the installed MiniLM")
    ] = None,
    device: Annotated[str, typer.Option(envvar="ISTHMUS_DEVICE", help="cuda or cpu")] = "cpu",
    epochs: Annotated[int, typer.Option(min=1, help="at most; the best one is kept")] = 6,
    batch: Annotated[int, typer.Option(min=2, help="queries in a batch")] = 32,
    rate: Annotated[float, typer.Option(min=0, help="learning rate, after the warm-up")] = 5e-5,
    negatives: Annotated[int, typer.Option(min=0, help="hard negatives of each query")] = 7,
    depth: Annotated[int, typer.Option(min=1, help="how far down BM25's and the start's lists they are taken")] = 20,
    skip: Annotated[int, typer.Option(min=0, help="first negatives left out: they may be right, and not judged")] = 0,
    length: Annotated[int, typer.Option(min=8, help="tokens of a document that are read in training")] = 256,
    apart: Annotated[
        bool, typer.Option("--apart", help="decide by queries that share no right document with those learned from")
    ] = False,
    seed: Annotated[int, typer.Option(help="of every draw")] = 0,
    half: Annotated[
        bool | None, typer.Option("--half/--float", help="bfloat16; said nothing, on a GPU and not on a CPU")
    ] = None,
    small: Annotated[bool, typer.Option("--small", help="write the ONNX file with 8-bit weights")] = False,
) -> None:
    """Fine-tune a sentence encoder with hard negatives, for `st:OUT/st` and `onnx:OUT/onnx`. Run again, it resumes."""
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
        report=lambda line: echo(line, err=True),
    )
    echo(f"The encoder is in {out}: isthmus.encoders.load('onnx:{out / 'onnx'}'), or 'st:{out / 'st'}'")
