"""``isthmus train lens``: fine-tune a sentence encoder on queries whose right documents are known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from isthmus.cli.options import Quiet
from isthmus.cli.terminal import echo, reporter


def train_lens(  # noqa: PLR0913 - one name per option
    data: Annotated[Path, typer.Option(help="folder with corpus.jsonl, queries.jsonl and qrels/train.tsv (BEIR)")],
    out: Annotated[Path, typer.Option(help="output folder for the encoder, the log and the checkpoint")] = Path("lens"),
    start: Annotated[
        str | None,
        typer.Option(help="a sentence-transformers name or folder; default: the installed MiniLM, or that of --paper"),
    ] = None,
    paper: Annotated[
        bool, typer.Option("--paper", help="settings of BRIDGE: Qwen3-Embedding-4B, batch 512, rate 1e-5, 3 epochs")
    ] = False,
    device: Annotated[str, typer.Option(envvar="ISTHMUS_DEVICE", help="cuda or cpu")] = "cpu",
    epochs: Annotated[
        int | None, typer.Option(min=1, help="maximum number of epochs; the best one is kept; default: 6")
    ] = None,
    batch: Annotated[int | None, typer.Option(min=2, help="queries per batch; default: 32")] = None,
    rate: Annotated[float | None, typer.Option(min=0, help="learning rate after the warm-up; default: 5e-5")] = None,
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
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="any setting of the recipe: temperature=0.05, shares=1, held=0.2")
    ] = None,
    small: Annotated[bool, typer.Option("--small", help="write the ONNX file with 8-bit weights")] = False,
    quiet: Quiet = False,
) -> None:
    """Fine-tune a sentence encoder with hard negatives.

    The result loads as `st:OUT/st` and `onnx:OUT/onnx`. The same command continues an interrupted run.
    """
    from isthmus.train import bridge_settings
    from isthmus.train.lens import LensRecipe
    from isthmus.train.make import make_lens
    from isthmus.train.settings import changed

    base = bridge_settings.LENS if paper else LensRecipe()
    recipe = replace(
        base,
        epochs=epochs or base.epochs,
        batch=batch or base.batch,
        rate=base.rate if rate is None else rate,
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
        start=start or (bridge_settings.LENS_MODEL if paper else None),
        recipe=changed(recipe, settings or []),
        device=device,
        half=half,
        small=small,
        report=reporter(quiet=quiet),
    )
    echo(f"The encoder is in {out}: isthmus.encoders.load('onnx:{out / 'onnx'}'), or 'st:{out / 'st'}'")
