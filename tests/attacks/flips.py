"""Damaged bytes in every column of every table and in every file: answers are right, refused, healed, or reported."""

from __future__ import annotations

import json
import shutil
import sqlite3
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from attacks import oracle, world
from attacks.kill import Workers, short
from attacks.oracle import Answers
from attacks.tally import Tally
from attacks.workers import Request, Say
from attacks.world import World
from isthmus import Collection, encoders
from isthmus.search.query_log import QueryLog
from stock import FILE

STAGED = f"reencode/{FILE}"
STAGED_TABLES = ("documents", "manifest", "parts", "segments")  # of the tables there, those that a re-encoding fills
TOGETHER = 12  # cases that one process takes
MEMORY = 8 << 30
SEEDS = 1000  # of single cases, for each seed of a run


@dataclass(frozen=True, slots=True)
class Case:
    """One damage: of a value in a table, or of bytes in a file."""

    file: str  # relative to the collection
    table: str = ""
    column: str = ""
    how: str = "flip"  # flip, zero, cut
    seed: int = 0

    def __str__(self) -> str:
        where = f"{self.table}.{self.column}" if self.table else self.how
        return f"{self.file} {where} {self.seed}"


def prepare(here: World, crew: Workers) -> tuple[Path, Path]:
    """Return two collections with a re-encoding begun: one closed, one whose journal holds the last transactions."""
    closed, journal = here.root / "closed", here.root / "journal"
    if not closed.exists():
        with crew.pair() as (worker, _):
            worker.run("attacks.flips", here.request(prepare=str(here.copy("flip-base")), into=str(closed)))
            worker.run("attacks.flips", here.request(journal=str(closed), into=str(journal)))
    return closed, journal


def cases(folder: Path, seed: int, of_each: int) -> list[Case]:
    """Return so many damages of each column and each file."""
    numbers = range(of_each)
    found: list[Case] = []
    for file in (FILE, STAGED):
        with sqlite3.connect(folder / file) as connection:
            for table, column in columns(connection):
                if file == STAGED and table not in STAGED_TABLES:
                    continue
                found += [Case(file, table, column, seed=seed * SEEDS + number) for number in numbers]
        connection.close()
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    for file in files:
        times = 4 if file == FILE else 1
        found += [Case(file, how=how, seed=seed * SEEDS + number) for number in range(times * of_each) for how in HOW]
    found += [Case(f"{FILE}-wal", how=how, seed=seed * SEEDS + number) for number in range(3 * of_each) for how in HOW]
    return found


HOW = ("flip", "zero", "cut")


def columns(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    """Return every column that holds values, of tables of SQLite's own as well."""
    tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%' ORDER BY name"
    found = []
    for (table,) in connection.execute(tables).fetchall():
        for _, column, *_ in connection.execute(f"PRAGMA table_info({table})").fetchall():
            filled = f"SELECT count(*) FROM {table} WHERE length({column}) > 0"
            if connection.execute(filled).fetchone()[0]:
                found.append((table, column))
    return found


def damage(folder: Path, case: Case) -> bool:
    """Do it; return whether anything was changed."""
    rng = np.random.default_rng(case.seed)
    if case.table:
        return _damage_value(folder / case.file, case, rng)
    path = folder / case.file
    data = bytearray(path.read_bytes())
    if not data:
        return False
    at = int(rng.integers(len(data)))
    before = bytes(data)
    if case.how == "flip":
        data[at] ^= 1 << int(rng.integers(8))
    elif case.how == "zero":
        data[at // 512 * 512 : at // 512 * 512 + 512] = bytes(len(data[at // 512 * 512 : at // 512 * 512 + 512]))
    else:
        del data[at:]
    path.write_bytes(data)
    return bytes(data) != before


def _damage_value(file: Path, case: Case, rng: np.random.Generator) -> bool:
    table, column = case.table, case.column
    with closing(sqlite3.connect(file)) as connection, connection:
        names = _key(connection, table)
        key, where = ", ".join(names), " AND ".join(f"{name} IS ?" for name in names)
        keys = f"SELECT {key} FROM {table} WHERE length({column}) > 0 ORDER BY {key}"
        several = connection.execute(keys).fetchall()
        row = several[int(rng.integers(len(several)))]
        values = f"SELECT typeof({column}), CAST({column} AS BLOB) FROM {table} WHERE {where}"
        kind, raw = connection.execute(values, row).fetchone()
        new, mark = _flipped(kind, raw, rng)
        try:
            connection.execute(f"UPDATE {table} SET {column} = {mark} WHERE {where}", (new, *row))
        except sqlite3.Error:  # a key that is taken, or a table that may not be changed
            return False
    return True


def _key(connection: sqlite3.Connection, table: str) -> list[str]:
    """Return the columns that tell one row from another."""
    described = connection.execute(f"PRAGMA table_info({table})").fetchall()
    without = (
        "WITHOUT ROWID" in connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table,)).fetchone()[0]
    )
    return [name for _, name, _, _, _, place in described if place] if without else ["rowid"]


def _flipped(kind: str, raw: bytes, rng: np.random.Generator) -> tuple[object, str]:
    """Return a value with one bit flipped, and the SQL that stores it under the type it had; numbers come as digits."""
    if kind == "integer":
        number = int(raw)
        return number ^ (1 << int(rng.integers(max(number.bit_length() + 1, 2)))), "?"
    data = bytearray(struct.pack("<d", float(raw)) if kind == "real" else raw)
    data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
    if kind == "real":
        return struct.unpack("<d", bytes(data))[0], "?"
    return bytes(data), "CAST(? AS TEXT)" if kind == "text" else "?"


def run(here: World, crew: Workers, wanted: Sequence[Case]) -> Tally:
    """Do each damage to a copy of its own, and ask everything."""
    closed, journal = prepare(here, crew)
    wanted = sorted(
        wanted, key=lambda case: (case.file.endswith("-wal"), case.file == STAGED)
    )  # they share right answers
    groups = [wanted[start : start + TOGETHER] for start in range(0, len(wanted), TOGETHER)]
    tally, guard = Tally("flip"), threading.Lock()

    def some(number: int) -> None:
        done = _judged(here, crew, closed, journal, groups[number], f"flip-{number}")
        with guard:
            tally.merge(done)

    with ThreadPoolExecutor(crew.pairs) as pool:
        list(pool.map(some, range(len(groups))))
    return tally


def told(case: Case) -> str:
    """Return what repeats a case."""
    return f"--only flip --seed {case.seed // SEEDS} --case '{case}'"


def _judged(here: World, crew: Workers, closed: Path, journal: Path, wanted: Sequence[Case], name: str) -> Tally:
    """Have a process take cases; one that ends it is a failure, and the rest goes to another process."""
    tally, left = Tally("flip"), list(wanted)
    while left:
        request = here.request(
            cases=[asdict(case) for case in left], closed=str(closed), journal=str(journal), into=name,
            root=str(here.root / "cases"),
        )  # fmt: skip
        with crew.pair() as (worker, _):
            task = worker.start("attacks.flips", request)
            done = [json.loads(line) for line in task]
        for case, (outcome, wrong, problems) in zip(left, done, strict=False):
            tally.add(outcome, told(case), problems)
            if wrong and not problems:
                tally.notes.append(f"{case}: {', '.join(wrong)}")
        if len(done) < len(left):
            why = short(task.error) if task.error else f"the process ended with {task.status}"
            tally.add("", told(left[len(done)]), [why])
        left = left[len(done) + 1 :]
    return tally


def main(request: Request, say: Say) -> None:
    """Prepare the collections, or take cases and say what came of each."""
    if "prepare" in request:
        return _prepare(request)
    if "journal" in request and "cases" not in request:
        return _prepare_journal(request)
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    QueryLog.note = lambda *_: None  # type: ignore[method-assign]  # what one search logs would be in the next calibration
    encoder = encoders.load(request["encoder"], threads=1)
    root, rights = Path(request["root"]), dict[tuple[str, bool], list[Answers]]()
    for told in request["cases"]:
        case = Case(**told)
        base, folder = Path(request["journal" if case.file.endswith("-wal") else "closed"]), root / request["into"]
        staged = case.file.startswith("reencode")
        changing = oracle.writes(request, reencode=staged)

        def opened(at: Path = folder) -> Collection:
            return Collection.open(at, encoder, follow=False, threads=1)

        if (key := (base.name, staged)) not in rights:
            rights[key] = [_right(state, folder, opened, changing) for state in _states(base)]
        _fresh(base, folder)
        changed = damage(folder, case)
        damaged = (folder / case.file).read_bytes()
        answers = oracle.asked(opened, changing)
        repaired = not case.table and changed and _differs(folder / case.file, damaged)
        say(json.dumps(oracle.judged(answers, rights[key], repaired=repaired)))
    return None


def _right(base: Path, folder: Path, opened: Callable[[], Collection], changing: Mapping[str, oracle.Ask]) -> Answers:
    _fresh(base, folder)
    right = oracle.asked(opened, changing)
    if right.refused or right.broken or right.verified:
        raise RuntimeError(f"the undamaged collection: {right.refused} {right.broken} {right.verified}")
    return right


def _fresh(base: Path, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(base, folder, ignore=shutil.ignore_patterns("state-*"))


def _states(base: Path) -> list[Path]:
    """Return the states that may be served: of a damaged journal, that after any of its transactions."""
    return [base, *sorted(base.glob("state-*"))]


def _differs(path: Path, data: bytes) -> bool:
    return not path.exists() or path.read_bytes() != data


def _prepare(request: Request) -> None:
    """Begin a re-encoding that stops half-way, and change documents after the index was built."""
    folder = Path(request["prepare"])

    def interrupt(done: int, total: int) -> None:
        if done >= total // 2:
            raise KeyboardInterrupt

    world.small_batches()
    with Collection.open(folder, follow=False, threads=1) as things:
        try:
            things.reencode(request["other"], drop=True, force=True, progress=interrupt)
        except KeyboardInterrupt:
            things.search("dog")
    shutil.copytree(folder, request["into"])


def _prepare_journal(request: Request) -> None:
    """Copy a collection with transactions in its journal, and the states before each of them."""
    base, into = Path(request["journal"]), Path(request["into"])
    folder = into.with_name("journal-open")
    shutil.copytree(base, folder)
    world.small_batches()
    states = []
    with Collection.open(folder, follow=False, threads=1) as things:
        for number in range(3):
            states.append(into.with_name(f"state-{number}"))
            shutil.copytree(folder, states[-1])
            things.add([world.document(60 + number), world.document(number, version=5)])
        shutil.copytree(folder, into)
    for state in states:
        state.rename(into / state.name)
