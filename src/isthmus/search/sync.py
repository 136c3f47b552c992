"""Synchronise with a source: read what is new or changed, and delete the documents of removed files.

A unit (a file, a picture with its sidecar, a shard) whose stamp is the same as last time is not opened. A unit's stamp
is written once its last document is committed and those it no longer holds are out, so an interrupted run begins again
where it was cut; a unit with something unreadable has no stamp and is tried again next time. Documents whose file is
gone are removed at the end; a renamed file keeps its vectors, which are found by their content.

Gone is what the listing of a folder that can be read does not show. What is there but cannot be opened (permissions, a
disk, a link that leads nowhere, a missing module) is reported, and its documents stay as they were; so do all documents
of a source that suddenly has no file at all, which is what a drive that is not mounted looks like.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from isthmus.encoders import Encoder
from isthmus.encoders.abilities import EncodesAhead
from isthmus.encoders.runtime import Runtime
from isthmus.prefetch import prefetch
from isthmus.search.ingest import Prepared, inputs_of
from isthmus.search.source_events import Begun, Event, Indexed, ReadSettings, Same, Unreachable, events
from isthmus.search.writer import BATCH, BYTES, Arrival, Skipped, Writer
from isthmus.sources import SkippedInput as Unread
from isthmus.sources import Source
from isthmus.storage.protocols import Store

AHEAD = 8 * BATCH  # documents read before they are encoded


class Workers(Protocol):
    """Machines that encode, as ``isthmus.bulk.Cluster``."""

    def around(self, encoder: Encoder, name: str, runtime: Runtime) -> EncodesAhead:
        """Return an encoder that encodes there; ``name`` and ``runtime`` are how the collection loads its own."""
        ...


def announced(reading: Iterator[Event], store: Store, encoder: EncodesAhead) -> Iterator[Event]:
    """Tell an encoder of each document that is read, unless the store has vectors of the same parts."""
    for event in reading:
        if isinstance(event, Prepared) and not (event.digest and store.same_parts(event.digest, 1)):
            encoder.expect(inputs_of(event, encoder))
        yield event


def _bytes(event: Event) -> int:
    return event.size if isinstance(event, Prepared) else 0


@dataclass(slots=True, eq=False)
class SourceSync:
    """One run over one source, by the only writer."""

    store: Store
    writer: Writer
    source: Source
    report: Indexed
    progress: Callable[[Indexed], None]
    settings: ReadSettings
    ahead: EncodesAhead | None = None  # is told of documents as they are read
    run: int = 0
    unit: int = 0  # the number of the unit that is being read
    key: str = ""
    next_unit: int = 0
    batch: dict[str, Arrival] = field(default_factory=dict)
    held: int = 0  # bytes of the batch
    cost: int = 0
    same: list[int] = field(default_factory=list)
    bad: set[int] = field(default_factory=set)  # units of which something was skipped
    ended: list[tuple[str, int]] = field(default_factory=list)  # stamps of units that were read to their end
    unreached: set[str] = field(default_factory=set)  # files and folders that are there but could not be opened
    partial: set[int] = field(default_factory=set)  # units of which a part could not be opened: their documents stay
    found: bool = False  # whether the source has any unit

    def follow(self, *, prune: bool | None = None) -> Indexed:
        """Read the source once; ``Collection.index`` describes ``prune``."""
        ledger = self.store.ledger
        self.run, self.next_unit = ledger.next_numbers()
        self.writer.before.append(partial(ledger.forget_skipped, units=[(self.source.root, "")]))
        reading = events(self.store, self.source, self.report, self.settings)
        ahead = AHEAD
        if self.ahead is not None:
            reading, ahead = announced(reading, self.store, self.ahead), max(AHEAD, self.ahead.ahead)
        seconds = 0.0
        with closing(prefetch(reading, ahead, _bytes)) as coming:
            for event in coming:
                self._take(event)
                if self.report.pages.seconds > seconds:  # pages take long: not only batches are progress
                    seconds = self.report.pages.seconds
                    self.progress(self.report)
                if self.cost >= self.writer.room or self.held > BYTES or len(self.same) >= 10 * BATCH:
                    self._flush()
        self._flush()
        if prune is not False:
            self._drop_gone(even_all=prune is True)
        return self.report

    def _take(self, event: Event) -> None:
        if isinstance(event, Prepared):
            self._arrive(event)
        elif isinstance(event, Unread):
            self._unread(event)
        elif isinstance(event, Unreachable):
            self._keep(event.id, event.why)
        elif isinstance(event, Same):
            self.found = True
            self.same.append(event.number)
            self.report.unchanged += event.documents
        elif isinstance(event, Begun):
            self._begin(event)
        else:
            self.ended.append((event.stamp, self.unit))
            self.unit, self.key = 0, ""

    def _unread(self, event: Unread) -> None:
        """Report what was not read; what could not be opened keeps the documents that were read from it earlier."""
        kept = False
        self.report.files += not self.unit
        if event.unreachable and self.unit:
            self.partial.add(self.unit)
            kept = self.store.ledger.count(self.unit) > 0
        elif event.unreachable:
            self.unreached.add(event.where)
            kept = self.store.ledger.holds(self.source.root, event.where)
        self._skip(self.unit, Skipped(event.where, f"{event.why}; kept as it was" if kept else event.why))

    def _keep(self, name: str, why: str) -> None:
        """Leave a document of this unit as it is; what is not stored yet is only reported."""
        names = (name, f"{Path(self.source.root).name}/{name}")
        kept = self.store.ledger.stored(self.unit, names)
        self.writer.after.append(partial(self.store.ledger.keep, number=self.unit, names=names, run=self.run))
        self._skip(self.unit, Skipped(name, f"{why}; kept as it was" if kept else why))

    def _begin(self, event: Begun) -> None:
        self.found = True
        self.key = event.key
        self.unit = event.number or self.next_unit
        begin = partial(self.store.ledger.begin, number=self.unit, root=self.source.root, key=event.key, run=self.run)
        self.writer.before.append(begin)
        if event.number is None:
            self.next_unit += 1

    def _arrive(self, one: Prepared) -> None:
        name = one.document.id
        if self.unit in self.partial and self._stored(name):
            return  # without what could not be opened, a caption for instance, it would be another document
        if name in self.batch:  # its unit gave this id already, or another one did
            self._flush()
        free = self._free(name)
        if free in self.batch:
            self._flush()
            free = self._free(name)
        if free is None:
            self._skip(self.unit, Skipped(name, "its id is used twice: the first document that has it is kept."))
            return
        if free != name:
            one = replace(one, document=replace(one.document, id=free))
        self.batch[free] = Arrival(one, self.unit, self.run)
        self.held += one.size
        self.cost += one.cost

    def _stored(self, name: str) -> bool:
        """Whether a document of this unit is stored from an earlier run."""
        names = (name, f"{Path(self.source.root).name}/{name}")
        return self.store.ledger.stored(self.unit, names, before=self.run)

    def _free(self, name: str) -> str | None:
        """Return the id, the id after the source's name when another source has it, or None when both are taken."""
        for wanted in (name, f"{Path(self.source.root).name}/{name}"):
            holder = self.store.ledger.holder(wanted)
            if holder is None:
                return wanted
            if holder.root == self.source.root:
                elsewhere = holder.unit_run == self.run or holder.unit in self.same
                met = holder.run == self.run if holder.unit == self.unit else elsewhere
                return None if met else wanted  # a unit not met in this run may be gone, or have been renamed
        return None

    def _skip(self, unit: int, skipped: Skipped) -> None:
        self.bad.add(unit)
        self.report.skipped.append(skipped)
        key = self.key if unit == self.unit else self.store.ledger.key(unit)
        skip = partial(self.store.ledger.skip, root=self.source.root, key=key, place=skipped.id, why=skipped.why)
        self.writer.after.append(skip)

    def _flush(self) -> None:
        """Commit what has come together, and take out what units that ended no longer hold."""
        batch, same, ended = self.batch, self.same, self.ended
        self.batch, self.same, self.ended, self.held, self.cost = {}, [], [], 0, 0
        self.writer.after.append(partial(self.store.ledger.met, numbers=same, run=self.run))

        def on_skip(skipped: Skipped) -> None:
            self._skip(batch[skipped.id].unit or 0, skipped)

        done = self.writer.add(list(batch.values()), on_skip=on_skip)
        self.report.files += len(same) + len(ended)
        self.report.added += len(done.added)
        self.report.updated += len(done.updated)
        self.report.unchanged += len(done.unchanged)
        for _, number in ended:
            if number not in self.partial:
                self._drop(self.store.of_unit(number, but_run=self.run))
        self._stamp([(stamp, number) for stamp, number in ended if number not in self.bad])
        self.progress(self.report)

    def _stamp(self, ended: list[tuple[str, int]]) -> None:
        """Note that units need not be read again; last, so that nothing is left to do for a unit that has a stamp."""
        if ended:
            self.store.ledger.stamp(ended)

    def _reached(self, key: str) -> bool:
        """Whether nothing on the way to a unit failed to open."""
        folders = [key[:at] for at, char in enumerate(key) if char == "/"]
        return not self.unreached.intersection([self.source.root, key, *folders])

    def _drop_gone(self, *, even_all: bool) -> None:
        gone = [unit for unit in self.store.ledger.not_met(self.source.root, self.run) if self._reached(unit.key)]
        if gone and not self.found and not even_all:
            why = (
                f"has none of the {len(gone):,} files any more that were read from it; kept as it was. Check that its "
                "drive is mounted, or remove them: isthmus index --prune"
            )
            self._skip(0, Skipped(self.source.root, why))
            self._flush()
            return
        for start in range(0, len(gone), BATCH):
            some = gone[start : start + BATCH]
            self._drop([name for unit in some for name in self.store.of_unit(unit.number)])
            self.store.ledger.forget(self.source.root, some)
        self.progress(self.report)

    def _drop(self, ids: list[str]) -> None:
        for start in range(0, len(ids), BATCH):
            self.report.removed += len(self.writer.remove(ids[start : start + BATCH]))
