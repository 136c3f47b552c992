"""Attack a collection for so many minutes: the same attacks as the tests, with new seeds.

    python bench/torture.py [--minutes 10] [--seed 1] [--only kill,disk,flip,race,restore,fuzz] [--notes]

kill      end a process with SIGKILL at a random point of every verb that writes, sometimes while another one searches
disk      let no file grow beyond a random size, in every verb that writes
flip      flip bits in every column of every table, and flip, blank or cut every file
race      search in threads and processes while a writer replaces, updates, calibrates, re-encodes, builds the index
restore   put the store back from a copy beside indexes of other moments
fuzz      damaged files for every reader of sources

One line per class says how many runs there were and what came of them; any failure is listed with what repeats it, and
the exit status is 1. The classes take turns, each turn with the next seed: a run that is stopped by its minutes ends
after the attack that is under way. ``--notes`` lists which answers were wrong where ``verify`` reports the damage.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

import numpy as np

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path.insert(0, str(TESTS))

from attacks import disk, flips, kill, races, restores, world  # noqa: E402
from attacks.kill import Workers  # noqa: E402
from attacks.tally import Tally  # noqa: E402
from attacks.world import World  # noqa: E402

KILLS, LIMITS, ROUNDS, LIVES, GAMES, FUZZED = 4, 2, 6, 4, 6, 200


def attack_kill(here: World, crew: Workers, seed: int) -> Iterator[Tally]:
    for verb in kill.VERBS:
        yield kill.run(here, crew, verb, seed, KILLS)


def attack_disk(here: World, crew: Workers, seed: int) -> Iterator[Tally]:
    for verb in kill.VERBS:
        yield disk.run(here, crew, verb, seed, LIMITS)


def attack_flip(here: World, crew: Workers, seed: int) -> Iterator[Tally]:
    closed, _ = flips.prepare(here, crew)
    wanted = flips.cases(closed, seed, 1)
    size = crew.pairs * flips.TOGETHER
    for start in range(0, len(wanted), size):
        yield flips.run(here, crew, wanted[start : start + size])


def attack_race(here: World, crew: Workers, seed: int) -> Iterator[Tally]:
    for mode in races.MODES:
        yield races.run(here, crew, mode, seed, ROUNDS)


def attack_restore(here: World, crew: Workers, seed: int) -> Iterator[Tally]:
    yield restores.run(here, crew, seed, LIVES, GAMES)


def attack_fuzz(here: World, crew: Workers, seed: int) -> Iterator[Tally]:
    """Run the fuzzer of readers where it is there; what it raises is a failure."""
    if importlib.util.find_spec("fuzz") is None:
        return
    fuzz = importlib.import_module("fuzz")
    for reader in fuzz.READERS:
        tally = Tally("fuzz")
        try:
            fuzz.run(reader, np.random.default_rng([seed, sum(reader.encode())]), FUZZED)
            tally.outcomes["right"] += FUZZED
        except Exception as error:  # noqa: BLE001 - the fuzzer raises whatever the reader did
            tally.add("", f"--only fuzz --seed {seed} (reader {reader})", [f"{type(error).__name__}: {error}"])
        yield tally


ATTACKS: Mapping[str, Callable[[World, Workers, int], Iterator[Tally]]] = {
    "kill": attack_kill,
    "disk": attack_disk,
    "flip": attack_flip,
    "race": attack_race,
    "restore": attack_restore,
    "fuzz": attack_fuzz,
}


def tortured(here: World, crew: Workers, names: list[str], seed: int, seconds: float) -> dict[str, Tally]:
    """Let classes take turns until the time is over; each gets at least one attack."""
    tallies = {name: Tally(name) for name in names}
    end = monotonic() + seconds
    running = {name: ATTACKS[name](here, crew, seed) for name in names}
    seeds = dict.fromkeys(names, seed)
    while running and (monotonic() < end or any(not tally.runs for tally in tallies.values())):
        for name in list(running):
            done = next(running[name], None)
            if done is None and tallies[name].runs:
                seeds[name] += 1
                running[name] = ATTACKS[name](here, crew, seeds[name])
            elif done is None:
                del running[name]  # there is nothing to run
                tallies.pop(name)
            else:
                tallies[name].merge(done)
    return tallies


@contextmanager
def folder(kept: Path | None) -> Iterator[Path]:
    """Yield a folder to work in, with a cache of its own; one that is named is kept."""
    with tempfile.TemporaryDirectory() as name:
        os.environ["ISTHMUS_CACHE"] = f"{name}/cache"
        root = kept or Path(name) / "work"
        root.mkdir(parents=True)
        yield root


def main() -> int:
    parser = argparse.ArgumentParser(description="Attack a collection for so many minutes.")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default=",".join(ATTACKS), help=f"of {', '.join(ATTACKS)}")
    parser.add_argument("--into", type=Path, help="a new folder that keeps the collections that were attacked")
    parser.add_argument("--notes", action="store_true", help="list wrong answers where verify reports the damage")
    given = parser.parse_args()
    names = given.only.split(",")
    if unknown := [name for name in names if name not in ATTACKS]:
        parser.error(f"no attack is called {unknown[0]!r}; there are {', '.join(ATTACKS)}")
    with folder(given.into) as root, kill.workers() as crew:
        tallies = tortured(world.make(root), crew, names, given.seed, 60 * given.minutes)
    for tally in tallies.values():
        print(tally)
    for tally in tallies.values():
        for failure in tally.failures:
            print(f"FAILED python bench/torture.py {failure}")
        for note in tally.notes if given.notes else ():
            print(f"reported by verify, and answered wrongly: {note}")
    return int(any(tally.failures for tally in tallies.values()))


if __name__ == "__main__":
    sys.exit(main())
