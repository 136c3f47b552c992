"""Separate processes that use a collection and print, line by line, what has been acknowledged.

python writing.py FOLDER ENCODER rounds         add, search, change and delete until it is killed
python writing.py FOLDER ENCODER lines          add a document per line of the input
python writing.py FOLDER ENCODER limited        add until files may not grow, search, make room, go on
python writing.py FOLDER none    read OTHER     do what the input says as a user who may write OTHER alone
python writing.py FOLDER ENCODER reencode OTHER POINT    re-encode into OTHER, and stop at a point until ended
python writing.py FOLDER ENCODER copy     OTHER POINT    copy to OTHER, and stop at a point until ended
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from isthmus import Collection, Document, Query, kinds
from isthmus.errors import CannotWrite
from isthmus.search import copy as copy_module
from isthmus.search import reencode as reencode_module
from isthmus.search import versions, writer
from isthmus.search.copy_record import CopyRecord
from stock import pixels, words

BATCH = 5
ROUND = 30
ASKED = Query(vectors={"text": np.arange(1.0, 9.0)})


def document(number: int, version: int = 0) -> Document:
    """Make the document of a number: text, image or both, sometimes of several passages."""
    rng = np.random.default_rng([number, version])
    text = words(rng, 30 if number % 5 == 0 else 5) if number % 3 != 1 else None
    return Document(f"d{number}", text, pixels(number) if number % 3 else None, {"number": number, "version": version})


def say(what: str) -> None:
    sys.stdout.write(what + "\n")
    sys.stdout.flush()


def rounds(things: Collection) -> None:
    first = 0
    while True:
        _add(things, first)
        things.search("a cat")
        for number in range(first, first + ROUND, 3):
            say(f"changing {number}")
            things.add([document(number, version=1)])
            say(f"changed {number}")
        for number in range(first + 1, first + ROUND, 5):
            say(f"deleting {number}")
            things.delete(f"d{number}")
            say(f"deleted {number}")
        things.refresh()
        first += ROUND


def _add(things: Collection, first: int) -> None:
    some = [document(number) for number in range(first, first + ROUND)]
    things.add(some, progress=lambda count: say(f"added {first} {first + count}"))


def lines(things: Collection) -> None:
    coming = (document(number) for number, _ in enumerate(sys.stdin))
    things.add(coming, progress=lambda count: say(f"added 0 {count}"))


def limited(things: Collection) -> None:
    import resource

    done = 0

    def progress(count: int) -> None:
        nonlocal done
        done = count

    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    things.add([document(number) for number in range(20)], progress=progress)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, hard))
    say(f"found {len(things.search('a cat', k=5))} of {len(things)}")
    resource.setrlimit(resource.RLIMIT_FSIZE, (3_000_000, hard))
    try:
        things.add((document(number) for number in range(100_000)), progress=progress)
    except CannotWrite as error:
        say(f"refused {error}")
    say(f"found {len(things.search('a cat', k=5))} of {len(things)} of which {done} were acknowledged")
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    things.add([document(number) for number in range(done, done + 20)], progress=lambda count: say(f"went on {count}"))
    say(f"whole {done + 20} {len(things)}")


def stopped(*_: object, **__: object) -> None:
    """Report that the point is reached, and wait to be killed."""
    say("there")
    sys.stdin.readline()


def reencode(things: Collection, other: str, point: str) -> None:
    """Re-encode, and stop: after a batch, before or after calibrating, inside the last transaction, or after it."""
    places: Mapping[str, tuple[Any, str]] = {
        "calibrating": (reencode_module, "_calibrated"),
        "switching": (versions, "replace_all"),
        "tidying": (reencode_module, "_tidy"),
    }
    if point in places:
        setattr(*places[point], stopped)

    def progress(done: int, total: int) -> None:
        say(f"done {done} of {total}")
        if point == f"after {done}":
            stopped()

    done = things.reencode(other, progress=progress)
    say(f"finished {done.encoded} {done.earlier}")


def copy(things: Collection, other: str, point: str) -> None:
    """Copy, and stop: before the first batch, inside a batch's transaction, after it, or before a later step."""
    places: Mapping[str, tuple[Any, str]] = {
        "prepared": (copy_module, "_filled"),
        "verifying": (copy_module, "_verified"),
        "finishing": (copy_module, "_report"),
    }
    if point in places:
        setattr(*places[point], stopped)
    written = CopyRecord.to_json
    records: list[str] = []

    def to_json(record: CopyRecord) -> str:
        records.append(written(record))
        if point == f"inside {len(records)}":
            stopped()
        return records[-1]

    setattr(CopyRecord, "to_json", to_json)  # noqa: B010 - mypy refuses an assignment

    def progress(stage: str) -> Callable[[int, int], None]:
        if point == stage:
            stopped()
        return lambda done, _: stopped() if point == f"{stage} {done}" else None

    things.copy_to(other, progress=progress)


def read(folder: Path, other: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(3, 8))
    with Collection.open(other, "none", calibration="none") as things:  # triggers late imports
        things.add([Document(f"w{i}", vectors={"text": row}) for i, row in enumerate(rows)])
        things.search(ASKED, explain=True)
    if os.geteuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
    with Collection.open(folder) as things:
        commands: Mapping[str, Callable[[], object]] = {
            "count": lambda: len(things),
            "search": lambda: " ".join(f"{hit.id}={hit.score:.5f}" for hit in things.search(ASKED, k=3)),
            "add": lambda: things.add([Document("x", vectors={"text": np.ones(8)})]),
            "calibrate": lambda: things.calibrate("center").version,
            "verify": lambda: things.verify(),
        }
        say("open")
        for line in sys.stdin:
            try:
                say(str(commands[line.strip()]()))
            except CannotWrite as error:
                say(f"refused {error}")


def main() -> None:
    folder, encoder, what, *rest = sys.argv[1:]
    writer.BATCH = copy_module.BATCH = copy_module.PAGE = BATCH
    type(kinds.get("image")).cost = 1  # so that a batch is a fixed number of documents
    if what == "read":
        return read(Path(folder), Path(rest[0]))
    with Collection.open(Path(folder), encoder, calibration="center") as things:
        say("open")
        if what in ("reencode", "copy"):
            return {"reencode": reencode, "copy": copy}[what](things, *rest)
        {"rounds": rounds, "lines": lines, "limited": limited}[what](things)
    return None


if __name__ == "__main__":
    main()
