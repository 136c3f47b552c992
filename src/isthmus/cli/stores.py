"""What ``isthmus calibrate`` and ``isthmus diagnose`` do with a store that isthmus did not build."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from isthmus.cli import progress
from isthmus.cli.terminal import echo, echo_json
from isthmus.errors import counted
from isthmus.stores.address import StoreAddress

if TYPE_CHECKING:
    from isthmus.diagnose import Examination


class StoreCall(NamedTuple):
    """What the command line says about a store."""

    store: str
    into: str | None
    fold: Path | None
    spec: str
    queries: Path | None
    query_modality: str
    metric: str | None
    update: bool


def not_for_collections(**options: object) -> None:
    """Reject options that only a store has."""
    for name, value in options.items():
        if value is not None:
            raise typer.BadParameter(f"--{name} belongs to a store: isthmus calibrate KIND:PLACE --into KIND:NEW.")


def calibrate_store(call: StoreCall, *, quiet: bool, json: bool) -> None:
    """Write calibrated vectors beside those of a store, or follow its changes."""
    from isthmus.stores import StoreOptions, calibrate, update

    into, fold = _written_to(call)
    options = StoreOptions(spec=call.spec, queries=call.queries, query_modality=call.query_modality, metric=call.metric)
    with progress.stages("rows", quiet=quiet or json) as stage:
        work = update if call.update else calibrate
        report = work(call.store, into, fold, options, progress=stage)
    if json:
        echo_json(asdict(report))
        return
    kinds = ", ".join(f"{count:,} {name}" for name, count in report.rows.items())
    echo(f"{report.source}: {kinds}.")
    if report.note:
        echo(f"Reference queries: {report.note}")
    fitted = "Fitted" if report.refitted else "Not fitted again"
    echo(f"{fitted}: {report.why}. Calibration: {report.spec}, metric {report.metric}.")
    gone = f", {counted(report.deleted, 'row')} deleted" if report.deleted else ""
    echo(f"{counted(report.written, 'row')} written{gone}. The calibrated vectors are in {report.target}")
    echo(f"Queries: fold = isthmus.stores.load({report.fold!r}); fold.query(vector)")


def _written_to(call: StoreCall) -> tuple[str, Path]:
    """Return the store to write to, and the file of the calibration, which tells an update what was left out."""
    from isthmus.stores import load

    source = StoreAddress.read(call.store)
    if call.into is not None:
        return call.into, call.fold or Path(f"{StoreAddress.read(call.into).name}.fold")
    if not call.update:
        raise typer.BadParameter(f"Where to? Name a new store: --into {source.kind}:NEW.")
    files = [call.fold] if call.fold is not None else sorted(Path().glob("*.fold"))
    known = {path: load(path) for path in files if path.exists()}
    its = [path for path, fold in known.items() if call.fold is not None or fold.source == str(source)]
    if len(its) != 1:
        found = " and ".join(map(str, its)) or "none"
        raise typer.BadParameter(
            f"Which file is the calibration of {source} in? Found here: {found}. Name it (--fold), or the store with "
            "the calibrated vectors (--into)."
        )
    return known[its[0]].target, its[0]


def diagnose_store(
    store: str, queries: Path | None, query_modality: str, fold: Path | None, *, quiet: bool
) -> tuple[Examination, str]:
    """Return the findings about a store, and what the queries were."""
    from isthmus.stores import examine, load

    known = None if fold is None else load(fold)
    with progress.counting("reading", "rows", quiet=quiet) as update:
        return examine(store, query_modality, queries=queries, fold=known, progress=update)
