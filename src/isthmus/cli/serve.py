"""``isthmus serve`` and ``isthmus keys``: collections over HTTP, and who may use them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from isthmus._optional import need
from isthmus.cli.options import Device, Json, Precision, Threads, TrustRemoteCode
from isthmus.cli.terminal import echo, echo_json, line
from isthmus.encoders.base import FULL
from isthmus.encoders.runtime import Runtime

KeysFile = Annotated[Path, typer.Option("--keys", envvar="ISTHMUS_KEYS", help="the file of API keys")]


def serve(  # noqa: PLR0913 - one name per option
    paths: Annotated[
        list[Path] | None,
        typer.Argument(help="collections, or folders with collections (*.isthmus); default: the current folder"),
    ] = None,
    host: Annotated[str, typer.Option(help="address to listen on; others than 127.0.0.1 need --keys")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="port to listen on; 0: any free port")] = 8080,
    keys: Annotated[
        Path | None,
        typer.Option(envvar="ISTHMUS_KEYS", help="file of API keys, made by `isthmus keys create`; default: no keys"),
    ] = None,
    allowed_host: Annotated[
        list[str] | None, typer.Option(help="another name of this server, as in a Host header: search.example.org")
    ] = None,
    allowed_origin: Annotated[
        list[str] | None,
        typer.Option(help="another site whose pages may call this server: https://app.example.org"),
    ] = None,
    picture_host: Annotated[
        list[str] | None,
        typer.Option(help="a host from which pictures may be fetched: images.example.org or *.example.org"),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(help="another encoder, aligner or reranker that requests may name: st:NAME, onnx:FOLDER …"),
    ] = None,
    max_body: Annotated[int, typer.Option(min=1, help="largest JSON body, line or file, in MiB")] = 64,
    max_upload: Annotated[int, typer.Option(min=1, help="largest stream of documents or upload, in MiB")] = 1024,
    max_pixels: Annotated[int, typer.Option(min=1, help="largest picture, in millions of pixels")] = 50,
    max_duration: Annotated[float, typer.Option(min=0.1, help="longest sound or video, in minutes")] = 120.0,
    timeout: Annotated[float, typer.Option(min=0.1, help="seconds that the work of a request may take")] = 60.0,
    rate: Annotated[
        float | None,
        typer.Option(min=0, help="requests per second of one client; default: 50 with keys, else no limit (0)"),
    ] = None,
    waiting: Annotated[int, typer.Option(min=1, help="requests that may run or wait; more get 503")] = 256,
    workers: Annotated[int, typer.Option(min=1, help="threads that answer requests")] = 4,
    batch: Annotated[
        int, typer.Option(min=1, max=1024, help="searches that run together, if they come together; 1: none")
    ] = 64,
    device: Device = "cpu",
    precision: Precision = FULL,
    trust_remote_code: TrustRemoteCode = False,
    threads: Threads = None,
) -> None:
    """Serve collections over HTTP, with a page for people and an API for programs.

        isthmus serve things.isthmus

        isthmus serve ~/collections --port 8000 --keys keys.json --host 0.0.0.0

    The API is described in docs/serve.md and at /openapi.json. Without keys only this machine can call it.
    """
    need_serve()
    from isthmus.budget import MIB
    from isthmus.serve.run import run
    from isthmus.serve.settings import ServeLimits, ServeSettings

    limits = ServeLimits(
        body=max_body * MIB,
        held=max(max_body * MIB, ServeLimits().held),
        upload=max_upload * MIB,
        pixels=max_pixels * 1_000_000,
        duration=max_duration * 60,
        seconds=timeout,
        rate=(50.0 if keys else 0.0) if rate is None else rate,
        waiting=waiting,
    )
    settings = ServeSettings(
        paths=tuple(paths or [Path()]),
        host=host,
        port=port,
        keys=keys,
        runtime=Runtime(device=device, threads=threads, precision=precision, trust_remote_code=trust_remote_code),
        workers=workers,
        batch=batch,
        models=tuple(model or ()),
        picture_hosts=tuple(picture_host or ()),
        allowed_hosts=tuple(allowed_host or ()),
        allowed_origins=tuple(allowed_origin or ()),
        limits=limits,
    )
    run(settings, lambda url: echo(f"Serving on {url} Press Ctrl-C to stop.", err=True))


def need_serve() -> None:
    """Raise an error that says what to install if the server cannot run."""
    for module in ("fastapi", "uvicorn", "prometheus_client", "python_multipart"):
        need(module, extra="serve")


keys = typer.Typer(no_args_is_help=True, help="Make, list and revoke the API keys of a server.")


@keys.command("create", short_help="make a key, and print it once")
def create(
    file: KeysFile,
    name: Annotated[str, typer.Option(help="who uses the key")],
    scope: Annotated[
        str,
        typer.Option(help="read: search and get; write: also add and delete documents; admin: also collections"),
    ] = "read",
    collection: Annotated[
        list[str] | None, typer.Option(help="a collection that the key may use; default: all of them")
    ] = None,
    json: Json = False,
) -> None:
    """Make an API key. It is printed once; the file keeps its hash."""
    from isthmus.serve.keys import create_key

    key, token = create_key(file, name, scope, collection or ())
    if json:
        echo_json({"id": key.id, "token": token})
        return
    echo(token)
    echo(f"This is the key {key.id} ({key.scope}). Keep it: it is not shown again.", err=True)


@keys.command("list", short_help="list keys")
def listed(file: KeysFile, json: Json = False) -> None:
    """List API keys, without their secrets."""
    from isthmus.serve.keys import read_keys

    found = read_keys(file)
    if json:
        echo_json([{name: value for name, value in asdict(key).items() if name != "hash"} for key in found])
        return
    for key in found:
        echo(f"{key.id}  {key.scope:<5}  {line(key.name)}  {', '.join(key.collections)}  {key.made}")
    if not found:
        echo("There are no keys.")


@keys.command("revoke", short_help="revoke a key")
def revoke(file: KeysFile, number: Annotated[str, typer.Argument(help="the key's id", metavar="ID")]) -> None:
    """Revoke an API key: running servers refuse it at once."""
    from isthmus.serve.keys import revoke_key

    key = revoke_key(file, number)
    echo(f"Revoked the key {key.id} of {line(key.name)}.")
