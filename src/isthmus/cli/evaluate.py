"""``isthmus evaluate``: compare calibrations on a benchmark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from isthmus import encoders
from isthmus.calibration import Fitted
from isthmus.calibration import load as load_calibration
from isthmus.cli import progress
from isthmus.cli.index import SKIPPED
from isthmus.cli.options import ENCODERS, Device, Json, Precision, Quiet, Threads, TrustRemoteCode
from isthmus.cli.terminal import echo, line, safe_json
from isthmus.encoders.base import FULL
from isthmus.errors import BadInput

if TYPE_CHECKING:
    from isthmus.encoders import Encoder
    from isthmus.evaluate.benchmarks import Benchmark

COMPARED = (
    "none,minmax,zscore,rrf,center,dn,standardize,nnn(k=16),qbnorm,dbnorm,center+nnn(k=16)+standardize,auto,alone"
)


def evaluate(  # noqa: PLR0913 - one name per option
    benchmark: Annotated[
        str, typer.Argument(help="the benchmark: flickr8k-mix, beir:scifact, mixtures:coco, mixtures …")
    ],
    data: Annotated[Path, typer.Option(envvar="ISTHMUS_DATA", help="the folder with its files")],
    encoder: Annotated[
        str,
        typer.Option(envvar="ISTHMUS_ENCODER", help=ENCODERS),
    ] = "mini",
    calibration: Annotated[
        str, typer.Option(help="comma-separated specs; auto; alone: each modality searched separately")
    ] = COMPARED,
    measure: Annotated[
        str, typer.Option(help="comma-separated measures: nDCG@10, R@1, MRR@20, hit@5, P@10 …")
    ] = "nDCG@10",
    positives: Annotated[
        str, typer.Option(help="statistics of standardize from pseudo-positives (pseudo) or known pairs (labelled)")
    ] = "pseudo",
    sources: Annotated[
        str, typer.Option(help="reference queries apart from their own documents (apart), or not (as-published)")
    ] = "apart",
    means: Annotated[
        str | None,
        typer.Option(help="means of: train (the benchmark's training split), own (the searched documents), or a file"),
    ] = None,
    fusion: Annotated[
        float | None, typer.Option(min=0, max=1, help="weight of the text in documents of text and image; default: 0.5")
    ] = None,
    align: Annotated[
        str | None, typer.Option(help="align queries first: caption, forge-mini, forge:MODEL …; +image keeps pictures")
    ] = None,
    form: Annotated[str, typer.Option(help="text, markdown or csv")] = "text",
    device: Device = "cpu",
    precision: Precision = FULL,
    trust_remote_code: TrustRemoteCode = False,
    threads: Threads = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Compare calibrations on a benchmark: a table with 95% confidence intervals, by modality and query type.

        isthmus evaluate flickr8k-mix --data DIR --calibration none,rrf,auto

    Calibrations are fitted on reference queries of another split of the benchmark, or on the built-in query bank if it
    has none; the gallery of dbnorm is the documents of that split, or the bank. The means that center and dn subtract
    are those of the other split's documents if it has some, else of the searched ones; --means chooses, also those of a
    saved calibration. A name that stands for several benchmarks (mixtures, mixtures:dev, the domains of mm-bright)
    adds a table of their means.
    """
    from isthmus.evaluate import check_means, compare, render
    from isthmus.evaluate.benchmarks import expand, load
    from isthmus.evaluate.compare import conditions, needs_gallery
    from isthmus.evaluate.encode import encoded
    from isthmus.evaluate.table import mean_rows

    origin = load_calibration(means) if means and Path(means).is_file() else means
    check_means(origin)
    skipped: list[str] = []

    def skip(name: str, problem: BadInput) -> None:
        skipped.append(name)
        echo(f"Skipped {name!r}: {line(problem)}", err=True)

    def notice(name: str, fitted: Fitted | None) -> None:
        chosen = f" (chose {fitted.spec})" if fitted is not None and name == "auto" else ""
        if not quiet:
            echo(f"evaluating {name}{chosen}", err=True)

    specs, measures = split(calibration), split(measure)
    gallery = needs_gallery(specs)
    conditions(positives, sources)
    read = [load(name, data) for name in expand(benchmark, data)]
    for each in [] if quiet else read:
        echo(repr(each), err=True)
    with progress.counting("encoding", "items", quiet=quiet) as update:
        loaded = encoders.load(
            encoder,
            device=device,
            precision=precision,
            threads=threads,
            trust_remote_code=trust_remote_code,
            progress=update,
        )
        read = [_aligned(each, align, loaded, quiet=quiet) for each in read] if align else read
        corpora = [encoded(each, loaded, skip, gallery=gallery) for each in read]
    corpora = [corpus.with_conditions(positives=positives, sources=sources) for corpus in corpora]
    corpora = [each.with_means(origin) for each in corpora]
    if fusion is not None:
        corpora = [each.fused(fusion) for each in corpora]
    rows = [row for corpus in corpora for row in compare(corpus, specs, measures, notice=notice)]
    if len(corpora) > 1:
        rows += mean_rows(rows, f"mean of {benchmark}")
    written = render(rows, "json" if json else form)
    echo(safe_json(written) if json or form == "json" else written)
    if skipped:
        raise typer.Exit(SKIPPED)


def _aligned(benchmark: Benchmark, name: str, encoder: Encoder, *, quiet: bool) -> Benchmark:
    from isthmus import align
    from isthmus.evaluate.aligned import aligned

    found = aligned(benchmark, align.load(name, encoder=encoder))
    if not quiet:
        echo(f"{benchmark.name}: {found.summary}", err=True)
    return found.benchmark


def split(text: str) -> list[str]:
    """Split at commas outside brackets.

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
