"""The shard servers of a collection, as the coordinator's catalog has them.

    coordinator                                     shard n, a server of its own
    sharded         a table partitioned by hash     things.rows_TOKEN_n     folded vectors of a part of the documents
    sharded_n       its partitions: foreign tables  things.marks_TOKEN_n    the last change of each publication there
    marks_n         foreign tables
    sharded_publications    which publications there are, how far they are, and the last change of each

Processes talk to the coordinator alone. It reads and writes the shards by postgres_fdw, and makes their tables and
indexes by dblink.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
from psycopg import sql

from isthmus.errors import CannotWrite
from isthmus.storage.postgres import explain
from isthmus.storage.postgres.pool import EXTENSION, Connection

LISTED = """
SELECT substring(c.relname FROM '[0-9]+$')::integer, s.srvname, s.srvoptions, f.ftoptions
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_foreign_table f ON f.ftrelid = c.oid
JOIN pg_foreign_server s ON s.oid = f.ftserver WHERE i.inhparent = to_regclass('sharded') ORDER BY 1
"""


@dataclass(frozen=True, slots=True)
class Shard:
    """A shard server, as the coordinator knows it."""

    number: int
    server: str  # its name in the coordinator's catalog
    options: Mapping[str, str]
    schema: str
    token: str  # in the names of its tables there

    @property
    def place(self) -> str:
        """Where it is: host, port and database."""
        return f"{self.options.get('host', '')}:{self.options.get('port', '5432')}/{self.options.get('dbname', '')}"

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"shard {self.number} ({self.place})"

    @property
    def table(self) -> str:
        """The foreign table of its folded vectors."""
        return f"sharded_{self.number}"

    @property
    def marks(self) -> str:
        """The foreign table of its marks."""
        return f"marks_{self.number}"

    @property
    def rows_there(self) -> str:
        """The name of the table of folded vectors on the shard; publications of one database are ``folded_…``."""
        return f"rows_{self.token}_{self.number}"

    @property
    def marks_there(self) -> str:
        """The name of the table of marks on the shard."""
        return f"marks_{self.token}_{self.number}"

    def is_named_in(self, context: str) -> bool:
        """Whether a statement that was sent to a shard names a table of this one."""
        return any(f"{name} " in f"{context} " for name in (self.rows_there, self.marks_there))


def listed(rows: Sequence[tuple[int, str, Sequence[str], Sequence[str]]]) -> list[Shard]:
    """Return the shards, as ``LISTED`` found them."""
    shards: list[Shard] = []
    for number, server, options, names in rows:
        there = _named(names)
        shards.append(Shard(number, server, _named(options), there["schema_name"], there["table_name"].split("_")[1]))
    return shards


def _named(options: Sequence[str]) -> dict[str, str]:
    return dict(option.split("=", 1) for option in options)


def remotely(connection: Connection, shard: Shard, statement: sql.Composable) -> str:
    """Run a statement on a shard, committed there at once; return its status, as ``DELETE 7``."""
    call = sql.SQL("SELECT {}.dblink_exec(%s, %s)").format(sql.Identifier(schema_of(connection, "dblink")))
    return str(connection.execute(call, (shard.server, statement.as_string(connection))).fetchall()[0][0])


def answers(connection: Connection, shard: Shard, query: sql.Composable) -> list[str]:
    """Return the only column of a query on a shard."""
    place = sql.Identifier(schema_of(connection, "dblink"))
    call = sql.SQL("SELECT value FROM {}.dblink(%s, %s) AS answer (value text)").format(place)
    return [value for (value,) in connection.execute(call, (shard.server, query.as_string(connection))).fetchall()]


@contextmanager
def named(shard: Shard) -> Iterator[None]:
    """Let errors of PostgreSQL name a shard."""
    try:
        yield
    except psycopg.Error as error:
        raise explain.explained(error, shard.name) from error


def schema_of(connection: Connection, library: str) -> str:
    """Return the schema of an extension on the coordinator."""
    found = connection.execute(EXTENSION.replace("'vector'", "%s"), (library,)).fetchone()
    if found is None:
        raise CannotWrite(f"The extension {library} is missing. A superuser makes it: CREATE EXTENSION {library}.")
    return str(found[0])
