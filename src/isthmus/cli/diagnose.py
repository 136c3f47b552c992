"""``isthmus diagnose``: whether search results are biased towards a modality, and whether calibration helps."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from isthmus.cli import progress
from isthmus.cli.opening import open_existing
from isthmus.cli.options import (
    Device,
    Json,
    MaybeIn,
    Precision,
    QueryModality,
    Quiet,
    Threads,
    TrustRemoteCode,
    needed,
    references,
    writable,
)
from isthmus.cli.stores import diagnose_store, not_for_collections
from isthmus.cli.terminal import echo, echo_json
from isthmus.encoders.base import FULL
from isthmus.errors import CannotWrite
from isthmus.kinds import TEXT


def diagnose(  # noqa: PLR0913 - one name per option
    store: Annotated[
        str | None,
        typer.Argument(help="a store of another program instead of a collection: chroma:FOLDER/COLLECTION"),
    ] = None,
    collection: MaybeIn = None,
    report: Annotated[Path | None, typer.Option(help="write an HTML page with figures: report.html")] = None,
    queries: Annotated[
        Path | None,
        typer.Option(
            help="a file with your own queries: one per line, or JSON lines with query and, optionally, id; for a "
            "store, their vectors: .npy, .npz, .parquet"
        ),
    ] = None,
    fold: Annotated[
        Path | None, typer.Option(help="of a store: what `isthmus calibrate` wrote, to show what it changes")
    ] = None,
    query_modality: QueryModality = TEXT,
    device: Device = "cpu",
    precision: Precision = FULL,
    trust_remote_code: TrustRemoteCode = False,
    threads: Threads = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Diagnose bias: the modality gap, shares of the top 10, hubs, what calibration changes, and what to do.

        isthmus diagnose --in things.isthmus --report report.html

    Without --queries it uses queries generated from the documents, and general ones; of a store, rows of it.

        isthmus diagnose chroma:FOLDER/photos
    """
    from isthmus.diagnose import as_text, examine, page, summary

    writable(report)
    note = ""
    if store is not None:
        found, note = diagnose_store(store, queries, query_modality, fold, quiet=quiet or json)
    else:
        not_for_collections(fold=fold)
        place = needed(collection)
        with open_existing(place, device, precision, threads, trust_remote_code=trust_remote_code) as things:
            own = references(queries)
            with progress.counting("diagnosing", "rankings", quiet=quiet or json) as update:
                found = examine(things, own, progress=update)
    if report is not None:
        try:
            report.write_text(page(found), encoding="utf-8", errors="replace")
        except OSError as error:
            raise CannotWrite(f"{report} cannot be written: {error.strerror or error}.") from None
    if json:
        written: dict[str, Any] = {"report": str(report)} if report is not None else {}
        echo_json({**summary(found), **written})
        return
    echo(as_text(found))
    if note:
        echo(f"\nQueries: {note}")
    if report is not None:
        echo(f"\nThe report is in {report}")
