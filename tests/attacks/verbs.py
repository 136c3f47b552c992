"""Every verb that writes, in steps that are acknowledged one by one, in a process that may end at any moment.

A step is one transaction: it happened or it did not. ``did N`` says that step N is acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from attacks import triggers, world
from attacks.workers import Request, Say
from attacks.world import BATCH, SPEC, STORED, document
from isthmus import Collection, Document
from isthmus.search.source_events import Indexed

SPECS = ("center", "center+standardize", SPEC)
SEARCHES = 70  # so that the query log is written twice while it goes on
LOGGED = 3  # queries that are in the log of the collection from the start


@dataclass(frozen=True, slots=True)
class Context:
    """What a verb works with."""

    things: Collection
    request: Request
    say: Say


def steps(verb: str) -> list[list[str]]:
    """Return the ids that each step of a verb changes; none where documents stay as they are."""
    if verb == "add":
        names = [found.id for found in _arriving()]
        return [names[start : start + BATCH] for start in range(0, len(names), BATCH)]
    if verb == "update":
        return [[f"d{number}"] for number in (0, 1, 2, 3, 7, 8)]
    if verb == "delete":
        return [[f"d{number + i}" for i in range(3)] for number in range(8, 23, 3)]
    if verb == "refresh":
        return [[found.id for found in group] for group in _refreshed()]
    return []


def _arriving() -> list[Document]:
    """Return new documents, and others in place of old ones."""
    numbers = [number if number % 2 else number + STORED for number in range(STORED)]
    return [document(number, version=2) for number in numbers]


def _refreshed() -> list[list[Document]]:
    return [[document(100 + BATCH * group + i) for i in range(BATCH)] for group in range(3)]


def index(context: Context) -> None:
    """Follow a folder that has changed."""

    def progress(report: Indexed) -> None:
        context.say(f"indexed {report.added + report.updated} {report.removed}")

    context.things.index(context.request["source"], ocr="never", progress=progress)


def add(context: Context) -> None:
    """Add documents in several batches of one call."""
    done = 0

    def progress(count: int) -> None:
        nonlocal done
        for number in range(done, count // BATCH):
            context.say(f"did {number}")
        done = count // BATCH

    context.things.add(_arriving(), progress=progress)


def update(context: Context) -> None:
    """Change metadata, texts and pictures, one document after another."""
    for number, (name,) in enumerate(steps("update")):
        if number % 2:
            context.things.update(name, metadata={"version": 3})
        else:
            context.things.update(Document(name, f"a changed tree {number}", metadata={"version": 3}))
        context.say(f"did {number}")


def delete(context: Context) -> None:
    """Take documents out, three at a time."""
    for number, names in enumerate(steps("delete")):
        context.things.delete(names)
        context.say(f"did {number}")


def calibrate(context: Context) -> None:
    """Calibrate again and again."""
    for spec in SPECS:
        made = context.things.calibrate(spec)
        context.say(f"calibrated {made.version} {spec}")


def reencode(context: Context) -> None:
    """Re-encode every document; those whose pictures are gone are deleted."""

    def progress(done: int, total: int) -> None:
        context.say(f"encoded {done} of {total}")

    context.things.reencode(context.request["other"], drop=True, force=True, progress=progress)
    context.say("reencoded")


def export(context: Context) -> None:
    """Export over a file that an earlier export wrote."""
    file = Path(context.request["folder"] + ".npz")
    for _ in range(3):
        count = context.things.export_vectors(file)
        context.say(f"exported {count}")


def log(context: Context) -> None:
    """Search with the query log switched on."""
    context.things.log_queries()
    for number in range(SEARCHES):
        context.things.search(f"cat {number}", k=3)
    context.say(f"logged {context.things.stats().logged}")
    context.things.search("dog")


def refresh(context: Context) -> None:
    """Add, build the index, and close."""
    for number, group in enumerate(_refreshed()):
        context.things.add(group)
        context.say(f"did {number}")
        context.things.refresh()
        context.say("refreshed")
    context.things.close()
    context.say("closed")


def compact(context: Context) -> None:
    """Give unused room back."""
    cast("Any", context.things).compact()
    context.say("compacted")


def create(context: Context) -> None:
    """Make a collection where there is none, and put the first documents into it."""
    folder = Path(context.request["folder"] + ".new")
    with Collection.open(folder, context.request["encoder"], calibration=SPEC, follow=False, threads=1) as things:
        context.say("created")
        things.add([document(number) for number in range(BATCH)])
        context.say("filled")
        things.search("a cat")


VERBS: Mapping[str, Callable[[Context], None]] = {
    "index": index,
    "add": add,
    "update": update,
    "delete": delete,
    "calibrate": calibrate,
    "reencode": reencode,
    "export": export,
    "log": log,
    "refresh": refresh,
    "create": create,
    **({"compact": compact} if hasattr(Collection, "compact") else {}),
}


def perform(folder: Path, verb: str, request: Request, say: Say, *, follow: bool = False) -> None:
    """Open a collection, search it once, and perform a verb."""
    with Collection.open(folder, calibration=SPEC, follow=follow, threads=1) as things:
        things.search("dog")
        say("open")
        VERBS[verb](Context(things, request, say))


def main(request: Request, say: Say) -> None:
    """Perform a verb until a trigger ends it; say at the end how many events it took, and the largest file."""
    world.small_batches()
    folder = Path(request["folder"])
    events = triggers.arm(request["trigger"], folder)
    perform(folder, request["verb"], request, say, follow=bool(request.get("follow")))
    events.armed = False
    say(f"events {events.count}")
