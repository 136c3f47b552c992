"""Vectors of another encoder, in a schema of their own until they are complete: the progress of ``reencode``.

    manifest     the encoder: its name, its identity, its dimensions; at the end, the statistics of its vectors
    documents    a row of the collection's: modality and hashes as they will be
    parts        the hashes of its parts as they will be
    segments     the new vectors

A changed document has a new row, so the data of a row is never out of date.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from psycopg import sql

from isthmus import checksums
from isthmus.calibration import Statistics
from isthmus.encoders import Encoder
from isthmus.errors import BadFile, CannotWrite
from isthmus.storage.base import Entry, UnfinishedReencode
from isthmus.storage.postgres import schema, vectors
from isthmus.storage.postgres.database import PostgresDatabase, SingleConnection
from isthmus.storage.postgres.documents import SELECT, insert_parts
from isthmus.storage.postgres.pool import Connection

if TYPE_CHECKING:
    from isthmus.storage.postgres.store import PostgresStore

FORMAT = 1  # of the staged tables; another format starts from scratch
FILLED = ("documents", "parts", "segments", "states")

# The collection as it will be: its documents that have new vectors, with these.
VIEWS = """
CREATE TEMP VIEW segments AS SELECT * FROM {fresh}.segments;
CREATE TEMP VIEW documents AS SELECT d.row, d.id, f.modality, d.metadata, d.facts, d.parts, f.segments, f.parts_hash,
  f.own_hash, d.unit, d.run, d.tokens, f.checksum FROM {main}.documents d JOIN {fresh}.documents f ON f.row = d.row;
CREATE TEMP VIEW manifest AS SELECT * FROM {main}.manifest WHERE name != 'statistics'
  UNION ALL SELECT * FROM {fresh}.manifest WHERE name = 'statistics';
CREATE TEMP VIEW states AS SELECT * FROM {fresh}.states;
"""
# The statements that replace the old vectors by the new.
ADOPT = """
DELETE FROM segments;
INSERT INTO segments SELECT s.* FROM {fresh}.segments s JOIN documents d ON d.row = s.document;
UPDATE documents d SET modality = f.modality, segments = f.segments, parts_hash = f.parts_hash, own_hash = f.own_hash,
  checksum = f.checksum FROM {fresh}.documents f WHERE f.row = d.row;
INSERT INTO manifest SELECT * FROM {fresh}.manifest WHERE name IN ('encoder', 'identity', 'dim', 'statistics')
  ON CONFLICT (name) DO UPDATE SET value = excluded.value, data = excluded.data;
DELETE FROM gone WHERE sequence <= (SELECT value::bigint FROM manifest WHERE name = 'sequence');
DELETE FROM states;
INSERT INTO states SELECT * FROM {fresh}.states
  WHERE sequence = (SELECT value::bigint FROM manifest WHERE name = 'sequence');
"""
LEFT = "SELECT count(*) FROM documents d WHERE NOT EXISTS (SELECT FROM {fresh}.documents f WHERE f.row = d.row)"
PARTS = "SELECT p.document, p.number, p.kind, p.content, p.encoded, p.data, f.hash FROM parts p JOIN {fresh}.parts f "
PARTS += "ON f.document = p.document AND f.number = p.number WHERE f.hash IS DISTINCT FROM p.hash"


@dataclass(slots=True, eq=False)
class PostgresStaging:
    """New vectors of a collection, not yet in use."""

    main: PostgresStore
    store: PostgresStore  # the new vectors, by the documents' rows

    @classmethod
    def open(cls, main: PostgresStore, name: str, encoder: Encoder) -> PostgresStaging:
        """Open the vectors staged for this encoder; drop those of another encoder."""
        own = PostgresDatabase(main.database.address, schema.staging(main.database.schema))
        try:
            found = own.manifest("identity", "format")
            with own.writing() as connection:
                if found.get("identity") != encoder.identity or found.get("format") != FORMAT:
                    _clear(connection)
                schema.put(connection, encoder=name, identity=encoder.identity, dim=encoder.dim, format=FORMAT)
        except BaseException:
            own.close()
            raise
        return cls(main, type(main)(own))

    def close(self) -> None:
        """Close it; staged vectors stay until they are dropped."""
        self.store.database.close()

    def missing(self, rows: Sequence[int]) -> list[int]:
        """Return those of the rows that have no new vectors yet."""
        found = self.store.database.all("SELECT row FROM documents WHERE row = ANY(%s)", list(rows))
        there = {row for (row,) in found}
        return [row for row in rows if row not in there]

    def keep(self, made: Sequence[tuple[int, Entry]]) -> None:
        """Store documents' new vectors by row."""
        metadata = self._metadata([row for row, _ in made])
        with self.store.database.writing() as connection:
            for row, entry in made:
                name, about = metadata.get(row, (str(row), "{}"))
                values = (entry.modality, len(entry.document.parts), len(entry.segments), entry.digest)
                modality, parts, segments, digest = values
                checksum = checksums.of_values(name, modality, about, parts, segments, digest, None)
                connection.execute(
                    "INSERT INTO documents (row, id, metadata, facts, modality, parts, segments, parts_hash, checksum) "
                    "VALUES (%s, %s, '{}', '{}', %s, %s, %s, %s, %s)",
                    (row, str(row), *values, checksum),
                )
            insert_parts(connection, made, content=False)
            vectors.insert(connection, ((row, entry.segments) for row, entry in made))

    def _metadata(self, rows: Sequence[int]) -> dict[int, tuple[str, str]]:
        """Return the ids and metadata of documents, which their checksums cover."""
        found = self.main.database.all(f"{SELECT} WHERE row = ANY(%s)", list(rows))
        return {row: (name, metadata) for row, name, _, metadata, *_ in found}

    def measured(self, statistics: Statistics, sequence: int) -> None:
        """Store the statistics of the new vectors, and a token for the state that their index is built from."""
        with self.store.database.writing() as connection:
            schema.put(connection, statistics=statistics.to_bytes())
            schema.add_state(connection, sequence)

    @contextmanager
    def preview(self) -> Iterator[PostgresStore]:
        """Return the collection as it will be, for reading; calibrations may be drafted there."""
        views = self._named(VIEWS).as_string()
        with closing(SingleConnection(self.main.database.address, views)) as database:
            yield type(self.main)(database)

    @contextmanager
    def adopting(self, encoding: int) -> Iterator[tuple[PostgresStore, Connection]]:
        """Run the transaction that replaces the old vectors by the new; documents are deleted inside."""
        with self.main.database.writing() as connection:
            yield self.main, connection
            if connection.execute(self._named(LEFT)).fetchall()[0][0]:
                raise BadFile(f"{self.main.database.path} was written to while it was re-encoded. Run it again.")
            connection.execute(self._named(ADOPT))
            self._adopt_hashes(connection)
            schema.changed(connection)
            schema.put(connection, encoding=encoding)

    def _adopt_hashes(self, connection: Connection) -> None:
        """Write the new hashes of parts, and the checksums that cover them."""
        rows = connection.execute(self._named(PARTS)).fetchall()
        with connection.cursor() as cursor:
            cursor.executemany(
                "UPDATE parts SET hash = %s, checksum = %s WHERE document = %s AND number = %s",
                [(row[-1], checksums.of_values(*row), row[0], row[1]) for row in rows],
            )

    def _named(self, statement: str) -> sql.Composed:
        main = self.main.database.schema
        return sql.SQL(statement).format(main=sql.Identifier(main), fresh=sql.Identifier(schema.staging(main)))


def drop(database: PostgresDatabase) -> None:
    """Delete the staged vectors."""
    own = PostgresDatabase(database.address, schema.staging(database.schema))
    with closing(own), own.writing() as connection:
        _clear(connection)


def _clear(connection: Connection) -> None:
    for table in FILLED:
        connection.execute(f"DELETE FROM {table}")
    connection.execute("DELETE FROM manifest WHERE name IN ('encoder', 'identity', 'dim', 'format', 'statistics')")


def begun(database: PostgresDatabase) -> UnfinishedReencode | None:
    """Return the unfinished re-encoding of a collection; None if there is none, or this role may not see it."""
    fresh = sql.Identifier(schema.staging(database.schema)).as_string()
    try:
        about = dict(database.all(f"SELECT name, value FROM {fresh}.manifest WHERE name IN ('encoder', 'identity')"))
    except CannotWrite:
        return None
    if not about or database.manifest("identity").get("identity") == about["identity"]:
        return None
    done = f"SELECT count(*) FROM documents d JOIN {fresh}.documents f ON f.row = d.row"
    total = int(database.one("SELECT count(*) FROM documents")[0])
    return UnfinishedReencode(str(about["encoder"]), int(database.one(done)[0]), total)
