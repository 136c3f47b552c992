"""``isthmus index`` and ``delete``: the verbs that change the documents of a collection."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated

import typer

from isthmus import sources
from isthmus._optional import need
from isthmus.bulk import Cluster
from isthmus.cli import INTERRUPTED, progress, show
from isthmus.cli.options import (
    ENCODERS,
    CalibrationDevice,
    In,
    Json,
    Precision,
    Quiet,
    Threads,
    TrustRemoteCode,
    conditions,
)
from isthmus.cli.terminal import echo, echo_json
from isthmus.encoders.base import FULL
from isthmus.errors import counted
from isthmus.ocr.engine import EXTRA
from isthmus.registry import lookup
from isthmus.search import Calibrated, Collection, Indexed, Skipped
from isthmus.search.json_forms import indexed_json
from isthmus.search.page_texts import AUTO, MODES, PageCounts
from isthmus.sources.speech import Transcriber, transcriber
from isthmus.sources.whole_files import APART, WAYS
from isthmus.urls import url_of

SKIPPED = 3  # the exit code if some inputs were skipped


def index(  # noqa: PLR0913 - one name per option
    paths: Annotated[list[Path], typer.Argument(help="folders, tables (JSONL, CSV, Parquet), shards, PDF files …")],
    into: Annotated[
        str,
        typer.Option(
            "--into",
            "--in",
            metavar="<path>",
            envvar="ISTHMUS_COLLECTION",
            help="the collection: a folder, or postgresql://…; created if it does not exist",
        ),
    ],
    encoder: Annotated[
        str | None,
        typer.Option(
            envvar="ISTHMUS_ENCODER",
            help=f"{ENCODERS}, or none if documents have their own vectors; default: the collection's, mini for a new "
            "one",
        ),
    ] = None,
    calibration: Annotated[
        str, typer.Option(envvar="ISTHMUS_CALIBRATION", help="auto, none, or a spec: center+nnn(k=16)+standardize")
    ] = "auto",
    kind: Annotated[
        str | None,
        typer.Option(
            help="folder, jsonl, csv, parquet, beir, webdataset, clip-retrieval …; default: detected automatically"
        ),
    ] = None,
    index_kind: Annotated[
        str | None,
        typer.Option(
            "--index",
            help="how vectors are searched: exact, ivf-sq8, ivf-rabitq, hnsw, or auto (by size); default: the "
            "collection's, auto for a new one",
        ),
    ] = None,
    vectors: Annotated[
        str | None,
        typer.Option(
            envvar="ISTHMUS_VECTORS",
            help="where vectors are searched: folder, qdrant://HOST:6333/NAME or milvus://HOST:19530/NAME; "
            "default: the collection's, folder for a new one",
        ),
    ] = None,
    prune: Annotated[
        bool | None,
        typer.Option(help="remove documents whose files are gone; default: yes, unless a path has no files left"),
    ] = None,
    ocr: Annotated[
        str,
        typer.Option(
            envvar="ISTHMUS_OCR",
            help="read the text in pictures: auto (those that look like pages), always, never; needs the extra align",
        ),
    ] = AUTO,
    pages: Annotated[
        str,
        typer.Option(
            envvar="ISTHMUS_PAGES",
            help="pages of a PDF file: apart (each is a document) or together (the file is one; hits say the page)",
        ),
    ] = APART,
    transcribe: Annotated[
        str,
        typer.Option(
            envvar="ISTHMUS_TRANSCRIBE",
            help="auto: add what is said in sounds and videos, if the extra speech is installed; never",
        ),
    ] = "auto",
    whisper: Annotated[
        str | None,
        typer.Option(envvar="ISTHMUS_WHISPER", help="the speech model: a name or a folder; default: that of the extra"),
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="encode on a Ray cluster: its host:port, auto (the one of this machine) or local (starts one here)",
        ),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="keep running and index changes until Ctrl-C")] = False,
    device: CalibrationDevice = "cpu",
    precision: Precision = FULL,
    trust_remote_code: TrustRemoteCode = False,
    threads: Threads = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Read files into a collection, encode new documents, and calibrate.

    Run it again after changes: unchanged files are not opened, renamed files are not encoded again, and documents whose
    files are gone are removed. Interrupt it at any time; the next run continues where it stopped.

        isthmus index notes/ photos/ --into things.isthmus

        isthmus search "a cat on a red sofa" --in things.isthmus
    """
    if watch:
        need("watchfiles", extra="watch")
    if watch and ray is not None:
        raise typer.BadParameter("--watch and --ray exclude each other. Give one of them.")
    for path in paths:
        if not os.path.lexists(path) and url_of(str(path)) is None:
            raise typer.BadParameter(f"{path} does not exist. Check its name.")
        sources.open_source(path, kind=kind)  # reject unreadable paths before anything is created
    for option, value, known in (("--ocr", ocr, MODES), ("--pages", pages, WAYS)):
        if value not in known:
            raise typer.BadParameter(f"{option} takes {', '.join(known)}, not {value}.")
    quiet = quiet or json
    scribe = _scribe(transcribe, whisper)
    with Collection.open(
        into,
        encoder,
        calibration,
        follow=False,
        index=index_kind,
        vectors=vectors,
        device=device,
        precision=precision,
        threads=threads,
        trust_remote_code=trust_remote_code,
    ) as things:
        try:
            with _cluster(ray) as workers, progress.indexing(quiet=quiet) as update:
                report = things.index(
                    *paths,
                    kind=kind,
                    prune=prune,
                    ocr=ocr,
                    pages=pages,
                    progress=update,
                    transcribe=scribe,
                    workers=workers,
                )
        except KeyboardInterrupt:
            stored = counted(len(things), "document")
            echo(f"\nInterrupted. {stored} stored. Run the same command to continue.", err=True)
            raise typer.Exit(INTERRUPTED) from None
        calibrated = settle(things, calibration, quiet=quiet)
        _print_report(things, report, calibrated, json)
        if watch:
            changes = things.watch(*paths, kind=kind, prune=prune, ocr=ocr, pages=pages, transcribe=scribe)
            _watch(things, changes, quiet=quiet)
    if report.skipped:
        raise typer.Exit(SKIPPED)


def _cluster(address: str | None) -> AbstractContextManager[Cluster | None]:
    """Connect to a cluster, if one is named."""
    return nullcontext() if address is None else Cluster(address)


def settle(things: Collection, spec: str, *, quiet: bool = False) -> Calibrated | None:
    """Calibrate a collection that was never calibrated or has drifted, and write its index."""
    if not len(things):
        return None
    now = things.calibration
    wanted = spec if now is None else things.calibration_spec
    if now is None or things.drifted:
        with progress.counting("calibrating", "steps", quiet=quiet) as update:
            things.calibrate(wanted, progress=update)
    things.refresh()
    return things.calibration


def _print_report(things: Collection, report: Indexed, calibrated: Calibrated | None, json: bool) -> None:
    if json:
        echo_json(indexed_json(report, len(things), None if calibrated is None else str(calibrated.fitted.spec)))
        return
    echo(f"{_changes(report) or 'No changes'}. {things.path} holds {counted(len(things), 'document')}.")
    _print_pages(report.pages)
    if calibrated is not None:
        echo(f"Calibration: {calibrated.fitted.spec}{because(calibrated)}")
    show.used(things)
    show.skipped(report.skipped)


def _print_pages(pages: PageCounts) -> None:
    """Print what was done about text in pictures, and what it cost."""
    if pages.read:
        before = f", {pages.cached:,} read before" if pages.cached else ""
        time = progress.duration(pages.seconds)
        echo(f"The text of {counted(pages.read, 'picture')} was read ({time} of one core{before}).")
    if pages.unread:
        verb, whose = ("looks", "its") if pages.unread == 1 else ("look", "their")
        what = "a page" if pages.unread == 1 else "pages"
        echo(
            f"{counted(pages.unread, 'picture')} {verb} like {what}; {whose} text is not read: pip install "
            f"'isthmus[{EXTRA}]'"
        )


def _changes(report: Indexed) -> str:
    """Return the changes of an index run, in numbers; empty if there are none."""
    parts = [("added", report.added), ("updated", report.updated), ("unchanged", report.unchanged)]
    return ", ".join(f"{count:,} {name}" for name, count in [*parts, ("removed", report.removed)] if count)


def because(calibrated: Calibrated) -> str:
    """Return why a calibration was chosen: what evidence says of each kind of query, its nDCG@10, or a note."""
    fitted = calibrated.fitted
    if fitted.choices:
        return "".join(f"\n  {choice}" for choice in fitted.choices)
    if fitted.note or fitted.tuned is None:
        return f" ({fitted.note})" if fitted.note else ""
    value = {str(trial.spec): trial.value for trial in fitted.tuned.trials if not trial.refused}
    kept, raw = value.get(str(fitted.spec)), value.get("none")
    if kept is None or raw is None:
        return ""
    if str(fitted.spec) == "none":
        return f" (nDCG@10 on held-out queries: {raw:.2f}; no calibration does better)"
    return f" (nDCG@10 on held-out queries: {kept:.2f}; raw cosine: {raw:.2f})"


def _scribe(transcribe: str, model: str | None) -> Transcriber | None:
    """Return what writes down speech: what is installed, unless it is not wanted."""
    wanted = lookup({"auto": True, "never": False}, transcribe, "way to transcribe")
    if not wanted and model is not None:
        raise typer.BadParameter("--whisper names a model, and --transcribe never uses none. Leave one of them out.")
    return transcriber(model) if wanted else None


def _watch(things: Collection, reports: Iterator[Indexed], *, quiet: bool) -> None:
    echo("Watching for changes. Press Ctrl-C to stop.", err=True)
    known: list[Skipped] = []
    for report in reports:
        settle(things, "auto", quiet=quiet)
        echo(f"{report.added:,} added, {report.updated:,} updated, {report.removed:,} removed.")
        show.skipped([one for one in report.skipped if one not in known])
        known = report.skipped


def delete(
    into: In,
    ids: Annotated[list[str] | None, typer.Argument(help="the documents' ids")] = None,
    where: Annotated[list[str] | None, typer.Option(help="documents with this metadata: lang=en, year<2000")] = None,
    json: Json = False,
) -> None:
    """Delete documents by id or by metadata.

    The files they came from are not deleted; `isthmus index` adds a document again when it reads its file again.
    """
    with Collection.open(into, create=False, follow=False) as things:
        chosen = [*(ids or []), *(things.ids(conditions(where)) if where else [])]
        if not chosen and not where:
            raise typer.BadParameter("Give at least one id, or --where.")
        missing = [name for name in ids or [] if name not in things]
        deleted = things.delete(chosen)
        if json:
            echo_json({"deleted": deleted, "unknown": missing})
        else:
            echo(f"{deleted:,} deleted. {things.path} holds {counted(len(things), 'document')}.")
            for name in missing:
                echo(f"No document has the id {name!r}.", err=True)
    if missing:
        raise typer.Exit(SKIPPED)
