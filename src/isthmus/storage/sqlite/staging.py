"""Vectors of another encoder, stored next to a collection until they are complete: the progress of ``reencode``.

things.isthmus/reencode/collection.sqlite      the tables of a collection, of which four are filled:

    manifest     the encoder: its name, its identity, its dimensions; at the end, the statistics of its vectors
    documents    a row of the collection's: modality and hashes as they will be
    parts        the hashes of its parts as they will be
    segments     the new vectors

A changed document has a new row, so the data of a row is never out of date. The folder may be deleted: ``reencode``
then starts from scratch. Only ``reencode`` writes there.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isthmus.calibration import Statistics
from isthmus.encoders import Encoder
from isthmus.errors import BadFile, IsthmusError
from isthmus.storage.base import Entry, UnfinishedReencode
from isthmus.storage.protocols import Store
from isthmus.storage.sqlite import schema
from isthmus.storage.sqlite.database import FILE, Database
from isthmus.storage.sqlite.documents import insert_parts
from isthmus.storage.sqlite.vectors import insert, several

FOLDER = "reencode"

FORMAT = 3  # of the staged tables; an older format starts from scratch

# The collection as it will be: its documents that have new vectors, with these.
VIEWS = (
    "CREATE TEMP VIEW segments AS SELECT * FROM fresh.segments",
    "CREATE TEMP VIEW documents AS SELECT d.row, d.id, f.modality, d.metadata, d.parts, f.segments, f.parts_hash, "
    "f.own_hash, d.unit, d.run, d.origin, "
    "seal(d.id, f.modality, d.metadata, d.parts, f.segments, f.parts_hash, f.own_hash) AS content "
    "FROM main.documents d JOIN fresh.documents f ON f.row = d.row",
    "CREATE TEMP VIEW manifest AS SELECT * FROM main.manifest WHERE name != 'statistics' "
    "UNION ALL SELECT * FROM fresh.manifest WHERE name = 'statistics'",
    "CREATE TEMP VIEW states AS SELECT * FROM fresh.states",
)


# The statements that replace the old vectors by the new.
ADOPT = (
    "DELETE FROM segments",
    "INSERT INTO segments (document, parts, name, start, stop, own, vector, checksum) "
    "SELECT document, parts, name, start, stop, own, vector, checksum FROM fresh.segments s "
    "WHERE document IN (SELECT row FROM documents) ORDER BY document, s.row",
    "UPDATE documents SET (modality, segments, parts_hash, own_hash) = (SELECT f.modality, f.segments, f.parts_hash, "
    "f.own_hash FROM fresh.documents f WHERE f.row = documents.row)",
    f"UPDATE documents SET content = {schema.CONTENT}",
    "UPDATE parts SET (hash, checksum) = (SELECT f.hash, seal(parts.document, parts.number, parts.kind, parts.content, "
    "f.hash) FROM fresh.parts f WHERE f.document = parts.document AND f.number = parts.number)",
    "INSERT OR REPLACE INTO manifest SELECT * FROM fresh.manifest "
    "WHERE name IN ('encoder', 'identity', 'dim', 'statistics')",
    "DELETE FROM gone WHERE sequence <= (SELECT value FROM manifest WHERE name = 'sequence')",
    "DELETE FROM states",  # no index of the old vectors is of one of these; that of the new ones is of the next
    "INSERT INTO states SELECT * FROM fresh.states WHERE sequence = "
    "(SELECT value FROM manifest WHERE name = 'sequence')",
)
LEFT = "SELECT count(*) FROM documents WHERE row NOT IN (SELECT row FROM fresh.documents)"


@dataclass(slots=True, eq=False)
class SqliteStaging:
    """New vectors of a collection, not yet in use."""

    folder: Path  # the collection's
    database: Database

    @classmethod
    def open(cls, folder: Path, name: str, encoder: Encoder, around: Callable[[Database], Store]) -> SqliteStaging:
        """Open the vectors staged for this encoder; drop those of another encoder, or damaged ones."""
        values = {"encoder": name, "identity": encoder.identity, "dim": encoder.dim, "format": FORMAT}
        found = _manifest(folder, writable=True)
        begun = found.get("identity") == encoder.identity and found.get("format") == FORMAT
        damaged = f"SELECT count(*) FROM segments WHERE checksum IS NOT {schema.sealed('segments')}"
        whole = [("PRAGMA integrity_check(1)", [("ok",)]), (damaged, [(0,)])]
        if not begun or any(_selected(folder, statement, writable=True) != right for statement, right in whole):
            drop(folder)
            (folder / FOLDER).mkdir()
        database = Database(folder / FOLDER)
        with database.writing() as connection:
            schema.put(connection, **values)
        return cls(folder, database, around)

    around: Callable[[Database], Store]  # makes a store from a database

    def close(self) -> None:
        """Close it; staged vectors stay until they are dropped."""
        self.database.close()

    @property
    def store(self) -> Store:
        """The new vectors, by the documents' rows."""
        return self.around(self.database)

    def missing(self, rows: Sequence[int]) -> list[int]:
        """Return those of the rows that have no new vectors yet."""
        there: set[int] = set()
        for some in several(rows):
            marks = ",".join("?" * len(some))
            found = self.database.all(f"SELECT row FROM documents WHERE row IN ({marks})", *some)
            there |= {row for (row,) in found}
        return [row for row in rows if row not in there]

    def keep(self, made: Sequence[tuple[int, Entry]]) -> None:
        """Store documents' new vectors by row."""
        with self.database.writing() as connection:
            for row, entry in made:
                counts = (len(entry.document.parts), len(entry.segments))
                connection.execute(
                    "INSERT INTO documents (row, id, modality, metadata, parts, segments, parts_hash, content, origin) "
                    "VALUES (?1, ?2, ?3, '{}', ?4, ?5, ?6, seal(?2, ?3, '{}', ?4, ?5, ?6, NULL), seal(?2, NULL, NULL))",
                    (row, str(row), entry.modality, *counts, entry.digest),
                )
                insert_parts(connection, row, entry, content=False)
                insert(connection, row, entry.segments)

    @contextmanager
    def preview(self) -> Iterator[Store]:
        """Return the collection as it will be, for reading; calibrations may be drafted there."""
        with closing(self._attached()) as database:
            for view in VIEWS:
                database.connection.execute(view)
            yield self.around(database)

    def measured(self, statistics: Statistics, sequence: int) -> None:
        """Store the statistics of the new vectors, and a token for the state that their index is built from."""
        with self.database.writing() as connection:
            schema.put(connection, statistics=statistics.to_bytes())
            schema.add_state(connection, sequence)

    @contextmanager
    def adopting(self, encoding: int) -> Iterator[tuple[Store, sqlite3.Connection]]:
        """Run the transaction that replaces the old vectors by the new; documents are deleted inside."""
        with closing(self._attached()) as database, database.writing() as connection:
            yield self.around(database), connection
            if connection.execute(LEFT).fetchone()[0]:
                raise BadFile(f"{self.folder} was written to while it was re-encoded. Run it again.")
            for statement in ADOPT:
                connection.execute(statement)
            schema.changed(connection)
            schema.put(connection, encoding=encoding)

    def _attached(self) -> Database:
        """Open the collection with the new vectors attached as ``fresh``."""
        database = Database(self.folder, pooled=False)
        database.connection.execute("ATTACH DATABASE ? AS fresh", (str(self.database.path),))
        return database


def drop(folder: Path) -> None:
    """Delete the staged vectors."""
    shutil.rmtree(folder / FOLDER, ignore_errors=True)


def begun(folder: Path, database: Database) -> UnfinishedReencode | None:
    """Return the unfinished re-encoding of a collection; None if there is none."""
    about = _manifest(folder, writable=database.writable)
    if (
        not about or database.manifest("identity").get("identity") == about["identity"]
    ):  # the last step is done; only the cleanup is left
        return None
    rows = {row for (row,) in database.all("SELECT row FROM documents")}
    made = _selected(folder, "SELECT row FROM documents", writable=database.writable)
    return UnfinishedReencode(str(about["encoder"]), sum(row in rows for (row,) in made), len(rows))


def _manifest(folder: Path, *, writable: bool) -> dict[str, object]:
    """Return the encoder of an unfinished re-encoding; empty if there is none."""
    found = dict(_selected(folder, "SELECT name, value FROM manifest", writable=writable))
    return found if {"encoder", "identity"} <= found.keys() else {}


def _selected(folder: Path, statement: str, *, writable: bool) -> list[Any]:
    """Return the rows of a query; empty if the file is missing or damaged."""
    if not (folder / FOLDER / FILE).exists():
        return []
    try:
        database = Database(folder / FOLDER, writable=writable)
        try:
            return database.all(statement)
        finally:
            database.close()
    except (IsthmusError, OSError):
        return []
