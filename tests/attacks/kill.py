"""End a process at a random point of a verb, then check the collection and run the verb again."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np

from attacks import verbs, world
from attacks.tally import Tally
from attacks.workers import Task, Worker
from attacks.world import Content, World
from isthmus import Collection

KINDS = ("event", "event", "bytes", "line")
SMALLEST = 40_000  # bytes of a file: less has no room for what SQLite needs to open one


@dataclass(frozen=True, slots=True)
class Usual:
    """A run of a verb that nobody interrupts."""

    before: Content
    goal: Content
    events: int
    lines: int
    largest: int  # bytes of the longest file while it ran


class Workers:
    """Pairs of workers, one that is attacked and one that reads beside it; a thread takes a pair at a time."""

    def __init__(self, stack: ExitStack, pairs: int) -> None:
        self._free: SimpleQueue[tuple[Worker, Worker]] = SimpleQueue()
        self.pairs = pairs
        for _ in range(pairs):
            self._free.put((stack.enter_context(Worker()), stack.enter_context(Worker())))

    @contextmanager
    def pair(self) -> Iterator[tuple[Worker, Worker]]:
        """Take a pair, and give it back."""
        taken = self._free.get()
        try:
            yield taken
        finally:
            self._free.put(taken)


@contextmanager
def workers(pairs: int | None = None) -> Iterator[Workers]:
    """Start workers, two at a time by default."""
    with ExitStack() as stack:
        yield Workers(stack, pairs or world.processors())


def run(here: World, crew: Workers, verb: str, seed: int, cases: Iterable[int]) -> Tally:
    """Kill a verb once for each number of a case."""
    usual = uninterrupted(here, crew, verb)
    tally, guard = Tally("kill"), threading.Lock()

    def one(number: int) -> None:
        rng = np.random.default_rng([seed, number, sum(verb.encode())])
        trigger = chosen(rng, usual)
        beside = bool(rng.integers(2))
        told = f"--only kill --seed {seed} --case '{verb} {number}' ({trigger['kind']} {trigger['at']})"
        with crew.pair() as pair:
            outcome, problems = attacked(here, pair, verb, usual, trigger, beside, f"kill-{verb}-{seed}-{number}")
        with guard:
            tally.add(outcome, told, problems)

    with ThreadPoolExecutor(crew.pairs) as pool:
        list(pool.map(one, cases))
    return tally


def chosen(rng: np.random.Generator, usual: Usual) -> dict[str, Any]:
    """Choose where to end a run."""
    kind = str(rng.choice(KINDS))
    most = {"event": usual.events, "line": usual.lines, "bytes": usual.largest}[kind]
    least = SMALLEST if kind == "bytes" else 1
    return {"kind": kind, "at": int(rng.integers(least, max(least + 1, most)))}


def attacked(
    here: World,
    pair: tuple[Worker, Worker],
    verb: str,
    usual: Usual,
    trigger: Mapping[str, Any],
    beside: bool,
    name: str,
) -> tuple[str, list[str]]:
    """Run a verb into a trigger, and check what is left; ``beside``: while another process searches."""
    folder = prepared(here, verb, name)
    request = here.request(folder=str(folder), verb=verb, trigger=dict(trigger), follow=beside)
    stop = folder.with_name(f"{name}.stop")
    reader = start_reader(pair[1], folder, stop) if beside else None
    task = pair[0].start("attacks.verbs", request)
    heard = listen(task, trigger["at"] if trigger["kind"] == "line" else 0)
    problems = [f"it failed: {short(task.error)}"] if task.error else []
    if reader is not None:
        stop.touch()
        problems += said_problems(reader)
    check = here.request(folder=str(folder), verb=verb, heard=heard, before=usual.before, goal=usual.goal)
    problems += said_problems(pair[0].start("attacks.checks", check))
    return ("right" if task.status == 0 else "killed"), problems


def prepared(here: World, verb: str, name: str) -> Path:
    """Return a copy of the collection, with what the verb finds beside it."""
    folder = here.copy(name)
    if verb == "export":
        folder.with_name(f"{name}.npz").write_bytes((here.root / "export.npz").read_bytes())
    return folder


def listen(task: Task, lines: int = 0) -> list[str]:
    """Return all that a task says; kill it after so many lines."""
    heard: list[str] = []
    for line in task:
        heard.append(line)
        if len(heard) == lines:
            task.kill()
    return heard


def start_reader(worker: Worker, folder: Path, stop: Path) -> Task:
    """Start a process that searches until the file ``stop`` is there; return when it has begun."""
    task = worker.start("attacks.reader", {"folder": str(folder), "stop": str(stop)})
    next(iter(task), None)
    return task


def said_problems(task: Task) -> list[str]:
    """Return the problems that a task reports, an error of its own among them."""
    problems = [line.removeprefix("problem ") for line in task if line.startswith("problem ")]
    if task.error:
        problems.append(short(task.error))
    elif task.status:
        problems.append(f"the check ended with {task.status}")
    return problems


def short(trace: str) -> str:
    """Return where a traceback ends, and why."""
    lines = trace.strip().splitlines()
    places = [line.strip() for line in lines if line.strip().startswith("File ")]
    return f"{lines[-1]} ({', '.join(places[-2:])})" if lines else ""


def uninterrupted(here: World, crew: Workers, verb: str) -> Usual:
    """Run a verb once to its end, to know what it does."""
    with Collection.open(here.base, follow=False, threads=1) as things:
        before = world.content(things)
        if not (here.root / "export.npz").exists():
            things.export_vectors(here.root / "export.npz")
    folder = prepared(here, verb, f"usual-{verb}")
    with crew.pair() as (worker, _):
        request = here.request(folder=str(folder), verb=verb, trigger={"kind": "none", "at": 0})
        lines = worker.run("attacks.verbs", request)
    with Collection.open(folder, follow=False, threads=1) as things:
        goal = world.content(things)
    events = int(lines[-1].split()[1])
    largest = max(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return Usual(json.loads(json.dumps(before)), goal, events, len(lines), largest)


VERBS = tuple(verbs.VERBS)
