"""``isthmus calibrate``: a collection again, or a store that isthmus did not build."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from isthmus.calibration import load as load_calibration
from isthmus.cli import progress, show
from isthmus.cli.opening import open_existing
from isthmus.cli.options import (
    CalibrationDevice,
    Json,
    MaybeIn,
    Precision,
    QueryModality,
    Quiet,
    Threads,
    TrustRemoteCode,
    needed,
    references,
)
from isthmus.cli.stores import StoreCall, calibrate_store, not_for_collections
from isthmus.cli.terminal import echo, echo_json
from isthmus.encoders.base import FULL
from isthmus.errors import BadInput
from isthmus.kinds import TEXT
from isthmus.search.calibrate import checked
from isthmus.stores.address import looks_like_store


def calibrate(  # noqa: PLR0913 - one name per option
    spec: Annotated[
        str | None,
        typer.Argument(
            metavar="[SPEC|STORE]",
            help="auto, none, or a spec: center+nnn(k=16)+standardize; default: auto. Or a store of another program: "
            "chroma:FOLDER/COLLECTION",
        ),
    ] = None,
    collection: MaybeIn = None,
    queries: Annotated[
        Path | None,
        typer.Option(
            help="a file with your own queries: one per line, or JSON lines with query and, optionally, id; for a "
            "store, their vectors: .npy, .npz, .parquet"
        ),
    ] = None,
    means: Annotated[
        Path | None,
        typer.Option(help="a calibration file whose means center or dn subtracts; default: those of the collection"),
    ] = None,
    log_queries: Annotated[
        bool | None,
        typer.Option(help="log queries from now on, for the next calibration; or stop, and delete the log"),
    ] = None,
    into: Annotated[str | None, typer.Option(help="of a store: the new one, for calibrated vectors")] = None,
    fold: Annotated[
        Path | None, typer.Option(help="of a store: the file that turns queries; default: NAME.fold of the new one")
    ] = None,
    calibration: Annotated[
        str | None, typer.Option(help="of a store: auto, or a spec: center+nnn(k=16)+standardize; default: auto")
    ] = None,
    metric: Annotated[
        str | None, typer.Option(help="of a store: inner, cosine or l2 for the new one; default: inner, of LanceDB l2")
    ] = None,
    query_modality: QueryModality = TEXT,
    update: Annotated[
        bool, typer.Option("--update", help="of a store: follow what was added, changed and deleted since")
    ] = False,
    device: CalibrationDevice = "cpu",
    precision: Precision = FULL,
    trust_remote_code: TrustRemoteCode = False,
    threads: Threads = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Calibrate a collection again, on its current documents and on your own queries if you have some.

    auto tries several calibrations on queries whose right documents are known and keeps the best; the table shows the
    nDCG@10 of each.

    A store is read, and its vectors are written, calibrated, into a new one beside it; docs/stores.md has the kinds.

        isthmus calibrate chroma:FOLDER/photos --into chroma:FOLDER/photos_fair
    """
    if spec is not None and looks_like_store(spec):
        stated = StoreCall(spec, into, fold, calibration or "auto", queries, query_modality, metric, update)
        calibrate_store(stated, quiet=quiet, json=json)
        return
    not_for_collections(into=into, fold=fold, calibration=calibration, metric=metric, update=update or None)
    place = needed(collection)
    with open_existing(place, device, precision, threads, trust_remote_code=trust_remote_code) as things:
        if log_queries is not None:
            things.log_queries(log_queries)
            echo(f"The query log is {'on' if log_queries else 'off; its queries were deleted'}.", err=True)
            if spec is None and queries is None:
                return  # no calibration was requested
        if not len(things):
            raise BadInput(f"{things.path} is empty: there is nothing to calibrate. Index some documents first.")
        own = references(queries)
        checked(spec or "auto")  # before any progress is shown
        origin = load_calibration(means) if means else None
        with progress.counting("calibrating", "steps", quiet=quiet or json) as told:
            calibrated = things.calibrate(spec or "auto", own, means=origin, progress=told)
        if json:
            echo_json(things.stats().calibration)
            return
        echo(calibrated.fitted.describe())
        for name, value in (calibrated.match.held_out if calibrated.match else {}).items():
            if value:
                echo(f"P(match), {name} queries: {show.reliability(value)}")
