"""``isthmus backup`` and ``isthmus restore``: a consistent copy of a collection, and a collection from it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from isthmus.cli import progress
from isthmus.cli.options import Json, Quiet
from isthmus.cli.terminal import echo, echo_json
from isthmus.errors import counted


def backup(
    collection: Annotated[Path, typer.Argument(help="the collection: a folder made by `isthmus index`")],
    out: Annotated[Path, typer.Argument(help="the new folder of the backup")],
    verify: Annotated[
        bool, typer.Option("--verify/--no-verify", help="read the whole copy, and refuse to keep a damaged one")
    ] = True,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Copy a collection as of one moment, while it is searched, served and written.

        isthmus backup things.isthmus backups/things-monday

    The copy is a folder with the store and its SHA-256. The index is not copied: it is made again from the store. Files
    that documents name by their path are not copied either. OUT must not exist; if the command is interrupted, there is
    no OUT, and the same command starts over.
    """
    from isthmus.storage.sqlite.backup import back_up

    with progress.counting("copying", "pages", then="verifying" if verify else "", quiet=quiet or json) as update:
        done = back_up(collection, out, verify=verify, progress=update)
    if json:
        echo_json(asdict(done))
        return
    echo(f"{counted(done.documents, 'document')}, {done.bytes / 1e6:,.1f} MB, are in {out}.")


def restore(
    source: Annotated[Path, typer.Argument(metavar="BACKUP", help="the folder that `isthmus backup` wrote")],
    collection: Annotated[Path, typer.Argument(help="the new folder of the collection")],
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Make a collection from a backup.

        isthmus restore backups/things-monday things.isthmus

    The checksum of the copy is compared first. COLLECTION must not exist: to replace a collection, stop what uses it
    and move it away. The first search builds the index.
    """
    from isthmus.storage.sqlite.backup import restore as restored

    with progress.counting("restoring", "bytes", quiet=quiet or json) as update:
        done = restored(source, collection, progress=update)
    if json:
        echo_json(asdict(done))
        return
    echo(f"{counted(done.documents, 'document')} of {done.made} are in {collection}.")
