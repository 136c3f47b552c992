"""``isthmus compact``: a smaller file after many deletions."""

from __future__ import annotations

from dataclasses import asdict

from isthmus.cli.options import In, Json
from isthmus.cli.terminal import echo, echo_json
from isthmus.search import Collection


def compact(into: In, json: Json = False) -> None:
    """Write a collection's file anew without the holes that deleted documents left.

        isthmus compact --in things.isthmus

    It needs twice as much free disk as the collection has. Searches continue, and nothing is lost if it is killed.
    This also happens by itself when a third of the file is wasted. An index of words that `isthmus stats --verify`
    found damaged is made again.
    """
    with Collection.open(into, create=False, follow=False) as things:
        done = things.compact()
    if json:
        echo_json(asdict(done))
        return
    echo(f"{done.before / 1e6:,.1f} MB before, {done.after / 1e6:,.1f} MB now.")
    if done.words_rebuilt:
        echo("The index of words was damaged and was made again.")
