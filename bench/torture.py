"""Attack a collection for some minutes: the same attacks as in the tests, with new seeds.

    python bench/torture.py [--minutes 10] [--seed 1] [--only kill,disk,…] [--case C] [--notes]

kill      kill a process with SIGKILL at a random point of every verb that writes, sometimes while another one searches
disk      limit the file size at random, in every verb that writes
flip      flip bits in every column of every table, and flip, blank or truncate every file
race      search in threads and processes while a writer replaces, updates, calibrates, re-encodes, builds the index
restore   restore the store from a copy, with indexes from other times
fuzz      damaged files for every reader of sources
hostile   index files that are designed to be expensive, including those that take too long for the tests

It prints one line per class with the number of runs and their results. Any failure is listed with the command that
repeats it, and the exit status is 1. The classes share the time equally, and start again with the next seed when they
are done; the last attack is finished after the time is over. ``--notes`` lists wrong answers where ``verify`` reports
the damage.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic

import numpy as np

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path.insert(0, str(TESTS))

import hostile  # noqa: E402
from attacks import budgets, disk, flips, kill, races, restores, world  # noqa: E402
from attacks.kill import Workers  # noqa: E402
from attacks.tally import Tally  # noqa: E402
from attacks.world import World  # noqa: E402
from isthmus.budget import SECONDS  # noqa: E402

KILLS, LIMITS, ROUNDS, LIVES, GAMES, FUZZED = 4, 2, 6, 4, 6, 200


@dataclass(frozen=True, slots=True)
class Battle:
    """The target and the seed of the attacks; ``case`` selects a single one."""

    here: World
    crew: Workers
    seed: int
    case: str = ""

    def verbs(self, count: int) -> Iterator[tuple[str, Sequence[int]]]:
        """Yield verbs, and the numbers of their cases."""
        wanted, _, number = self.case.partition(" ")
        for verb in kill.VERBS:
            if wanted in ("", verb):
                yield verb, [int(number)] if number else range(count)


def attack_kill(battle: Battle) -> Iterator[Tally]:
    for verb, cases in battle.verbs(KILLS):
        yield kill.run(battle.here, battle.crew, verb, battle.seed, cases)


def attack_disk(battle: Battle) -> Iterator[Tally]:
    for verb, cases in battle.verbs(LIMITS):
        yield disk.run(battle.here, battle.crew, verb, battle.seed, cases)


def attack_flip(battle: Battle) -> Iterator[Tally]:
    closed, _ = flips.prepare(battle.here, battle.crew)
    wanted = [case for case in flips.cases(closed, battle.seed, 1) if battle.case in ("", str(case))]
    size = battle.crew.pairs * flips.TOGETHER
    for start in range(0, len(wanted), size):
        yield flips.run(battle.here, battle.crew, wanted[start : start + size])


def attack_race(battle: Battle) -> Iterator[Tally]:
    for mode in races.MODES:
        if battle.case in ("", mode):
            yield races.run(battle.here, battle.crew, mode, battle.seed, ROUNDS)


def attack_restore(battle: Battle) -> Iterator[Tally]:
    lives = [int(battle.case)] if battle.case else range(LIVES)
    yield restores.run(battle.here, battle.crew, battle.seed, lives, GAMES)


def attack_fuzz(battle: Battle) -> Iterator[Tally]:
    """Run the fuzzer of readers, if it exists; any exception is a failure."""
    if importlib.util.find_spec("fuzz") is None:
        return
    fuzz = importlib.import_module("fuzz")
    for reader in fuzz.READERS:
        if battle.case not in ("", reader):
            continue
        tally = Tally("fuzz")
        try:
            rng = np.random.default_rng([battle.seed, sum(reader.encode())])
            fuzz.run(reader, rng, FUZZED, battle.here.root / "fuzz" / reader)
            tally.outcomes["right"] += FUZZED
        except Exception as error:  # noqa: BLE001 - the fuzzer raises whatever the reader did
            tally.add("", f"--only fuzz --seed {battle.seed} --case {reader}", [f"{type(error).__name__}: {error}"])
        yield tally


def attack_hostile(battle: Battle) -> Iterator[Tally]:
    """Index each hostile file within the limits of time and memory; none may end the process."""
    names = [name for name in hostile.FILES if battle.case in ("", name)]
    for name in names:
        tally = Tally("hostile")
        with tempfile.TemporaryDirectory(dir=battle.here.root) as made:
            folders = budgets.made([name], Path(made, "files"))
            for _, outcome in budgets.outcomes(folders, battle.here.encoder, Path(made), SECONDS):
                failure = outcome.failure or ("" if outcome.reasons else "nothing was skipped")
                tally.add("refused", f"--only hostile --case {name}", [failure] if failure else None)
        yield tally


ATTACKS: Mapping[str, Callable[[Battle], Iterator[Tally]]] = {
    "kill": attack_kill,
    "disk": attack_disk,
    "flip": attack_flip,
    "race": attack_race,
    "restore": attack_restore,
    "fuzz": attack_fuzz,
    "hostile": attack_hostile,
}


def tortured(battle: Battle, names: list[str], seconds: float) -> dict[str, Tally]:
    """Attack until the time is over, always with the class that had the least time; run a named case once."""
    tallies, spent, seeds = {name: Tally(name) for name in names}, dict.fromkeys(names, 0.0), dict.fromkeys(names, 0)
    running = {name: ATTACKS[name](battle) for name in names}
    end = monotonic() + seconds
    while running and (battle.case or monotonic() < end):
        name = min(running, key=lambda each: spent[each])
        began = monotonic()
        done = next(running[name], None)
        spent[name] += monotonic() - began
        if done is not None:
            tallies[name].merge(done)
        elif battle.case or not tallies[name].runs:
            del running[name]
        else:
            seeds[name] += 1
            running[name] = ATTACKS[name](replace(battle, seed=battle.seed + seeds[name]))
    return tallies


@contextmanager
def folder(kept: Path | None) -> Iterator[Path]:
    """Yield a working folder with its own cache; a named folder is kept."""
    with tempfile.TemporaryDirectory() as name:
        os.environ["ISTHMUS_CACHE"] = f"{name}/cache"
        root = kept or Path(name) / "work"
        root.mkdir(parents=True)
        yield root


def main() -> int:
    parser = argparse.ArgumentParser(description="Attack a collection for some minutes.")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default=",".join(ATTACKS), help=f"of {', '.join(ATTACKS)}")
    parser.add_argument("--case", default="", help="run a single case, as named in a failure")
    parser.add_argument("--into", type=Path, help="a new folder that keeps the collections that were attacked")
    parser.add_argument("--notes", action="store_true", help="list wrong answers where verify reports the damage")
    given = parser.parse_args()
    names = given.only.split(",")
    if unknown := [name for name in names if name not in ATTACKS]:
        parser.error(f"no attack is called {unknown[0]!r}; there are {', '.join(ATTACKS)}")
    with folder(given.into) as root, kill.workers() as crew:
        battle = Battle(world.make(root), crew, given.seed, given.case)
        tallies = tortured(battle, names, 60 * given.minutes)
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
