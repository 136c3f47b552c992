"""A store that is put back from a copy beside an index of another time: answers are those of the store alone."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from attacks import oracle, world
from attacks.checks import answers
from attacks.kill import Workers, short
from attacks.oracle import Answers
from attacks.tally import Tally
from attacks.workers import Request, Say
from attacks.world import SPEC, World, document
from isthmus import Collection, Document, encoders
from isthmus.encoders import Encoder
from stock import FILE

MOMENTS = 8  # copies that are taken of one collection
MOST = 20  # changes that are made to reach the count of another moment
SPECS = ("none", "center", SPEC)


def change(things: Collection, rng: np.random.Generator) -> str:
    """Change a collection in a random way; return how."""
    ids = things.ids()
    what = str(rng.choice(["add", "add", "over", "delete", "update", "calibrate", "refresh"]))
    if what == "add" or len(ids) < 5:
        things.add([document(int(number)) for number in rng.integers(0, 60, int(rng.integers(1, 8)))])
    elif what == "over":
        numbers = rng.integers(0, 40, int(rng.integers(1, 5)))
        things.add([document(int(number), version=int(rng.integers(1, 100))) for number in numbers])
    elif what == "delete":
        things.delete([str(name) for name in rng.choice(ids, min(4, len(ids) - 3), replace=False)])
    elif what == "update":
        things.update(Document(str(rng.choice(ids)), f"a changed dog {int(rng.integers(100))}"))
    elif what == "calibrate":
        things.calibrate(str(rng.choice(SPECS)))
    else:
        things.refresh()
    if rng.integers(2):
        things.search("a cat")
    return what


def take(folder: Path, into: Path) -> None:
    """Copy the store and the index as they lie on the disk at this moment."""
    for part in ("store", "index"):
        (into / part).mkdir(parents=True)
    for file in folder.glob(f"{FILE}*"):
        if not file.name.endswith("-shm"):
            shutil.copy(file, into / "store")
    if (folder / "index").exists():
        shutil.copytree(folder / "index", into / "index", dirs_exist_ok=True)


def put(store: Path, indexes: list[Path], folder: Path) -> None:
    """Make a collection of one moment's store and other moments' indexes."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(store / "store", folder)
    for index in indexes:
        shutil.copytree(index / "index", folder / "index", dirs_exist_ok=True)


def main(request: Request, say: Say) -> None:
    """Live a while, taking copies; then put them together in random orders, and say what came of each."""
    if request["small"]:
        world.small_batches()
    encoder = encoders.load(request["encoder"], threads=1)
    root, rng = Path(request["folder"]), np.random.default_rng(int(request["seed"]))
    moments = _live(root, encoder, rng)
    for _ in range(int(request["games"])):
        say(json.dumps(_game(root / "game", moments, encoder, rng)))


@dataclass(frozen=True, slots=True)
class Moment:
    """A copy of a collection, and how often its documents had been changed."""

    path: Path
    changes: int


def _live(root: Path, encoder: Encoder, rng: np.random.Generator) -> list[Moment]:
    moments: list[Moment] = []
    things = Collection.open(root / "c", encoder, calibration=SPEC, follow=False, threads=1)
    things.add([document(number) for number in range(12)])
    things.search("a cat")
    for number in range(MOMENTS):
        for _ in range(int(rng.integers(1, 4))):
            change(things, rng)
        if rng.integers(2):
            things.close()
            things = Collection.open(root / "c", encoder, calibration=SPEC, follow=False, threads=1)
        moments.append(Moment(root / f"moment-{number}", things.stats().changes))
        take(root / "c", moments[-1].path)
    things.close()
    return moments


def _game(folder: Path, moments: list[Moment], encoder: Encoder, rng: np.random.Generator) -> tuple[str, list[str]]:
    """Restore a store beside other indexes, perhaps go on from there, and put an old index back once more."""
    one = int(rng.integers(len(moments)))
    first = int(rng.choice([0, one]))  # rather an index of later: it knows changes that the store does not
    others = [int(number) for number in rng.integers(first, len(moments), int(rng.integers(1, 3)))]
    put(moments[one].path, [moments[other].path for other in others], folder)
    told = f"store {one}, index {others}"
    problems = _compared(folder, encoder)
    if not problems and rng.integers(2):
        back = int(rng.integers(first, len(moments)))
        with Collection.open(folder, encoder, calibration=SPEC, follow=False, threads=1) as things:
            told += ", then " + _go_on(things, moments[back].changes - moments[one].changes, rng)
        shutil.copytree(moments[back].path / "index", folder / "index", dirs_exist_ok=True)
        told += f", then index {back} again"
        problems = _compared(folder, encoder)
    return told, problems


def _go_on(things: Collection, changes: int, rng: np.random.Generator) -> str:
    """Change a collection a few times, or exactly so often: then an index of a lost future has its count of changes."""
    if rng.integers(2) or not 0 < changes < MOST:
        return " ".join(change(things, rng) for _ in range(int(rng.integers(1, 4))))
    things.search("a cat")
    for number in range(changes):
        things.add([document(80 + number, version=int(rng.integers(1000)))])
    return f"{changes} changes"


def _compared(folder: Path, encoder: Encoder) -> list[str]:
    """Return where a collection answers other than its store does without any index, or than the equations do."""
    alone, copy = folder.with_name("alone"), folder.with_name("copy")
    for place in (alone, copy):
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(folder, place)
    shutil.rmtree(alone / "index", ignore_errors=True)
    right, found = _answers(alone, encoder), _answers(copy, encoder)
    problems = [f"other answers than without the index: {', '.join(found.wrong(right))}"] * bool(found.wrong(right))
    failed = found.broken | {name: why for name, why in found.refused.items() if name not in right.refused}
    problems += [f"{name}: {why}" for name, why in failed.items()]
    with Collection.open(folder, encoder, calibration=SPEC, follow=False, threads=1) as things:
        problems += answers(things)
    with Collection.open(folder, encoder, follow=False, threads=1) as things:
        problems += [f"verify: {problem}" for problem in things.verify()]
    return problems


def _answers(folder: Path, encoder: Encoder) -> Answers:
    return oracle.asked(
        lambda: Collection.open(folder, encoder, calibration=SPEC, follow=False, threads=1), {}, verify=False
    )


def run(here: World, crew: Workers, seed: int, lives: Iterable[int], games: int) -> Tally:
    """Live once for each number of a life, and play so many games with the copies of each."""
    tally, guard = Tally("restore"), threading.Lock()

    def one(number: int) -> None:
        folder = here.root / "cases" / f"restore-{seed}-{number}"
        told = f"--only restore --seed {seed} --case {number}"
        request = here.request(folder=str(folder), seed=seed * 1000 + number, games=games, small=number % 2)
        with crew.pair() as (worker, _):
            task = worker.start("attacks.restores", request)
            done = [json.loads(line) for line in task]
        with guard:
            for at, (how, problems) in enumerate(done):
                tally.add("right", f"{told} (game {at}: {how})", problems)
            if task.status:
                tally.add("", told, [short(task.error) or f"the process ended with {task.status}"])

    with ThreadPoolExecutor(crew.pairs) as pool:
        list(pool.map(one, lives))
    return tally
