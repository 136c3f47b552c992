"""Files, calibrations, queries and words of a collection in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from isthmus.errors import BadFile
from isthmus.storage.base import Found, Holder, LedgerRows, SkippedRow, StoredCalibration, Unit, UnitRow
from isthmus.storage.memory.engine import Contents, MemoryEngine, StoredUnit
from isthmus.storage.memory.filters import allowed
from isthmus.storage.sqlite.texts import WordsInMemory
from isthmus.storage.where import Condition

KEPT_CALIBRATIONS = 3
KEPT_QUERIES = 10_000


@dataclass(frozen=True, slots=True, eq=False)
class MemoryLedger:
    """The files that documents came from, and inputs that could not be read."""

    database: MemoryEngine

    def next_numbers(self) -> tuple[int, int]:
        """Return the number of the next run, and that of the next unit."""
        units = self.database.now.units
        return 1 + max((unit.run or 0 for unit in units.values()), default=0), 1 + max(units, default=0)

    def _units(self, root: str) -> list[Unit]:
        units = self.database.now.units.items()
        return [Unit(number, unit.key, unit.stamp) for number, unit in units if unit.root == root]

    def unit(self, root: str, key: str) -> Unit | None:
        """Return the record of a file."""
        return next((unit for unit in self._units(root) if unit.key == key), None)

    def key(self, number: int) -> str:
        """Return the name of a unit inside its source; empty if there is none."""
        unit = self.database.now.units.get(number)
        return unit.key if unit else ""

    def holds(self, root: str, inside: str) -> bool:
        """Whether a source has units at or below a path."""
        return any(
            root == inside or unit.key == inside or unit.key.startswith(f"{inside}/") for unit in self._units(root)
        )

    def not_met(self, root: str, run: int) -> list[Unit]:
        """Return the units of a source that a run did not find."""
        return [unit for unit in self._units(root) if self.database.now.units[unit.number].run != run]

    def count(self, number: int) -> int:
        """Return the number of documents of a unit."""
        return sum(held.entry.unit == number for held in self.database.now.documents.values())

    def stored(self, number: int, names: Sequence[str], *, before: int | None = None) -> bool:
        """Whether a unit has one of these documents; with ``before``, from an earlier run than that."""
        now = self.database.now
        entries = [now.documents[now.rows[name]].entry for name in names if name in now.rows]
        return any(entry.unit == number and (before is None or entry.run != before) for entry in entries)

    def holder(self, name: str) -> Holder | None:
        """Return where the document of an id came from; None if there is none."""
        now = self.database.now
        if name not in now.rows:
            return None
        entry = now.documents[now.rows[name]].entry
        unit = now.units.get(entry.unit) if entry.unit is not None else None
        return Holder(entry.unit, entry.run, unit.root if unit else None, unit.run if unit else None)

    def sources(self) -> dict[str, int]:
        """Return the number of files of each source."""
        roots = sorted(unit.root for unit in self.database.now.units.values())
        return {root: roots.count(root) for root in dict.fromkeys(roots)}

    def rows(self) -> LedgerRows:
        """Return everything that is recorded."""
        now = self.database.now
        units = (UnitRow(number, one.root, one.key, one.stamp, one.run) for number, one in sorted(now.units.items()))
        return LedgerRows(tuple(units), tuple(SkippedRow(*row) for row in now.skipped))

    def replace_all(self, transaction: Contents, /, rows: LedgerRows) -> None:
        """Record this instead of what is there."""
        transaction.units = {one.number: StoredUnit(one.root, one.key, one.stamp, one.run) for one in rows.units}
        transaction.skipped = [(root, key, place, why) for root, key, place, why in rows.skipped]

    def skipped(self) -> list[tuple[str, str]]:
        """Return what could not be read, and why."""
        return [(place, why) for _, _, place, why in self.database.now.skipped]

    def begin(self, transaction: Contents, /, number: int, root: str, key: str, run: int) -> None:
        """Record that a unit is being read: it has no stamp until it is done, and its skipped entries are cleared."""
        transaction.units[number] = StoredUnit(root, key, None, run)
        self.forget_skipped(transaction, [(root, key)])

    def met(self, transaction: Contents, /, numbers: Iterable[int], run: int) -> None:
        """Record that a run found these units unchanged."""
        for number in numbers:
            transaction.units[number] = replace(transaction.units[number], run=run)

    def keep(self, transaction: Contents, /, number: int, names: Sequence[str], run: int) -> None:
        """Record that a run found documents of a unit unchanged."""
        for row in (transaction.rows[name] for name in names if name in transaction.rows):
            held = transaction.documents[row]
            if held.entry.unit == number:
                transaction.documents[row] = replace(held, entry=replace(held.entry, run=run))

    def stamp(self, ended: Sequence[tuple[str | None, int]]) -> None:
        """Write the stamps of units that were read completely: (stamp, unit)."""
        with self.database.writing() as transaction:
            for stamp, number in ended:
                transaction.units[number] = replace(transaction.units[number], stamp=stamp)

    def skip(self, transaction: Contents, /, root: str, key: str, place: str, why: str) -> None:
        """Record an input that could not be read."""
        transaction.skipped.append((root, key, place, why))

    def forget_skipped(self, transaction: Contents, /, units: Sequence[tuple[str, str]]) -> None:
        """Remove the skipped entries of units, by root and key."""
        transaction.skipped = [row for row in transaction.skipped if row[:2] not in units]

    def forget(self, root: str, units: Sequence[Unit]) -> None:
        """Delete the records of units whose documents were deleted."""
        with self.database.writing() as transaction:
            for unit in units:
                transaction.units.pop(unit.number, None)
            self.forget_skipped(transaction, [(root, unit.key) for unit in units])

    def skip_documents(self, transaction: Contents, /, why: dict[str, str]) -> None:
        """Record documents by id as skipped, so that the next run reads their files again."""
        for name, reason in why.items():
            number = transaction.documents[transaction.rows[name]].entry.unit
            unit = transaction.units.get(number) if number is not None else None
            if number is not None and unit is not None:
                self.skip(transaction, unit.root, unit.key, name, reason)
                transaction.units[number] = replace(unit, stamp=None)


@dataclass(frozen=True, slots=True, eq=False)
class MemoryCalibrations:
    """Fitted calibrations by number; one of them is served."""

    database: MemoryEngine

    def served(self) -> int:
        """Return the number of the served calibration, 0 for none."""
        return int(self.database.manifest("calibration").get("calibration", 0))

    def spec(self) -> str | None:
        """Return the spec that was requested for the collection."""
        found = self.database.manifest("spec").get("spec")
        return None if found is None else str(found)

    def versions(self) -> list[int]:
        """Return the numbers of all calibrations."""
        return sorted(self.database.now.calibrations)

    def draft(self, make: Callable[[int], StoredCalibration]) -> int:
        """Write a calibration under a new number, not served yet; return the number."""
        with self.database.writing() as transaction:
            version = transaction.next_version
            transaction.next_version += 1
            transaction.calibrations[version] = make(version)
        return version

    def forget_drafts(self, keep: int = 0) -> None:
        """Do nothing: a killed process leaves no drafts in memory."""

    def publish(self, made: StoredCalibration, spec: str, *, over: int | None, encoding: int | None) -> None:
        """Serve a calibration from now on, if ``over`` and ``encoding`` still match what is served."""
        with self.database.writing() as transaction:
            now = transaction.manifest
            other = over is not None and over != now.get("calibration", 0)
            if other or (encoding is not None and encoding != now.get("encoding", 0)):
                transaction.calibrations.pop(made.version, None)
                return
            transaction.calibrations[made.version] = made
            transaction.manifest |= {"calibration": made.version, "spec": spec}
            for version in [old for old in transaction.calibrations if old <= made.version - KEPT_CALIBRATIONS]:
                del transaction.calibrations[version]

    def replace_all(self, transaction: Contents, /, kept: Sequence[StoredCalibration], spec: str) -> None:
        """Keep these calibrations, oldest first, in place of all others; the last one is served."""
        transaction.calibrations = {made.version: made for made in kept}
        transaction.manifest.pop("calibration", None)
        if kept:
            transaction.next_version = max(transaction.next_version, kept[-1].version + 1)
            transaction.manifest |= {"calibration": kept[-1].version, "spec": spec}

    def read(self, version: int) -> StoredCalibration:
        """Read a calibration."""
        if version not in self.database.now.calibrations:
            raise BadFile(f"Calibration {version} is missing. Calibrate again.")
        return self.database.now.calibrations[version]


@dataclass(frozen=True, slots=True, eq=False)
class MemoryQueries:
    """The query log, if it is on, and queries given for calibration."""

    database: MemoryEngine

    @property
    def on(self) -> bool:
        """Whether the log is on."""
        return bool(self.database.manifest("log").get("log"))

    def switch(self, on: bool) -> None:
        """Switch the log on or off; switching it off deletes its queries."""
        with self.database.writing() as transaction:
            transaction.manifest["log"] = int(on)
            transaction.queries = transaction.queries if on else []

    def add(self, rows: Sequence[tuple[str, str]]) -> None:
        """Add queries, (time, text), and keep only the newest; add none if the log was switched off meanwhile."""
        with self.database.writing() as transaction:
            if self.on:
                transaction.queries = [*transaction.queries, *rows][-KEPT_QUERIES:]

    def logged(self) -> list[tuple[str, str]]:
        """Return the log, (time, text), oldest first."""
        return list(self.database.now.queries)

    def count(self) -> int:
        """Return the number of queries in the log."""
        return len(self.database.now.queries)

    def recent(self, count: int) -> list[str]:
        """Return the words of the newest queries."""
        return [text for _, text in reversed(self.database.now.queries)][:count]

    def give(self, rows: Sequence[tuple[str | None, str | None]]) -> None:
        """Replace the queries given for calibration, (text, id of the answer)."""
        with self.database.writing() as transaction:
            transaction.manifest["queries"] = [(text, answer) for text, answer in rows if text is not None]

    def given(self) -> list[tuple[str, str | None]]:
        """Return the queries given for calibration."""
        return list(self.database.manifest("queries").get("queries", []))


@dataclass(slots=True, eq=False)
class MemoryWords:
    """BM25 over the documents' texts; the index is rebuilt when documents have changed."""

    database: MemoryEngine
    made: tuple[str, WordsInMemory] | None = None

    def search(self, words: Sequence[str], k: int, where: Condition | None = None) -> Found:
        """Return the ``k`` best documents by BM25 that pass a filter."""
        rows = None if where is None else allowed(self.database.now, where)
        return self._index().search(words, k, rows)

    def search_among(self, words: Sequence[str], documents: Sequence[int]) -> Found:
        """Return those of these documents that share words with a query."""
        return self._index().search(words, None, documents)

    def _index(self) -> WordsInMemory:
        now = self.database.now
        token = now.states[now.manifest["sequence"]]
        if self.made is None or self.made[0] != token:
            texts = {row: held.document.text for row, held in now.documents.items() if held.document.text}
            self.made = token, WordsInMemory(texts)
        return self.made[1]
