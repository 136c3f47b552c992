"""``isthmus mcp``: a collection as tools for agents, by the Model Context Protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, cast

import typer

from isthmus._optional import need
from isthmus.cli.options import Device, Precision, Threads, TrustRemoteCode
from isthmus.cli.serve import need_serve
from isthmus.cli.terminal import echo
from isthmus.encoders.base import FULL
from isthmus.search import Collection, SearchInterface


def mcp(  # noqa: PLR0913 - one name per option
    collection: Annotated[
        str,
        typer.Argument(
            envvar="ISTHMUS_COLLECTION", help="a collection, or its URL: http://localhost:8080/v1/collections/things"
        ),
    ],
    write: Annotated[bool, typer.Option("--write", help="let agents add documents; default: they only read")] = False,
    http: Annotated[bool, typer.Option("--http", help="serve over HTTP, at /mcp; default: stdin and stdout")] = False,
    host: Annotated[str, typer.Option(help="address to listen on; others than 127.0.0.1 need --keys")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="port to listen on; 0: any free port")] = 8081,
    keys: Annotated[
        Path | None,
        typer.Option(envvar="ISTHMUS_KEYS", help="file of API keys that HTTP clients need; default: no keys"),
    ] = None,
    key: Annotated[
        str | None, typer.Option(envvar="ISTHMUS_KEY", help="API key of the server, if the collection is a URL")
    ] = None,
    picture_size: Annotated[
        int, typer.Option(min=64, max=2048, help="longer side of the pictures that agents get, in pixels")
    ] = 512,
    max_pictures: Annotated[int, typer.Option(min=0, max=50, help="most pictures in one answer; 0: none")] = 8,
    device: Device = "cpu",
    precision: Precision = FULL,
    trust_remote_code: TrustRemoteCode = False,
    threads: Threads = None,
) -> None:
    """Offer a collection to agents, as the MCP tools search, get and stats; with --write also add.

        isthmus mcp things.isthmus

        isthmus mcp things.isthmus --http --port 8081

    An agent such as Claude Desktop starts the first by itself; docs/quickstarts.md has its settings.
    """
    need("mcp", extra="mcp")
    need_serve()
    from isthmus.agents.answers import PictureLimits
    from isthmus.agents.run import NeededKey, run_http, run_stdio
    from isthmus.agents.server import create_server
    from isthmus.serve.settings import ServeSettings

    settings = ServeSettings(paths=(Path(),), host=host, port=port, keys=keys)  # checks host and keys
    if collection.startswith(("http://", "https://")):
        from isthmus.client import connect

        remote = connect(collection, key=key)
        name, opened = remote.name, cast("SearchInterface", remote)
    else:
        opened = Collection.open(
            collection,
            create=False,
            device=device,
            precision=precision,
            threads=threads,
            trust_remote_code=trust_remote_code,
        )
        name = Path(collection).resolve().name.removesuffix(".isthmus")
    try:
        server = create_server(opened, write=write, pictures=PictureLimits(side=picture_size, count=max_pictures))
        if http:
            needed = NeededKey("write" if write else "read", name)
            run_http(server, settings, needed, lambda url: echo(f"Tools at {url} Press Ctrl-C to stop.", err=True))
        else:
            run_stdio(server)
    finally:
        opened.close()
