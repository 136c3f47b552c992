"""``isthmus evaluate``: calibrations beside one another on a benchmark."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from isthmus import encoders
from isthmus.calibration import Fitted
from isthmus.cli.index import SKIPPED
from isthmus.cli.options import Device, Json, Threads
from isthmus.cli.terminal import echo, line, redraw, safe_json
from isthmus.errors import BadInput

COMPARED = "none,minmax,zscore,rrf,center,standardize,nnn(k=16),center+nnn(k=16)+standardize,auto,alone"


def evaluate(
    benchmark: Annotated[str, typer.Argument(help="its name: flickr8k-mix, beir:scifact, mixbench:MSCOCO, docvqa …")],
    data: Annotated[Path, typer.Option(envvar="ISTHMUS_DATA", help="the folder with its files")],
    encoder: Annotated[
        str, typer.Option(envvar="ISTHMUS_ENCODER", help="mini, mini-fusion, onnx:FOLDER, st:NAME, mteb:NAME")
    ] = "mini",
    calibration: Annotated[
        str, typer.Option(help="specs with commas between them; auto; alone: each modality by itself, a yardstick")
    ] = COMPARED,
    measure: Annotated[str, typer.Option(help="nDCG@10, R@1, RR@10, hit@5, P@10, MRR …, with commas")] = "nDCG@10",
    form: Annotated[str, typer.Option(help="text, markdown or csv")] = "text",
    device: Device = "cpu",
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Compare calibrations on a benchmark: a table with 95% intervals, overall, by modality and by query type.

        isthmus evaluate flickr8k-mix --data DIR --calibration none,rrf,auto

    Calibrations are fitted on the benchmark's own reference queries, of another split, and on the built-in bank where
    it has none.
    """
    from isthmus.evaluate import compare, render
    from isthmus.evaluate.benchmarks import load
    from isthmus.evaluate.encode import encoded

    skipped: list[str] = []

    def skip(name: str, problem: BadInput) -> None:
        skipped.append(name)
        echo(f"skipped {name!r}: {line(problem)}", err=True)

    def progress(done: int, total: int) -> None:
        if sys.stderr is not None and sys.stderr.isatty():
            redraw(f"encoding {done:,} of {total:,}", keep=done == total)
        elif done == total:
            echo(f"encoded {total:,}", err=True)

    def notice(name: str, fitted: Fitted | None) -> None:
        took = f" took {fitted.spec}" if fitted is not None and name == "auto" else ""
        echo(f"measuring {name}{took}", err=True)

    read = load(benchmark, data)
    echo(repr(read), err=True)
    corpus = encoded(read, encoders.load(encoder, device=device, threads=threads, progress=progress), skip)
    rows = compare(corpus, split(calibration), split(measure), notice=notice)
    written = render(rows, "json" if json else form)
    echo(safe_json(written) if json or form == "json" else written)
    if skipped:
        raise typer.Exit(SKIPPED)


def split(text: str) -> list[str]:
    """Cut at commas, but for those inside brackets.

    >>> split("none,center+nnn(k=16,alpha=0.5),auto")
    ['none', 'center+nnn(k=16,alpha=0.5)', 'auto']
    """
    parts, depth = [""], 0
    for char in text:
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts if part.strip()]
