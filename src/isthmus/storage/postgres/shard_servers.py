"""Put the folded vectors of a collection on shard servers, move a shard to another server, and ask how they are.

Servers and user mappings are in the coordinator's catalog: what ``move`` changes there, every process uses from its
next transaction on.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from isthmus.errors import BadInput, CannotWrite, IsthmusError
from isthmus.storage.postgres import explain
from isthmus.storage.postgres.address import SHARDED, PostgresAddress
from isthmus.storage.postgres.database import PostgresDatabase
from isthmus.storage.postgres.folded import EF
from isthmus.storage.postgres.pool import Connection
from isthmus.storage.postgres.schema import INLINE
from isthmus.storage.postgres.shards import LISTED, Shard, listed, named, remotely, schema_of

SETTINGS = (  # of every session on a shard: how HNSW is searched, as in one database; the coordinator limits the time
    f"-c hnsw.ef_search={EF} -c hnsw.iterative_scan=relaxed_order -c hnsw.max_scan_tuples=2000000000 "
    "-c hnsw.scan_mem_multiplier=8 -c statement_timeout=0"
)
# Remote estimates are what makes postgres_fdw send LIMIT; async_capable, what makes the shards work at once.
OURS = {
    "extensions": "vector",
    "use_remote_estimate": "true",
    "async_capable": "true",
    "parallel_commit": "true",
    "batch_size": "500",
    "fetch_size": "1000",
}
LIBRARIES = ("postgres_fdw", "dblink")
COLUMNS = """
  key text COLLATE "C" NOT NULL, modality text COLLATE "C" NOT NULL, document bigint NOT NULL, passage integer NOT NULL,
  id text COLLATE "C" NOT NULL, facts jsonb NOT NULL, vector {vector} NOT NULL
"""
MARKS = 'key text COLLATE "C", change bigint NOT NULL'
ON_SHARD = f"""
CREATE EXTENSION IF NOT EXISTS vector SCHEMA {{place}};
CREATE SCHEMA IF NOT EXISTS {{schema}};
CREATE TABLE IF NOT EXISTS {{folded}} ({COLUMNS}, PRIMARY KEY (key, document, passage));
ALTER TABLE {{folded}} ALTER COLUMN vector SET STORAGE EXTERNAL, SET ({INLINE});
CREATE INDEX IF NOT EXISTS {{by_modality}} ON {{folded}} (key, modality, document);
CREATE INDEX IF NOT EXISTS {{by_facts}} ON {{folded}} USING gin (facts jsonb_path_ops);
CREATE TABLE IF NOT EXISTS {{marks}} ({MARKS}, PRIMARY KEY (key));
"""
ON_COORDINATOR = f"""
CREATE TABLE sharded_publications (
  key text COLLATE "C" PRIMARY KEY, width integer NOT NULL, about text, change bigint NOT NULL
);
CREATE SEQUENCE sharded_changes;
CREATE TABLE sharded ({COLUMNS}) PARTITION BY HASH (document);
"""
FOREIGN = f"""
CREATE FOREIGN TABLE {{part}} PARTITION OF sharded FOR VALUES WITH (MODULUS {{count}}, REMAINDER {{remainder}})
  SERVER {{server}} OPTIONS (schema_name {{name}}, table_name {{folded}});
CREATE FOREIGN TABLE {{marks_here}} ({MARKS}) SERVER {{server}}
  OPTIONS (schema_name {{name}}, table_name {{marks}}, use_remote_estimate 'false');
"""
BEHIND = """
SELECT p.key FROM sharded_publications p LEFT JOIN {marks} m ON m.key = p.key WHERE (m.change >= p.change) IS NOT TRUE
"""


@dataclass(frozen=True, slots=True)
class ShardState:
    """Whether a shard answers, and has every change; ``problem`` says what is wrong."""

    number: int
    place: str
    problem: str | None


def states(url: str) -> list[ShardState]:
    """Ask every shard of a collection whether it answers and has every change."""
    with closing(PostgresDatabase(PostgresAddress.of(url))) as database:
        return [_state(database, shard) for shard in listed(database.all(LISTED))]


def _state(database: PostgresDatabase, shard: Shard) -> ShardState:
    try:
        behind = database.all(BEHIND.format(marks=shard.marks))
    except IsthmusError as error:
        return ShardState(shard.number, shard.place, str(error.__cause__ or error).splitlines()[0])
    problem = "lacks changes: the next search publishes the vectors again" if behind else None
    return ShardState(shard.number, shard.place, problem)


def make(url: str, places: Sequence[str]) -> None:
    """Keep the folded vectors of a collection on these servers from now on; they are published by the next search.

    A collection that does not exist is made, without an encoder yet. What earlier shards have is deleted, if they
    answer.
    """
    asked = [_parameters(place) for place in places]
    with closing(PostgresDatabase(PostgresAddress.of(url))) as database:
        if not database.there:
            database.create()
        if not database.manifest("pgvector").get("pgvector"):
            raise BadInput(
                f"{database.path} has no pgvector 0.8 or later, which shards need on every server. Install it first."
            )
        with database.writing() as connection:
            _libraries(connection)
            old = _put_aside(connection)
            vector = sql.Identifier(schema_of(connection, "vector"), "vector")
            connection.execute(sql.SQL(ON_COORDINATOR).format(vector=vector))
            token, schema = secrets.token_hex(4), database.address.collection
            for number, (options, user) in enumerate(asked, 1):
                shard = Shard(number, f"{schema}_shard_{number}", options, schema, token)
                _add(connection, shard, user, len(asked))
            for shard in old:  # last: what is dropped there does not come back
                _drop(connection, shard)
            database.put(connection, vectors=SHARDED[0])


def move(url: str, number: int, place: str) -> bool:
    """Use another server as a shard from now on; return whether it has every change.

    A promoted replica has them. If it lacks some, or is an empty server, the next search publishes the vectors again.
    """
    options, user = _parameters(place)
    with closing(PostgresDatabase(PostgresAddress.of(url))) as database, database.writing() as connection:
        found = {shard.number: shard for shard in listed(connection.execute(LISTED).fetchall())}
        if number not in found:
            known = f"its shards are 1 to {len(found)}" if found else "it has no shards"
            raise BadInput(f"{database.path} has no shard {number}: {known}.")
        old = found[number]
        shard = Shard(number, old.server, options, old.schema, old.token)
        connection.execute(_altered(old, options))
        if user:
            connection.execute(sql.SQL("DROP USER MAPPING IF EXISTS FOR CURRENT_USER SERVER {}").format(_server(shard)))
            connection.execute(_mapping(shard, user))
        with named(shard):
            remotely(connection, shard, _on_shard(connection, shard))
            behind = [key for (key,) in connection.execute(BEHIND.format(marks=shard.marks)).fetchall()]
        connection.execute("DELETE FROM sharded_publications WHERE key = ANY(%s)", (behind,))
        return not behind


def _parameters(place: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return what a shard's URL says, for its server and for the user mapping."""
    address = PostgresAddress.of(place)
    try:
        given = {name: str(value) for name, value in conninfo_to_dict(address.url).items() if value is not None}
    except psycopg.Error as error:
        raise BadInput(f"The URL of the shard {address} cannot be read: {error}.") from None
    user: dict[str, str] = {name: given.pop(name) for name in ("user", "password") if name in given}
    settings = f"{SETTINGS} {given.pop('options', '')}".strip()
    return {"port": "5432", **given, **OURS, "options": settings}, user


def _add(connection: Connection, shard: Shard, user: Mapping[str, str], count: int) -> None:
    """Make a shard: its server in the catalog, its tables there, and the foreign tables here."""
    connection.execute(
        sql.SQL("CREATE SERVER {} FOREIGN DATA WRAPPER postgres_fdw OPTIONS ({})").format(
            _server(shard), _options(shard.options)
        )
    )
    connection.execute(_mapping(shard, user))
    with named(shard):
        remotely(connection, shard, _on_shard(connection, shard))
    connection.execute(
        sql.SQL(FOREIGN).format(
            part=sql.Identifier(shard.table),
            count=sql.Literal(count),
            remainder=sql.Literal(shard.number - 1),
            server=_server(shard),
            name=sql.Literal(shard.schema),
            folded=sql.Literal(shard.rows_there),
            marks_here=sql.Identifier(shard.marks),
            marks=sql.Literal(shard.marks_there),
        )
    )


def _on_shard(connection: Connection, shard: Shard) -> sql.Composed:
    place = schema_of(connection, "vector")  # types must have the same names on all servers
    return sql.SQL(ON_SHARD).format(
        place=sql.Identifier(place),
        schema=sql.Identifier(shard.schema),
        vector=sql.Identifier(place, "vector"),
        folded=sql.Identifier(shard.schema, shard.rows_there),
        marks=sql.Identifier(shard.schema, shard.marks_there),
        by_modality=sql.Identifier(f"{shard.rows_there}_by_modality"),
        by_facts=sql.Identifier(f"{shard.rows_there}_by_facts"),
    )


def _put_aside(connection: Connection) -> list[Shard]:
    """Drop what the coordinator has of its shards, and give their servers other names; return them."""
    old: list[Shard] = []
    for shard in listed(connection.execute(LISTED).fetchall()):
        connection.execute(sql.SQL("DROP FOREIGN TABLE {}").format(sql.Identifier(shard.marks)))
        old.append(replace(shard, server=f"{shard.server}_{shard.token}"))
        connection.execute(sql.SQL("ALTER SERVER {} RENAME TO {}").format(_server(shard), _server(old[-1])))
    connection.execute("DROP TABLE IF EXISTS sharded, sharded_publications; DROP SEQUENCE IF EXISTS sharded_changes")
    return old


def _drop(connection: Connection, shard: Shard) -> None:
    """Delete what a shard has, and its server in the catalog; a shard that does not answer keeps what it has."""
    tables = (sql.Identifier(shard.schema, name) for name in (shard.rows_there, shard.marks_there))
    with suppress(psycopg.Error), connection.transaction():  # a savepoint
        remotely(connection, shard, sql.SQL("DROP TABLE IF EXISTS {}").format(sql.SQL(", ").join(tables)))
    connection.execute(sql.SQL("DROP SERVER {} CASCADE").format(_server(shard)))


def _libraries(connection: Connection) -> None:
    for library in LIBRARIES:
        try:
            with connection.transaction():
                connection.execute(f"CREATE EXTENSION IF NOT EXISTS {library} SCHEMA public")
        except psycopg.Error as error:
            raise CannotWrite(
                f"The extension {library} cannot be made ({explain.first_line(error)}). A superuser makes it: CREATE "
                f"EXTENSION {library}; and for other roles GRANT USAGE ON FOREIGN DATA WRAPPER postgres_fdw."
            ) from None


def _altered(old: Shard, options: Mapping[str, str]) -> sql.Composed:
    changes = [sql.SQL("DROP {}").format(sql.Identifier(name)) for name in old.options if name not in options]
    for name, value in options.items():
        word = "SET" if name in old.options else "ADD"
        changes.append(sql.SQL(f"{word} {{}} {{}}").format(sql.Identifier(name), sql.Literal(value)))
    return sql.SQL("ALTER SERVER {} OPTIONS ({})").format(_server(old), sql.SQL(", ").join(changes))


def _mapping(shard: Shard, user: Mapping[str, str]) -> sql.Composed:
    statement = "CREATE USER MAPPING FOR CURRENT_USER SERVER {} OPTIONS ({})"
    return sql.SQL(statement if user else statement.removesuffix(" OPTIONS ({})")).format(
        _server(shard), *([_options(user)] if user else [])
    )


def _options(options: Mapping[str, str]) -> sql.Composed:
    each = (sql.SQL("{} {}").format(sql.Identifier(name), sql.Literal(value)) for name, value in options.items())
    return sql.SQL(", ").join(each)


def _server(shard: Shard) -> sql.Identifier:
    return sql.Identifier(shard.server)
