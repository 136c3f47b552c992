"""``isthmus stats``: what a collection contains."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from isthmus.cli import show
from isthmus.cli.options import In, Json
from isthmus.cli.terminal import echo, echo_json, line
from isthmus.errors import counted
from isthmus.search import Collection, Stats
from isthmus.storage.servers import FOLDER


def stats(
    into: In,
    verify: Annotated[bool, typer.Option("--verify", help="read every byte and report damage")] = False,
    json: Json = False,
) -> None:
    """Show what a collection holds: documents, encoder, calibration, drift, index, sources, skipped inputs."""
    with Collection.open(into, create=False, follow=False) as things:
        facts = things.stats()
        problems = things.verify() if verify else []
    if json:
        echo_json({**asdict(facts), **({"problems": problems} if verify else {})})
    else:
        _show(facts)
        if verify:
            echo("\n".join(["damaged:", *map(line, problems)]) if problems else "verified     no damage found")
    if problems:
        raise typer.Exit(1)


def _show(facts: Stats) -> None:
    total = sum(facts.documents.values())
    kinds = ", ".join(f"{count:,} {name}" for name, count in facts.documents.items())
    lines = [("collection", facts.path), ("documents", f"{total:,}" + (f": {kinds}" if kinds else ""))]
    lines += [("size", f"{facts.bytes['store'] / 1e6:,.1f} MB store, {facts.bytes['index'] / 1e6:,.1f} MB index")]
    checksum = str(facts.encoder["identity"])[:12]
    lines += [("encoder", f"{facts.encoder['encoder']}, {facts.encoder['dim']} dimensions, checksum {checksum}")]
    if facts.reencoding is not None:
        lines += [("re-encoding", show.unfinished(facts.path, facts.reencoding))]
    lines += [("schema", f"{facts.schema}, after {counted(facts.changes, 'change')}")]
    if facts.vectors != FOLDER:
        lines += [("vectors", facts.vectors)]
    lines += [("index", f"{name}: {kind}") for name, kind in facts.index.items()]
    lines += [("source", f"{root}: {counted(count, 'file')}") for root, count in facts.sources.items()]
    lines += [
        ("drift", f"{part}: mean moved by {value:.3f} radii since the calibration")
        for part, value in facts.drift.items()
    ]
    if facts.logged is not None:
        lines += [("query log", f"on, {counted(facts.logged, 'query')}")]
    if facts.last_error:
        lines += [("last error", facts.last_error)]
    for name, value in lines:
        echo(f"{name:<12} {line(value)}")
    if facts.calibration is None:
        echo("calibration  none yet; the first search calibrates")
    else:
        echo(f"calibrated   {facts.calibration['made']}, version {facts.calibration['version']}")
        echo(facts.calibration["described"])
        for name, value in facts.calibration["match"].items():
            if value:
                echo(f"P(match)     {name} queries: {show.reliability(value)}")
    for place, why in facts.skipped:
        echo(f"skipped      {place!r}: {line(why)}")
