"""Following a source: read what is new or changed, leave what is not, drop what is gone.

A unit (a file, a picture with its sidecar, a shard) whose stamp is the same as last time is not opened. A unit's stamp
is written once its last document is committed and those it no longer holds are out, so an interrupted run begins again
where it was cut; a unit with something unreadable has no stamp and is tried again next time. Documents whose file is
gone are removed at the end; a renamed file keeps its vectors, which are found by their content.

Gone is what the listing of a folder that can be read does not show. What is there but cannot be opened (permissions, a
disk, a link that leads nowhere, a missing module) is reported, and its documents stay as they were; so do all documents
of a source that suddenly has no file at all, which is what a drive that is not mounted looks like.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from isthmus.documents import Document
from isthmus.errors import BadInput
from isthmus.search import schema
from isthmus.search.ahead import ahead
from isthmus.search.ingest import Prepared, prepared
from isthmus.search.store import Store
from isthmus.search.writer import BATCH, BYTES, Arrival, Skipped, Writer
from isthmus.sources import Skipped as Unread
from isthmus.sources import Source
from isthmus.sources.files import is_missing

AHEAD = 2 * BATCH  # documents read before they are encoded
PIECE = 1 << 20


@dataclass(slots=True)
class Indexed:
    """What an index run did, in numbers, and what it had to skip."""

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    removed: int = 0
    skipped: list[Skipped] = field(default_factory=list)

    @property
    def done(self) -> int:
        """Documents looked at so far."""
        return self.added + self.updated + self.unchanged + len(self.skipped)


@dataclass(frozen=True, slots=True)
class Same:
    """A unit that has not changed."""

    number: int
    documents: int


@dataclass(frozen=True, slots=True)
class Begun:
    """What follows, up to the end, is of this unit; ``number`` is None when it was never met before."""

    key: str
    number: int | None


@dataclass(frozen=True, slots=True)
class Ended:
    """All of the unit has been read; ``stamp`` is that of its content."""

    stamp: str


@dataclass(frozen=True, slots=True)
class Unreachable:
    """A document whose picture is there but cannot be opened now."""

    id: str
    why: str


Event: TypeAlias = Same | Begun | Ended | Prepared | Unread | Unreachable


def events(store: Store, source: Source) -> Iterator[Event]:
    """Read a source: stamps are compared here, files opened and contents hashed, all on the reader's thread."""
    for unit in source.units():
        if isinstance(unit, Unread):
            yield unit
            continue
        known = store.database.one("SELECT number, stamp FROM units WHERE root = ? AND key = ?", source.root, unit.key)
        if known is not None and known[1] == unit.stamp:
            yield Same(known[0], store.database.one("SELECT count(*) FROM documents WHERE unit = ?", known[0])[0])
            continue
        yield Begun(unit.key, known and known[0])
        yield from map(_ready, unit.read())
        yield Ended(unit.stamp)


def _bytes(event: Event) -> int:
    return event.bytes if isinstance(event, Prepared) else 0


def _ready(document: Document | Unread) -> Prepared | Unread | Unreachable:
    if isinstance(document, Unread):
        return document
    try:
        ready = prepared(document)
    except BadInput as problem:
        return Unread(document.id, str(problem))
    image = ready.document.image
    if isinstance(image, str) and ready.image_hash is None:
        try:
            with Path(image).open("rb") as file:
                while file.read(PIECE):  # a failing disk may open a file and not give all of it
                    pass
        except OSError as error:
            if not _shown_absent(image):
                return Unreachable(document.id, f"its picture cannot be read: {error.strerror}")
        except ValueError:
            pass  # a path that no file can have: the encoder says so
    return ready


def _shown_absent(path: str) -> bool:
    """Whether a folder that can be read, and is not empty as a missing drive is, does not hold a file."""
    if not is_missing(path):
        return False
    try:
        with os.scandir(Path(path).parent) as entries:
            return any(True for _ in entries)
    except OSError:
        return False


@dataclass(slots=True, eq=False)
class Follower:
    """One run over one source, by the only writer."""

    store: Store
    writer: Writer
    source: Source
    report: Indexed
    progress: Callable[[Indexed], None]
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
    partial: set[int] = field(default_factory=set)  # units of which a part could not be opened: nothing in them is gone
    found: bool = False  # whether the source has any unit

    def follow(self, *, prune: bool | None = None) -> Indexed:
        """Read the source once; ``Collection.index`` says what ``prune`` does."""
        one = self.store.database.one
        self.run = 1 + (one("SELECT max(run) FROM units")[0] or 0)
        self.next_unit = 1 + (one("SELECT max(number) FROM units")[0] or 0)
        forget = "DELETE FROM skipped WHERE root = ? AND key = ''"
        self.writer.before.append(lambda connection: connection.execute(forget, (self.source.root,)))
        with closing(ahead(events(self.store, self.source), AHEAD, _bytes)) as coming:
            for event in coming:
                self._take(event)
                if self.cost >= BATCH or self.held > BYTES or len(self.same) >= 10 * BATCH:
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
        if event.unreachable and self.unit:
            self.partial.add(self.unit)
            kept = bool(self.store.database.one("SELECT 1 FROM documents WHERE unit = ? LIMIT 1", self.unit))
        elif event.unreachable:
            self.unreached.add(event.where)
            inside = (
                "SELECT 1 FROM units WHERE root = ?1 AND (?1 = ?2 OR key = ?2 OR key BETWEEN ?2 || '/' AND ?2 || '0')"
            )
            kept = bool(self.store.database.one(f"{inside} LIMIT 1", self.source.root, event.where))
        self._skip(self.unit, Skipped(event.where, f"{event.why}; kept as it was" if kept else event.why))

    def _keep(self, name: str, why: str) -> None:
        """Leave a document of this unit as it is; what is not stored yet is only reported."""
        names = (name, f"{Path(self.source.root).name}/{name}")
        mine = "unit = ?2 AND id IN (?3, ?4)"
        values = (self.run, self.unit, *names)
        kept = self.store.database.one(f"SELECT ?1 FROM documents WHERE {mine}", *values)
        met = f"UPDATE documents SET run = ?1, origin = seal(id, unit, ?1) WHERE {mine}"
        self.writer.after.append(lambda connection: connection.execute(met, values))
        self._skip(self.unit, Skipped(name, f"{why}; kept as it was" if kept else why))

    def _begin(self, event: Begun) -> None:
        self.found = True
        self.key = event.key
        self.unit = event.number or self.next_unit
        root, key, number = self.source.root, event.key, self.unit

        def begin(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT OR IGNORE INTO units (number, root, key) VALUES (?, ?, ?)", (number, root, key))
            connection.execute("UPDATE units SET stamp = NULL, run = ? WHERE number = ?", (self.run, number))
            schema.seal(connection, "units", "number = ?", number)
            connection.execute("DELETE FROM skipped WHERE root = ? AND key = ?", (root, key))

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
        self.held += one.bytes
        self.cost += one.cost

    def _stored(self, name: str) -> bool:
        """Whether a document of this unit is stored from an earlier run."""
        names = (name, f"{Path(self.source.root).name}/{name}")
        statement = "SELECT 1 FROM documents WHERE unit = ? AND run != ? AND id IN (?, ?)"
        return bool(self.store.database.one(statement, self.unit, self.run, *names))

    def _free(self, name: str) -> str | None:
        """Return the id, the id after the source's name when another source has it, or None when both are taken."""
        for wanted in (name, f"{Path(self.source.root).name}/{name}"):
            holder = self.store.database.one(
                "SELECT d.unit, d.run, u.root, u.run FROM documents d LEFT JOIN units u ON u.number = d.unit "
                "WHERE d.id = ?",
                wanted,
            )
            if holder is None:
                return wanted
            unit, run, root, unit_run = holder
            if root == self.source.root:
                met = run == self.run if unit == self.unit else unit_run == self.run or unit in self.same
                return None if met else wanted  # a unit not met in this run may be gone, or have been renamed
        return None

    def _skip(self, unit: int, skipped: Skipped) -> None:
        self.bad.add(unit)
        self.report.skipped.append(skipped)
        row = (self.source.root, self.key if unit == self.unit else self._key(unit), skipped.id, skipped.why)
        statement = "INSERT INTO skipped VALUES (?1, ?2, ?3, ?4, seal(?1, ?2, ?3, ?4))"
        self.writer.after.append(lambda connection: connection.execute(statement, row))

    def _key(self, unit: int) -> str:
        found = self.store.database.one("SELECT key FROM units WHERE number = ?", unit)
        return str(found[0]) if found else ""

    def _flush(self) -> None:
        """Commit what has come together, and take out what units that ended no longer hold."""
        batch, same, ended = self.batch, self.same, self.ended
        self.batch, self.same, self.ended, self.held, self.cost = {}, [], [], 0, 0
        met = [(self.run, number) for number in same]
        statement = "UPDATE units SET run = ?1, checksum = seal(number, root, key, stamp, ?1) WHERE number = ?2"
        self.writer.after.append(lambda connection: connection.executemany(statement, met))

        def on_skip(skipped: Skipped) -> None:
            self._skip(batch[skipped.id].unit or 0, skipped)

        done = self.writer.add(list(batch.values()), on_skip=on_skip)
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
            with self.store.database.writing() as connection:
                statement = "UPDATE units SET stamp = ?1, checksum = seal(number, root, key, ?1, run) WHERE number = ?2"
                connection.executemany(statement, ended)

    def _reached(self, key: str) -> bool:
        """Whether nothing on the way to a unit failed to open."""
        folders = [key[:at] for at, char in enumerate(key) if char == "/"]
        return not self.unreached.intersection([self.source.root, key, *folders])

    def _drop_gone(self, *, even_all: bool) -> None:
        unmet = "SELECT number, key FROM units WHERE root = ? AND (run IS NULL OR run != ?)"
        rows = self.store.database.all(unmet, self.source.root, self.run)
        gone = [(number, key) for number, key in rows if self._reached(key)]
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
            self._drop([name for number, _ in some for name in self.store.of_unit(number)])
            with self.store.database.writing() as connection:
                connection.executemany("DELETE FROM units WHERE number = ?", [(number,) for number, _ in some])
                skipped = [(self.source.root, key) for _, key in some]
                connection.executemany("DELETE FROM skipped WHERE root = ? AND key = ?", skipped)
        self.progress(self.report)

    def _drop(self, ids: list[str]) -> None:
        for start in range(0, len(ids), BATCH):
            self.report.removed += len(self.writer.remove(ids[start : start + BATCH]))
