"""``isthmus shards``: put the vectors of a collection on a PostgreSQL server on several other servers."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from isthmus._optional import need
from isthmus.cli.options import Json
from isthmus.cli.terminal import echo, echo_json
from isthmus.errors import BadInput
from isthmus.storage.postgres.address import is_address


def shards(
    into: Annotated[
        str,
        typer.Option(
            "--in",
            metavar="<url>",
            envvar="ISTHMUS_COLLECTION",
            help="the collection: postgresql://… of the coordinator",
        ),
    ],
    servers: Annotated[
        list[str] | None, typer.Argument(metavar="[SERVER]...", help="URLs of the shards: postgresql://…")
    ] = None,
    move: Annotated[
        int | None, typer.Option(min=1, help="the number of a shard that SERVER takes the place of")
    ] = None,
    json: Json = False,
) -> None:
    """Show the shards of a collection, put its vectors on new ones, or use another server as one of them.

        isthmus shards --in 'postgresql://db.example/library?collection=things'

        isthmus shards postgresql://one.example/v postgresql://two.example/v --in 'postgresql://db.example/library?…'

        isthmus shards --move 2 postgresql://standby.example/v --in 'postgresql://db.example/library?collection=things'

    The coordinator reaches the shards by postgres_fdw, and keeps their passwords. Naming servers without --move starts
    over with these; the vectors are published again. docs/sharding.md says more.
    """
    need("psycopg", extra="postgres")
    from isthmus.storage.postgres import shard_servers  # late: it needs an extra

    if not is_address(into):
        raise BadInput(f"{into} is not on a PostgreSQL server. Shards are for collections at postgresql://….")
    given = servers or []
    if move is not None:
        if len(given) != 1:
            raise typer.BadParameter("--move takes one SERVER, the one in the place of the shard.")
        if not shard_servers.move(into, move, given[0]):
            echo("It lacks changes. The next search, or isthmus compact, publishes the vectors again.", err=True)
    elif given:
        shard_servers.make(into, given)
    states = shard_servers.states(into)
    if json:
        echo_json([asdict(state) for state in states])
        return
    for state in states:
        echo(f"{state.number}  {state.place}  {state.problem or 'answers'}")
    if not states:
        echo("It has no shards: its vectors are where `isthmus stats` says.")
