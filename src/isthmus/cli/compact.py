"""``isthmus compact``: free the disk space of deleted documents."""

from __future__ import annotations

from dataclasses import asdict

from isthmus.cli import progress
from isthmus.cli.options import In, Json, Quiet
from isthmus.cli.terminal import echo, echo_json
from isthmus.search import Collection


def compact(into: In, quiet: Quiet = False, json: Json = False) -> None:
    """Rewrite a collection's file without the space of deleted documents.

        isthmus compact --in things.isthmus

    It needs free disk space of twice the collection's size. Searches keep working, and nothing is lost if it is
    interrupted. A collection compacts itself when a third of its file is unused. If `isthmus stats --verify` found the
    word index damaged, it is rebuilt.
    """
    with (
        Collection.open(into, create=False, follow=False) as things,
        progress.waiting("compacting", quiet=quiet or json),
    ):
        done = things.compact()
    if json:
        echo_json(asdict(done))
        return
    echo(f"{done.before / 1e6:,.1f} MB before, {done.after / 1e6:,.1f} MB after.")
    if done.words_rebuilt:
        echo("The word index was damaged and was rebuilt.")
