"""``isthmus stats``: what a collection holds."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from isthmus.cli import show
from isthmus.cli.options import In, Json
from isthmus.cli.terminal import echo, echo_json, line
from isthmus.errors import counted
from isthmus.search import Collection, Stats


def stats(
    into: In,
    verify: Annotated[bool, typer.Option("--verify", help="read every byte and report damage")] = False,
    json: Json = False,
) -> None:
    """Show what a collection holds: documents, encoder, calibration, drift, index, sources, skipped inputs."""
    with Collection.open(into, create=False, follow=False) as things:
        told = things.stats()
        problems = things.verify() if verify else []
    if json:
        echo_json({**asdict(told), **({"problems": problems} if verify else {})})
    else:
        _told(told)
        if verify:
            echo("\n".join(["damaged:", *map(line, problems)]) if problems else "verified     no damage found")
    if problems:
        raise typer.Exit(1)


def _told(told: Stats) -> None:
    total = sum(told.documents.values())
    kinds = ", ".join(f"{count:,} {name}" for name, count in told.documents.items())
    lines = [("collection", told.path), ("documents", f"{total:,}" + (f": {kinds}" if kinds else ""))]
    lines += [("size", f"{told.bytes['store'] / 1e6:,.1f} MB store, {told.bytes['index'] / 1e6:,.1f} MB index")]
    checksum = str(told.encoder["identity"])[:12]
    lines += [("encoder", f"{told.encoder['encoder']}, {told.encoder['dim']} dimensions, checksum {checksum}")]
    if told.reencoding is not None:
        lines += [("re-encoding", show.unfinished(told.path, told.reencoding))]
    lines += [("schema", f"{told.schema}, after {counted(told.changes, 'change')}")]
    lines += [("index", f"{name}: {kind}") for name, kind in told.index.items()]
    lines += [("source", f"{root}: {counted(count, 'file')}") for root, count in told.sources.items()]
    lines += [
        ("drift", f"{part}: mean moved by {value:.3f} radii since the calibration")
        for part, value in told.drift.items()
    ]
    if told.logged is not None:
        lines += [("query log", f"on, {counted(told.logged, 'query')}")]
    if told.last_error:
        lines += [("last error", told.last_error)]
    for name, value in lines:
        echo(f"{name:<12} {line(value)}")
    if told.calibration is None:
        echo("calibration  none yet; the first search calibrates")
    else:
        echo(f"calibrated   {told.calibration['made']}, version {told.calibration['version']}")
        echo(told.calibration["described"])
        for name, value in told.calibration["match"].items():
            if value:
                echo(f"P(match)     {name} queries: AUROC {value['auroc']:.3f}, ECE {value['ece']:.3f}")
    for place, why in told.skipped:
        echo(f"skipped      {place!r}: {line(why)}")
