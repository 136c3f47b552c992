"""``isthmus plan``: what a collection of some size takes, before it is made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from isthmus.cli.options import Json
from isthmus.cli.progress import duration
from isthmus.cli.terminal import echo, echo_json
from isthmus.plan import Estimate, Workload, measured
from isthmus.plan import plan as estimates
from isthmus.plan.workload import GIB


def plan(
    documents: Annotated[str, typer.Option(help="how many documents: 250000, 1e9")],
    dim: Annotated[int, typer.Option(help="how many numbers a vector has")] = 512,
    passages: Annotated[float, typer.Option(help="vectors for each document, on average")] = 1.0,
    text_bytes: Annotated[int, typer.Option(help="bytes of text in a document, on average")] = 500,
    references: Annotated[int, typer.Option(help="reference queries of a calibration")] = 4000,
    queries: Annotated[int, typer.Option(help="kinds of query: words alone 1, words and pictures 2, both 3")] = 1,
    memory: Annotated[float, typer.Option(help="GiB of memory in one machine")] = 64.0,
    cores: Annotated[int, typer.Option(help="cores of one machine")] = 16,
    engine: Annotated[str | None, typer.Option(help="one engine, as in the table; default: all")] = None,
    json: Json = False,
) -> None:
    """Estimate memory, disk, build time, machines and the cost of a re-fit for a number of documents.

    Sizes follow from file formats; times from rates that were measured on another machine and are scaled by cores.
    docs/scale.md tells how.
    """
    load = Workload(
        documents=_whole(documents),
        dim=dim,
        passages=passages,
        text_bytes=text_bytes,
        references=references,
        queries=queries,
        memory=round(memory * GIB) if 0 < memory < 1e9 else 0,
        cores=cores,
    )
    found = estimates(load, engine)
    runs = measured().measurements.values()
    if json:
        origin = [{"command": one.command, "machine": one.machine, "date": one.date} for one in runs]
        echo_json({"documents": load.documents, "rows": load.rows, "dim": load.dim, "rates": origin} | _rows(found))
        return
    echo(
        f"{load.documents:,} documents, {load.rows:,} vectors of {load.dim}; "
        f"machines of {memory:g} GiB and {cores} cores"
    )
    echo("")
    echo(f"{'':<20}{'memory':>10}{'disk':>10}{'shards':>8}{'build':>10}{'re-fit':>10}{'reads':>10}{'writes':>10}")
    for one in found:
        times = "".join(f"{_time(seconds):>10}" for seconds in (one.build_seconds, one.refit_seconds))
        moved = "".join(f"{_size(count):>10}" for count in (one.refit_read, one.refit_written))
        echo(f"{one.engine:<20}{_size(one.memory):>10}{_size(one.disk):>10}{one.shards:>8,}{times}{moved}")
    echo("")
    for one in found:
        if one.note:
            echo(f"{one.engine}: {one.note}.")
    echo(
        "All of this is estimated. Sizes come from file formats; - was not measured. Times: without encoding, scaled "
        "by cores; they were measured by"
    )
    for run in runs:
        echo(f"  {run.command} ({run.machine}, {run.date})")


def _rows(found: Sequence[Estimate]) -> dict[str, object]:
    return {"estimates": [one.to_json() for one in found]}


def _whole(text: str) -> int:
    """Read a number of documents, as 1e9 or 1_000_000."""
    try:
        value = float(text)
    except ValueError:
        raise typer.BadParameter(f"--documents {text!r} is not a number. Write 250000, or 1e9.") from None
    if not value.is_integer():
        raise typer.BadParameter(f"--documents {text} is not a whole number. Write 250000, or 1e9.")
    return int(value)


def _size(count: int) -> str:
    """Format bytes with three digits.

    >>> _size(2_150_000_000), _size(512)
    ('2.15 GB', '512 B')
    """
    value, units = float(count), ["B", "kB", "MB", "GB", "TB", "PB", "EB"]
    while value >= 999.5 and len(units) > 1:
        value, units = value / 1000, units[1:]
    return f"{value:.3g} {units[0]}"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    days = seconds / 86_400
    return f"{days:,.0f} days" if days >= 3 else duration(seconds)
