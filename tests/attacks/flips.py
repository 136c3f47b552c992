"""Damaged bytes: in every column of every table, and in every file. The answer is right, refused, healed, or reported."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import struct
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from attacks import oracle, world
from attacks.kill import Workers, short
from attacks.oracle import Answers
from attacks.tally import Tally
from attacks.workers import Request, Say
from attacks.world import World
from isthmus import Collection, encoders
from isthmus.search.querylog import QueryLog
from stock import FILE

STAGED = f"reencode/{FILE}"
STAGED_TABLES = ("documents", "manifest", "vectors")  # of the tables there, those that a re-encoding fills
TOGETHER = 12  # cases that one process takes
MEMORY = 8 << 30


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
        return f"{self.file} {where}, case seed {self.seed}"


def prepare(here: World, crew: Workers) -> tuple[Path, Path]:
    """Return two collections: one closed, one whose journal holds the last transactions; each with a re-encoding begun."""
    closed, journal = here.root / "closed", here.root / "journal"
    if not closed.exists():
        with crew.pair() as (worker, _):
            worker.run("attacks.flips", here.request(prepare=str(here.copy("flip-base")), into=str(closed)))
            worker.run("attacks.flips", here.request(journal=str(closed), into=str(journal)))
    return closed, journal


def cases(folder: Path, seed: int, of_each: int) -> list[Case]:
    """Return so many damages of each column and each file."""
    numbers = [seed * 1000 + number for number in range(of_each)]
    found: list[Case] = []
    for file in (FILE, STAGED):
        with sqlite3.connect(folder / file) as connection:
            for table, column in columns(connection):
                if file == STAGED and table not in STAGED_TABLES:
                    continue
                found += [Case(file, table, column, seed=number) for number in numbers]
        connection.close()
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    for file in files:
        times = 4 if file == FILE else 1
        found += [Case(file, how=how, seed=number * 10 + t) for number in numbers for t in range(times) for how in HOW]
    found += [Case(f"{FILE}-wal", how=how, seed=number * 10 + t) for number in numbers for t in range(3) for how in HOW]
    return found


HOW = ("flip", "zero", "cut")


def columns(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    """Return every column that holds values, of tables of SQLite's own as well."""
    tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%' ORDER BY name"
    found = []
    for (table,) in connection.execute(tables).fetchall():
        for _, column, *_ in connection.execute(f"PRAGMA table_info({table})").fetchall():
            if connection.execute(f"SELECT count(*) FROM {table} WHERE length({column}) > 0").fetchone()[0]:
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
    with sqlite3.connect(file) as connection:
        key = ", ".join(_key(connection, case.table))
        several = connection.execute(
            f"SELECT {key} FROM {case.table} WHERE length({case.column}) > 0 ORDER BY {key}"
        ).fetchall()
        row = several[int(rng.integers(len(several)))]
        where = " AND ".join(f"{name} IS ?" for name in _key(connection, case.table))
        value = connection.execute(
            f"SELECT typeof({case.column}), CAST({case.column} AS BLOB), {case.column} FROM {case.table} WHERE {where}",
            row,
        )
        connection.text_factory = bytes
        kind, raw, plain = value.fetchone()
        connection.text_factory = str
        new, mark = _flipped(kind.decode() if isinstance(kind, bytes) else kind, raw, plain, rng)
        try:
            connection.execute(f"UPDATE {case.table} SET {case.column} = {mark} WHERE {where}", (new, *row))
        except sqlite3.Error:  # a key that is taken, or a table that may not be changed
            return False
    connection.close()
    return True


def _key(connection: sqlite3.Connection, table: str) -> list[str]:
    """Return the columns that tell one row from another."""
    described = connection.execute(f"PRAGMA table_info({table})").fetchall()
    without = "WITHOUT ROWID" in connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table,)).fetchone()[0]
    return [name for _, name, _, _, _, place in described if place] if without else ["rowid"]


def _flipped(kind: str, raw: bytes, plain: Any, rng: np.random.Generator) -> tuple[object, str]:
    """Return a value with one bit flipped, and the SQL that stores it under the type it had."""
    if kind == "integer":
        return int(plain) ^ (1 << int(rng.integers(max(int(plain).bit_length() + 1, 2)))), "?"
    if kind == "real":
        data = bytearray(struct.pack("<d", plain))
        data[int(rng.integers(8))] ^= 1 << int(rng.integers(8))
        return struct.unpack("<d", bytes(data))[0], "?"
    data = bytearray(raw)
    data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
    return bytes(data), "CAST(? AS TEXT)" if kind == "text" else "?"


def run(here: World, crew: Workers, wanted: Sequence[Case]) -> Tally:
    """Do each damage to a copy of its own, and ask everything."""
    closed, journal = prepare(here, crew)
    groups = [wanted[start : start + TOGETHER] for start in range(0, len(wanted), TOGETHER)]
    tally, guard = Tally("flip"), threading.Lock()

    def some(number: int) -> None:
        done = _judged(here, crew, closed, journal, groups[number], f"flip-{number}")
        with guard:
            tally.merge(done)

    with ThreadPoolExecutor(crew.pairs) as pool:
        list(pool.map(some, range(len(groups))))
    return tally


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
            tally.add(outcome, f"--only flip ({case})", problems)
            if wrong and not problems:
                tally.notes.append(f"{case}: {', '.join(wrong)}")
        if len(done) < len(left):
            why = short(task.error) if task.error else f"the process ended with {task.status}"
            tally.add("", f"--only flip ({left[len(done)]})", [why])
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
    encoder = encoders.load(request["encoder"])
    root, rights = Path(request["root"]), dict[tuple[str, bool], list[Answers]]()
    for told in request["cases"]:
        case = Case(**told)
        base, folder = Path(request["journal" if case.file.endswith("-wal") else "closed"]), root / request["into"]
        staged = case.file.startswith("reencode")
        changing = oracle.writes(request, reencode=staged)

        def opened(at: Path = folder) -> Collection:
            return Collection.open(at, encoder, follow=False)

        if (key := (base.name, staged)) not in rights:
            rights[key] = [_right(state, folder, opened, changing) for state in _states(base)]
        _fresh(base, folder)
        changed = damage(folder, case)
        damaged = (folder / case.file).read_bytes()
        answers = oracle.asked(opened, changing)
        repaired = not case.table and changed and _differs(folder / case.file, damaged)
        say(json.dumps(oracle.judged(answers, rights[key], repaired=repaired)))
    return None


def _right(base: Path, folder: Path, opened: Any, changing: Any) -> Answers:
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
    with Collection.open(folder, follow=False) as things:
        try:
            things.reencode(request["other"], drop=True, progress=interrupt)
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
    with Collection.open(folder, follow=False) as things:
        for number in range(3):
            states.append(into.with_name(f"state-{number}"))
            shutil.copytree(folder, states[-1])
            things.add([world.document(60 + number), world.document(number, version=5)])
        shutil.copytree(folder, into)
    for state in states:
        os.rename(state, into / state.name)
