"""A damaged byte, wherever it is, gives the right answer, a clear error, a repaired index, or a report of verify."""

from __future__ import annotations

from pathlib import Path

import pytest

from attacks import flips
from attacks.flips import Case
from attacks.kill import Workers
from attacks.world import World
from stock import FILE

pytest_plugins = ["attacks.fixtures"]


@pytest.fixture(scope="module")
def cases(attacked: World, crew: Workers) -> list[Case]:
    closed, _ = flips.prepare(attacked, crew)
    return flips.cases(closed, seed=1, of_each=1)


def _check(attacked: World, crew: Workers, some: list[Case], least: int) -> None:
    tally = flips.run(attacked, crew, some)
    assert tally.runs == len(some) >= least
    assert tally.failures == []


def test_a_damaged_value_in_any_column_is_no_silent_wrong_answer(
    attacked: World, crew: Workers, cases: list[Case]
) -> None:
    _check(attacked, crew, [case for case in cases if case.table and case.file == FILE], least=40)


def test_damaged_bytes_in_the_store_are_no_silent_wrong_answer(
    attacked: World, crew: Workers, cases: list[Case]
) -> None:
    _check(attacked, crew, [case for case in cases if not case.table and case.file == FILE], least=9)


def test_a_damaged_journal_gives_an_earlier_committed_state(attacked: World, crew: Workers, cases: list[Case]) -> None:
    _check(attacked, crew, [case for case in cases if case.file == f"{FILE}-wal"], least=6)


def test_a_damaged_index_file_or_lock_is_repaired_or_does_no_harm(
    attacked: World, crew: Workers, cases: list[Case]
) -> None:
    files = [case for case in cases if Path(case.file).parts[0] in ("index", "writer.json", "writer.lock")]
    _check(attacked, crew, files, least=20)


def test_a_damaged_half_of_a_reencoding_is_no_silent_wrong_answer(
    attacked: World, crew: Workers, cases: list[Case]
) -> None:
    _check(attacked, crew, [case for case in cases if case.file == flips.STAGED], least=15)
