"""Readers concurrent with a writer: each search sees one committed state, complete.

A writer replaces the same documents over and over; each time, all of them say which generation they belong to. A
search that asks for all of them must find each once, and all of one generation: what one transaction wrote is seen
together or not at all.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any, cast

import numpy as np

from attacks.kill import Workers, short
from attacks.tally import Tally
from attacks.workers import Request, Say
from attacks.world import QUERIES, SPEC, World
from isthmus import Collection, Document
from isthmus.search import Hit, snapshot
from stock import pixels, words

RACING, STILL = 20, 15  # documents that are replaced, and others that stay
ALL = RACING + STILL
RACE = {"kind": "race"}
LIST = "list"  # no search: every document is read
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "plain": {"k": ALL},
    "where": {"k": RACING, "where": RACE},
    "hybrid": {"k": ALL, "hybrid": True},
    "hybrid where": {"k": RACING, "where": RACE, "hybrid": True},
    "group": {"k": ALL, "group": True},
    "explain": {"k": ALL, "explain": True},
    "offset": {"k": ALL, "offset": 5},
    "raw": {"k": ALL, "calibration": "none"},
    LIST: {},
}


def racing(generation: int, seed: int) -> list[Document]:
    """Return the documents that are replaced, as one generation has them."""
    made = []
    for number in range(RACING):
        rng = np.random.default_rng([seed, generation, number])
        text = f"{words(rng, 5)} g{generation}" if number % 3 != 1 else None
        image = pixels(int(rng.integers(1 << 30))) if number % 3 else None
        made.append(Document(f"r{number:02}", text, image, {**RACE, "generation": generation}))
    return made


def still() -> list[Document]:
    """Return the documents that stay."""
    made = []
    for number in range(STILL):
        text = words(np.random.default_rng(number), 6) if number % 2 else None
        made.append(Document(f"s{number}", text, None if text else pixels(number), {"kind": "still"}))
    return made


def judged(hits: Sequence[Hit], options: Mapping[str, Any], mode: str) -> str:
    """Return what an answer is: right, or what is wrong with it."""
    if any(hit.explanation is None for hit in hits) and options.get("explain"):
        return "not explained"
    ids = [name for hit in hits for name in (hit.id, *hit.duplicates)]
    if len(ids) != len(set(ids)):
        return "a document twice"
    offset = int(options.get("offset", 0))
    wanted = {RACING if "where" in options else ALL}
    if mode == "delete":
        wanted |= {0 if "where" in options else STILL}
    allowed = {count - min(offset, count) for count in wanted}
    if len(ids) not in allowed:
        return "empty" if not ids else "short" if len(ids) < max(allowed) else "long"
    if [hit.rank for hit in hits] != list(range(offset + 1, offset + len(hits) + 1)):
        return "ranks with a hole"
    return _of_one_state([hit.document for hit in hits], mode)


def listed(documents: Sequence[Document], mode: str) -> str:
    """Return what a list of all documents is: right, or what is wrong with it."""
    names = [found.id for found in documents]
    if len(set(names)) != len(names):
        return "a document twice"
    if len(names) not in ({ALL, STILL} if mode == "delete" else {ALL}):
        return "short" if len(names) < ALL else "long"
    return _of_one_state(documents, mode)


def _of_one_state(found: Sequence[Document], mode: str) -> str:
    """Return whether documents can be of one committed state: of one generation; with ``update``, newer ones first."""
    race = sorted((one for one in found if one.id.startswith("r")), key=lambda one: one.id)
    for one in race:
        if mode != "update" and one.text is not None and not one.text.endswith(f" g{one.metadata['generation']}"):
            return "text and metadata of two generations"
    generations = [int(one.metadata["generation"]) for one in race]
    if mode == "update":
        ordered = generations == sorted(generations, reverse=True)
        return "right" if ordered and max(generations, default=0) - min(generations, default=0) <= 1 else "two states"
    return "right" if len(set(generations)) <= 1 else "two generations"


def search(things: Collection, mode: str, rng: np.random.Generator) -> tuple[str, str]:
    """Search in a random way; return which, and what came of it."""
    name = str(rng.choice(list(OPTIONS)))
    asked = str(rng.choice(["text", "both"] if "hybrid" in name else list(QUERIES)))
    options = OPTIONS[name]
    try:
        if name == LIST:
            return name, listed(list(things), mode)
        return name, judged(things.search(QUERIES[asked], **options), options, mode)
    except Exception as error:  # noqa: BLE001 - counted: no search may fail beside a writer
        return name, f"{type(error).__name__}: {error}"[:200]


@contextmanager
def searching(things: Collection, mode: str, seed: int, threads: int) -> Iterator[Counter[str]]:
    """Search in threads until the block is left; what came of it is counted."""
    found: Counter[str] = Counter()
    over, first = Event(), Event()

    def searches(number: int) -> None:
        rng = np.random.default_rng([seed, number])
        while not over.is_set():
            found["/".join(search(things, mode, rng))] += 1
            first.set()

    running = [Thread(target=searches, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    try:
        first.wait(60)
        yield found
    finally:
        over.set()
        for thread in running:
            thread.join()


def _over(things: Collection, generation: int, seed: int, request: Request) -> None:
    things.add(racing(generation, seed))


def _delete(things: Collection, generation: int, seed: int, request: Request) -> None:
    things.delete([found.id for found in racing(0, seed)])
    things.add(racing(generation, seed))


def _update(things: Collection, generation: int, seed: int, request: Request) -> None:
    for number in range(RACING):
        things.update(f"r{number:02}", metadata={"generation": generation})


def _calibrate(things: Collection, generation: int, seed: int, request: Request) -> None:
    with ThreadPoolExecutor(1) as pool:
        calibrated = pool.submit(things.calibrate, ("center", SPEC)[generation % 2])
        for more in range(3):
            things.add(racing(10 * generation + more, seed))
        calibrated.result()


def _reencode(things: Collection, generation: int, seed: int, request: Request) -> None:
    things.add(racing(generation, seed))
    things.reencode(request[("encoder", "other")[generation % 2]], force=True)


def _rebuild(things: Collection, generation: int, seed: int, request: Request) -> None:
    things.add(racing(generation, seed))
    things.refresh()


def _compact(things: Collection, generation: int, seed: int, request: Request) -> None:
    things.add(racing(generation, seed))
    cast("Any", things).compact()


MODES: Mapping[str, Callable[[Collection, int, int, Request], None]] = {
    "over": _over,
    "delete": _delete,
    "update": _update,
    "calibrate": _calibrate,
    "reencode": _reencode,
    "rebuild": _rebuild,
    **({"compact": _compact} if hasattr(Collection, "compact") else {}),
}


def main(request: Request, say: Say) -> None:
    """Write or read; say in the end how many searches were what."""
    snapshot.PERSIST, snapshot.REBUILD = (4, 0.0), (30, 0.0)
    mode, seed = str(request["mode"]), int(request["seed"])
    if request["role"] == "write":
        found = _write(Path(request["folder"]), mode, seed, request, say)
    else:
        found = _read(Path(request["folder"]), mode, seed, Path(request["stop"]), say)
    say(json.dumps(found))


def _write(folder: Path, mode: str, seed: int, request: Request, say: Say) -> Counter[str]:
    with Collection.open(folder, request["encoder"], calibration=SPEC, follow=mode == "rebuild") as things:
        things.add([*racing(0, seed), *still()])
        things.search("a cat")
        say("ready")
        while not Path(request["go"]).exists():  # readers begin before the writer
            things.search("a cat")
        with searching(things, mode, seed, 1) as found:
            for generation in range(1, int(request["rounds"]) + 1):
                MODES[mode](things, generation, seed, request)
    return found


def _read(folder: Path, mode: str, seed: int, stop: Path, say: Say) -> Counter[str]:
    more: Counter[str] = Counter()
    with Collection.open(folder, follow=False, threads=1) as things, searching(things, mode, seed + 1, 1) as found:
        say("ready")
        rng = np.random.default_rng(seed)
        while not stop.exists():
            more["/".join(search(things, mode, rng))] += 1
    return found + more


def run(here: World, crew: Workers, mode: str, seed: int, rounds: int) -> Tally:
    """Let a writer replace documents so many times while threads of its process and of another search."""
    folder = here.root / "cases" / f"race-{mode}-{seed}"
    stop, go = folder.with_name(f"{folder.name}.stop"), folder.with_name(f"{folder.name}.go")
    shared = here.request(folder=str(folder), mode=mode, seed=seed, rounds=rounds, stop=str(stop), go=str(go))
    tally = Tally("race")
    with crew.pair() as (one, other):
        writer = one.start("attacks.races", {**shared, "role": "write"})
        if next(iter(writer), None) != "ready":
            writer.finish()
            tally.add("", f"--only race --seed {seed} --case {mode}", [short(writer.error)])
            return tally
        reader = other.start("attacks.races", {**shared, "role": "read"})
        next(iter(reader), None)
        go.touch()
        for name, task in (("the writer's process", writer), ("another process", reader)):
            lines = task.finish()
            stop.touch()
            told = f"--only race --seed {seed} --case {mode} ({name})"
            if task.status:
                tally.add("", told, [short(task.error)])
            else:
                count(tally, told, json.loads(lines[-1]))
    return tally


def count(tally: Tally, told: str, found: Mapping[str, int]) -> None:
    """Add the searches of a process."""
    for what, times in found.items():
        option, _, outcome = what.partition("/")
        if outcome == "right":
            tally.outcomes["right"] += times
        else:
            whole = sum(number for other, number in found.items() if other.startswith(f"{option}/"))
            tally.failed += times
            tally.wrong[outcome] += times
            tally.failures.append(f"{told}: {times} of {whole} searches '{option}': {outcome}")
