"""Files that may not grow beyond a random size, as on a full disk, in every verb that writes."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from attacks import triggers, world
from attacks.kill import SMALLEST, Usual, Workers, listen, prepared, said_problems, short, uninterrupted
from attacks.tally import Tally
from attacks.verbs import VERBS, Context
from attacks.workers import Request, Say, Worker
from attacks.world import SPEC, World
from isthmus import Collection
from isthmus.errors import IsthmusError


def run(here: World, crew: Workers, verb: str, seed: int, cases: Iterable[int]) -> Tally:
    """Run a verb into a limit, once for each number of a case."""
    usual = uninterrupted(here, crew, verb)
    tally, guard = Tally("disk"), threading.Lock()

    def one(number: int) -> None:
        rng = np.random.default_rng([seed, number, sum(verb.encode())])
        size = int(rng.choice([rng.integers(1, SMALLEST), rng.integers(SMALLEST, max(usual.largest, SMALLEST + 1))]))
        with crew.pair() as (worker, _):
            outcome, problems = attacked(here, worker, verb, usual, size, f"disk-{verb}-{seed}-{number}")
        with guard:
            tally.add(outcome, f"--only disk --seed {seed} --case '{verb} {number}' ({size} bytes)", problems)

    with ThreadPoolExecutor(crew.pairs) as pool:
        list(pool.map(one, cases))
    return tally


def attacked(here: World, worker: Worker, verb: str, usual: Usual, size: int, name: str) -> tuple[str, list[str]]:
    """Run a verb while files may not grow beyond a size, and check what is left."""
    folder = prepared(here, verb, name)
    task = worker.start("attacks.disk", here.request(folder=str(folder), verb=verb, size=size))
    heard = listen(task)
    problems = [f"it failed: {short(task.error)}"] if task.error else []
    problems += [line.removeprefix("problem ") for line in heard if line.startswith("problem ")]
    check = here.request(folder=str(folder), verb=verb, heard=heard, before=usual.before, goal=usual.goal)
    problems += said_problems(worker.start("attacks.checks", check))
    return ("refused" if "refused" in heard else "right"), problems


def main(request: Request, say: Say) -> None:
    """Perform a verb with the limit; searches go on while it stands."""
    world.small_batches()
    verb = str(request["verb"])
    things = Collection.open(Path(request["folder"]), calibration=SPEC, follow=False, threads=1)
    things.search("dog")
    triggers.limit_files(int(request["size"]))
    try:
        VERBS[verb](Context(things, request, say))
    except IsthmusError:
        say("refused")
    if verb != "refresh":  # which closes it
        found = {hit.id for hit in things.search("dog", k=10_000)}
        if found != set(things.ids()):
            say(f"problem with a full disk a search finds {len(found)} of {len(things)} documents")
    try:
        things.close()
    except IsthmusError:
        say("refused")
