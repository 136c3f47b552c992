"""``isthmus index``, ``calibrate``, ``delete``: what changes a collection."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from isthmus import sources
from isthmus._optional import need
from isthmus.cli import INTERRUPTED, show
from isthmus.cli.options import Device, In, Json, Threads, conditions, references
from isthmus.cli.terminal import echo, echo_json
from isthmus.errors import BadInput
from isthmus.search import Calibrated, Collection, Indexed, Skipped

SKIPPED = 3  # the exit code of work that is done but for what had to be skipped


def index(
    paths: Annotated[list[Path], typer.Argument(help="folders, tables (JSONL, CSV, Parquet), shards, PDFs …")],
    into: Annotated[
        Path,
        typer.Option("--into", "--in", envvar="ISTHMUS_COLLECTION", help="the collection; made when it is not there"),
    ],
    encoder: Annotated[
        str | None,
        typer.Option(
            envvar="ISTHMUS_ENCODER", help="mini, mini-fusion, onnx:FOLDER, st:NAME, mteb:NAME, or none: own vectors"
        ),
    ] = None,
    calibration: Annotated[
        str, typer.Option(envvar="ISTHMUS_CALIBRATION", help="auto, none, or a spec: center+nnn(k=16)+standardize")
    ] = "auto",
    kind: Annotated[
        str | None, typer.Option(help="folder, jsonl, csv, parquet, beir, webdataset, clip-retrieval …: told by itself")
    ] = None,
    prune: Annotated[
        bool | None,
        typer.Option(help="remove documents whose files are gone, even all of a path; default: unless all are gone"),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="stay, and index what changes, until Ctrl-C")] = False,
    device: Device = "cpu",
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Read files into a collection, encode what is new, and calibrate.

    Run it again after changes: files that did not change are not opened, renamed ones are not encoded again, and those
    that are gone are removed. Interrupt it at any time; the next run goes on from there.

        isthmus index notes/ photos/ --into things.isthmus

        isthmus search "a cat on a red sofa" --in things.isthmus
    """
    if watch:
        need("watchfiles", extra="watch")
    for path in paths:
        if not os.path.lexists(path):
            raise typer.BadParameter(f"{path} is not there. Check its name.")
        sources.open_source(path, kind=kind)  # what cannot be read is said before anything is made
    with Collection.open(into, encoder, calibration, follow=False, device=device, threads=threads) as things:
        with show.progress("reading", quiet=json) as tell:
            try:
                report = things.index(*paths, kind=kind, prune=prune, progress=tell)
            except KeyboardInterrupt:
                echo(f"\ninterrupted: {len(things):,} documents are kept; run it again to go on.", err=True)
                raise typer.Exit(INTERRUPTED) from None
        calibrated = settle(things, calibration, quiet=json)
        _told(things, report, calibrated, json)
        if watch:
            _watch(things, paths, kind, prune)
    if report.skipped:
        raise typer.Exit(SKIPPED)


def settle(things: Collection, spec: str, *, quiet: bool = False) -> Calibrated | None:
    """Calibrate what was never calibrated or has drifted, and have the index written."""
    if not len(things):
        return None
    now = things.calibration
    asked = spec if now is None else things.asked_calibration
    if now is None or things.drifted:
        if not quiet:
            echo("calibrating …", err=True)
        now = things.calibrate(asked)
    things.refresh()
    return things.calibration


def _told(things: Collection, report: Indexed, calibrated: Calibrated | None, json: bool) -> None:
    if json:
        spec = None if calibrated is None else str(calibrated.fitted.spec)
        echo_json({**asdict(report), "documents": len(things), "calibration": spec})
        return
    parts = [("added", report.added), ("updated", report.updated), ("unchanged", report.unchanged)]
    parts += [("removed", report.removed)]
    said = ", ".join(f"{count:,} {name}" for name, count in parts if count) or "nothing to do"
    echo(f"{said}. {things.path} holds {len(things):,} documents.")
    if calibrated is not None:
        echo(f"calibration: {calibrated.fitted.spec}{because(calibrated)}")
    show.skipped(report.skipped)


def because(calibrated: Calibrated) -> str:
    """Say in brackets why a calibration was chosen."""
    fitted = calibrated.fitted
    if fitted.tuned is not None:
        best = max((t for t in fitted.tuned.trials if not t.refused), key=lambda t: t.value)
        none = next((t.value for t in fitted.tuned.trials if str(t.spec) == "none"), None)
        return "" if none is None else f"  (nDCG@10 on its own questions {best.value:.2f}, raw cosine {none:.2f})"
    return f"  ({fitted.note})" if fitted.note else ""


def _watch(things: Collection, paths: list[Path], kind: str | None, prune: bool | None) -> None:
    echo("watching for changes; Ctrl-C ends it.", err=True)
    known: list[Skipped] = []
    for report in things.watch(*paths, kind=kind, prune=prune):
        settle(things, "auto")
        echo(f"{report.added} added, {report.updated} updated, {report.removed} removed.")
        show.skipped([one for one in report.skipped if one not in known])
        known = report.skipped


def calibrate(
    into: In,
    spec: Annotated[
        str | None, typer.Argument(help="auto (when not said), none, or a spec: center+nnn(k=16)+standardize")
    ] = None,
    queries: Annotated[
        Path | None, typer.Option(help="your own queries: one per line, or JSON lines with query and, if known, id")
    ] = None,
    log_queries: Annotated[
        bool | None,
        typer.Option(help="keep real queries from now on for the next calibration, or stop and forget them"),
    ] = None,
    device: Device = "cpu",
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Calibrate a collection again: on its documents as they are now, and on your own queries if you have some.

    auto tries a small grid of calibrations on questions whose answers are known and keeps the best; the table says how
    each did.
    """
    with Collection.open(into, create=False, follow=False, device=device, threads=threads) as things:
        if log_queries is not None:
            things.log_queries(log_queries)
            echo(f"the query log is {'on' if log_queries else 'off, and forgotten'}", err=True)
            if spec is None and queries is None:
                return  # nothing else was asked for
        if not len(things):
            raise BadInput(f"{into} is empty: there is nothing to calibrate. Index something first.")
        calibrated = things.calibrate(spec or "auto", references(queries))
        if json:
            echo_json(things.stats().calibration)
            return
        if calibrated.fitted.tuned is not None:
            echo(str(calibrated.fitted.tuned))
        echo(calibrated.fitted.describe())
        for name, told in (calibrated.match.held_out if calibrated.match else {}).items():
            if told:
                echo(f"P(match), {name} queries: AUROC {told['auroc']:.3f}, ECE {told['ece']:.3f}")


def delete(
    into: In,
    ids: Annotated[list[str] | None, typer.Argument(help="the documents' ids")] = None,
    where: Annotated[list[str] | None, typer.Option(help="those whose metadata say so: lang=en, year<2000")] = None,
    json: Json = False,
) -> None:
    """Delete documents by id, or by their metadata.

    The files they came from stay where they are: a document comes back when `isthmus index` reads its file again.
    """
    with Collection.open(into, create=False, follow=False) as things:
        chosen = [*(ids or []), *(things.ids(conditions(where)) if where else [])]
        if not chosen and not where:
            raise typer.BadParameter("Name at least one id, or give --where.")
        missing = [name for name in ids or [] if name not in things]
        gone = things.delete(chosen)
        if json:
            echo_json({"deleted": gone, "unknown": missing})
        else:
            echo(f"{gone} deleted. {things.path} holds {len(things):,} documents.")
            for name in missing:
                echo(f"there is no {name!r}", err=True)
    if missing:
        raise typer.Exit(SKIPPED)
