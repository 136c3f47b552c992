"""Copy a collection to another engine: everything that is stored, and what makes the copy answer as the original does.

    calibrations, files, queries, encoder ──▸ target      at the start of each run
    source ──documents with their vectors──▸ target       in batches, each committed with a record of how far it is
    both are read again, and compared document by document; then the record says that the copy is finished

The source is read as of one moment, also while others write to it. A copy that was interrupted, at whatever point, goes
on where it stopped. Until it is finished, nothing else opens it. Documents keep their order, and the calibrations their
numbers; indexes and folded vectors are made again from what was copied.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from typing import TypeAlias

from isthmus.errors import BadFile, BadInput, counted
from isthmus.search.copy_record import COPY, CopyRecord
from isthmus.search.engines import MEMORY, open_store
from isthmus.search.handle import encodings
from isthmus.search.snapshot_builder import INDEX_KIND
from isthmus.search.writer import BYTES
from isthmus.storage.base import Entry, StoredCalibration
from isthmus.storage.conflicts import retry_conflicts
from isthmus.storage.entries import Totals, entries, fingerprint, size
from isthmus.storage.protocols import Store

PAGE = 32  # documents that are read at once, with the content that is stored
BATCH = 256  # documents in a transaction, unless their content is more than ``BYTES``
SHOWN = 5  # documents that an error names
CARRIED = ("encoder", "identity", "dim", "made_with", "spec", INDEX_KIND)  # values of the manifest

Count: TypeAlias = Callable[[int, int], None]  # what is done, of how much
Stages: TypeAlias = Callable[[str], Count]  # begins a stage by its name


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """What a copy holds, which is what its source held when the copy began.

    ``sha256``: of the documents, their parts and their raw vectors. ``calibrations``: the numbers of all;
    ``calibration``: that of the served one (0: none), ``spec`` its spec. ``earlier``: documents of earlier runs.
    ``already``: it was finished before, and was only verified. ``changed``: the source has changed since the run began.
    """

    source: str
    target: str
    documents: int
    parts: int
    vectors: int
    sha256: Mapping[str, str]
    calibrations: tuple[int, ...]
    calibration: int
    spec: str | None
    files: int
    queries: int
    earlier: int = 0
    already: bool = False
    changed: bool = False


def copied(source: Store, target: Store, progress: Stages) -> Copied:
    """Copy a store into another, or continue; raise ``BadInput`` if the target holds something else."""
    with target.sole_writer():
        with source.database.reading():
            record = begun = _begun(source, target)
            if begun.finished is None:
                begun = _prepared(source, target, begun)
                record = _filled(source, target, begun, progress("copying"))
            totals = _verified(source, target, progress("verifying"), was_finished=record.finished is not None)
            report = _report(source, target, totals, begun)
        if record.finished is None:
            with target.database.writing() as transaction:
                finished = replace(record, finished=target.state())
                target.database.put(transaction, **{COPY: finished.to_json()})
    now = source.state(), encodings(source.database)
    return replace(report, changed=now != (record.state, record.encoding))


def _report(source: Store, target: Store, totals: Totals, begun: CopyRecord) -> Copied:
    calibrations = _kept(source)
    return Copied(
        source=place_of(source),
        target=place_of(target),
        documents=totals.documents,
        parts=totals.parts,
        vectors=totals.vectors,
        sha256=totals.sha256,
        calibrations=tuple(one.version for one in calibrations),
        calibration=calibrations[-1].version if calibrations else 0,
        spec=calibrations[-1].spec if calibrations else None,
        files=len(source.ledger.rows().units),
        queries=len(source.queries.logged()) + len(source.queries.given()),
        earlier=begun.done,
        already=begun.finished is not None,
    )


@contextmanager
def open_target(path: str | PathLike[str]) -> Iterator[Store]:
    """Open the store that is to become a copy; it is made where there is none."""
    if os.fspath(path) == MEMORY:
        raise BadInput(f"Each {MEMORY} is a new collection. Open one, and copy into that: things.copy_to(opened).")
    _, store, _ = open_store(path, lambda _: None)
    with closing(store.database):
        yield store


def place_of(store: Store) -> str:
    """Return where a store is, as messages and records name it."""
    return str(store.database.path if store.folder is None else store.folder.resolve())


def _begun(source: Store, target: Store) -> CopyRecord:
    """Return the record of the copy to continue, or of a new one; reject a target that holds something else."""
    state, encoding, place = source.state(), encodings(source.database), place_of(source)
    if place == place_of(target) != MEMORY:
        raise BadInput(f"{place} cannot be copied to itself. Name a new place.")
    record = CopyRecord.read(target.database)
    if record is None:
        _check_empty(source, target)
        return CopyRecord(source=place, state=state, encoding=encoding, documents=source.count())
    same = (record.state, record.encoding) == (state, encoding)
    if record.finished is not None:
        if same and record.finished == target.state() and _kept(source) == _kept(target):
            return record
        why = "and one of the two has changed since" if record.source == place else f"not of {place}"
        raise BadInput(
            f"{place_of(target)} holds a finished copy of {record.source}, {why}. Nothing is overwritten: name a new "
            "place."
        )
    known = same or source.passed(record.state) or (record.source == place and place != MEMORY)
    if not known:
        raise BadInput(
            f"{place_of(target)} holds an unfinished copy of {record.source}, not of {place}. Nothing is overwritten: "
            "name a new place, or finish that copy."
        )
    if encoding != record.encoding or state.sequence < record.state.sequence:
        raise BadInput(
            f"{place} was re-encoded or replaced since the unfinished copy at {place_of(target)} began. Delete that "
            "copy, and start again."
        )
    return record


def _check_empty(source: Store, target: Store) -> None:
    """Reject a target that holds anything, or that is meant for the vectors of another encoder."""
    ledger, queries = target.ledger.rows(), target.queries
    if target.count() or target.calibrations.versions() or ledger.units or queries.given() or queries.count():
        raise BadInput(
            f"{place_of(target)} holds a collection that is not a copy of {place_of(source)}. Nothing is overwritten: "
            "name a new place."
        )
    found, wanted = (one.database.manifest("encoder", "identity") for one in (target, source))
    if found and found.get("identity") != wanted.get("identity"):
        raise BadInput(
            f"{place_of(target)} was opened with the encoder {found['encoder']}, and {place_of(source)} has the "
            f"vectors of {wanted['encoder']}. Open it with that encoder."
        )


def _kept(store: Store) -> list[StoredCalibration]:
    """Return the calibrations, oldest first; the last one is served, and drafts are left out."""
    served = store.calibrations.served()
    return [store.calibrations.read(version) for version in store.calibrations.versions() if version <= served]


def _prepared(source: Store, target: Store, record: CopyRecord) -> CopyRecord:
    """Bring what earlier runs have copied up to date, and write everything but documents."""
    names = {row: name for row, name in source.names().items() if row <= record.last} if record.done else {}
    gone = sorted(set(target.names().values()) - set(names.values()))
    moved = _moved(source, target, names)
    carried = {name: value for name, value in source.database.manifest(*CARRIED).items() if value is not None}
    record = replace(record, state=source.state(), documents=source.count(), done=len(names))

    def write() -> None:
        with target.database.writing() as transaction:
            target.remove(transaction, gone)
            target.ledger.replace_all(transaction, source.ledger.rows())
            target.met(transaction, moved)
            target.calibrations.replace_all(transaction, _kept(source), source.calibrations.spec() or "")
            target.database.put(transaction, **carried, **{COPY: record.to_json()})
            target.touched(transaction, source.statistics())

    retry_conflicts(write)
    target.queries.give(source.queries.given())
    target.queries.switch(False)  # which empties it
    if source.queries.on:
        target.queries.switch(True)
        target.queries.add(source.queries.logged())
    return record


def _moved(source: Store, target: Store, names: Mapping[int, str]) -> list[tuple[int | None, int | None, str]]:
    """Return which of the copied documents have other files or runs by now: (file, run, id)."""
    found: list[tuple[int | None, int | None, str]] = []
    for page in _pages(sorted(names)):
        there = target.rows_of(names[row] for row in page)
        mine, theirs = source.origins(page), target.origins(list(there.values()))
        here = [row for row in page if names[row] in there]
        found += [(*mine[row], names[row]) for row in here if mine[row] != theirs[there[names[row]]]]
    return found


def _filled(source: Store, target: Store, record: CopyRecord, progress: Count) -> CopyRecord:
    """Copy the documents that are not there yet, in batches."""
    progress(record.done, record.documents)
    for last, batch in _batches(source, record.last):
        record = replace(record, last=last, done=record.done + len(batch))
        retry_conflicts(partial(_write, source, target, batch, record))
        progress(record.done, record.documents)
    return record


def _write(source: Store, target: Store, batch: Sequence[Entry], record: CopyRecord) -> None:
    with target.database.writing() as transaction:
        target.put(transaction, batch)
        target.touched(transaction, source.statistics())
        target.database.put(transaction, **{COPY: record.to_json()})


def _batches(source: Store, after: int) -> Iterator[tuple[int, list[Entry]]]:
    """Yield documents after a row, and the row of the last of them, at most a transaction at a time."""
    batch: list[Entry] = []
    held, last = 0, after
    for page in _pages([row for row in source.rows() if row > after]):
        some = entries(source, page)
        batch, held, last = batch + some, held + sum(map(size, some)), page[-1]
        if len(batch) >= BATCH or held > BYTES:
            yield last, batch
            batch, held = [], 0
    if batch:
        yield last, batch


def _pages(rows: Sequence[int]) -> Iterator[list[int]]:
    for start in range(0, len(rows), PAGE):
        yield list(rows[start : start + PAGE])


def _verified(source: Store, target: Store, progress: Count, *, was_finished: bool) -> Totals:
    """Read both and compare them; return what there is."""
    mine, theirs = source.rows(), target.rows()
    totals, wrong = Totals(), list[str]()
    if len(mine) != len(theirs):
        raise _differs(source, target, f"it has {len(theirs):,} of {counted(len(mine), 'document')}.", was_finished)
    progress(0, len(mine))
    for page, copies in zip(_pages(mine), _pages(theirs), strict=True):
        originals = entries(source, page)
        try:
            found = entries(target, copies)
        except BadFile as error:
            raise _differs(source, target, str(error), was_finished) from error
        for one, other in zip(originals, found, strict=True):
            known = fingerprint(one)
            if fingerprint(other) != known:
                wrong.append(one.document.id)
            totals.add(one, known)
        progress(totals.documents, len(mine))
    if wrong:
        more = f" and {len(wrong) - SHOWN:,} more" if len(wrong) > SHOWN else ""
        what = f"{', '.join(map(repr, wrong[:SHOWN]))}{more} have other checksums."
        raise _differs(source, target, what, was_finished)
    if _kept(source) != _kept(target):
        raise _differs(source, target, "the calibrations are others.", was_finished)
    return totals


def _differs(source: Store, target: Store, what: str, was_finished: bool) -> BadFile:
    kept = "was equal when it was made" if was_finished else "stays unfinished, so that nothing opens it"
    return BadFile(
        f"{place_of(target)} is not equal to {place_of(source)}: {what} The copy {kept}: delete it, and copy again."
    )
