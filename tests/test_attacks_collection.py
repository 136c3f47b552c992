"""Attacks on a collection: killed processes, full disks, damaged bytes, readers beside writers, restored copies.

Few of each, from fixed seeds; `bench/torture.py` runs the same with new ones, for as long as it is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from attacks import disk, flips, kill, races, restores, world
from attacks.flips import Case
from attacks.kill import Workers
from attacks.world import World
from stock import FILE

KILLS, LIMITS = 4, 2  # of each verb
ROUNDS = 6  # of writing, in each mode of a race
LIVES, GAMES = 2, 8  # of a collection that is restored from copies


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A collection with something in every table."""
    return world.make(tmp_path_factory.mktemp("attacked"))


@pytest.fixture(scope="module")
def crew(attacked: World) -> Iterator[Workers]:
    """Processes to fork from."""
    with kill.workers() as started:
        yield started


@pytest.fixture(scope="module")
def cases(attacked: World, crew: Workers) -> list[Case]:
    """A damage of each column and each file."""
    return flips.cases(flips.prepare(attacked, crew)[0], seed=1, of_each=1)


@pytest.mark.parametrize("verb", kill.VERBS)
def test_a_killed_verb_loses_nothing_leaves_no_litter_and_can_be_run_again(
    attacked: World, crew: Workers, verb: str
) -> None:
    tally = kill.run(attacked, crew, verb, seed=1, cases=range(KILLS))
    assert tally.runs == KILLS
    assert tally.failures == []


@pytest.mark.parametrize("verb", kill.VERBS)
def test_on_a_full_disk_a_verb_is_refused_in_words_and_searches_go_on(
    attacked: World, crew: Workers, verb: str
) -> None:
    tally = disk.run(attacked, crew, verb, seed=1, cases=range(LIMITS))
    assert tally.runs == LIMITS
    assert tally.failures == []


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
    files = [
        case for case in cases if Path(case.file).parts[0] in ("index", "index.lock", "writer.json", "writer.lock")
    ]
    _check(attacked, crew, files, least=20)


def test_a_damaged_half_of_a_reencoding_is_no_silent_wrong_answer(
    attacked: World, crew: Workers, cases: list[Case]
) -> None:
    _check(attacked, crew, [case for case in cases if case.file == flips.STAGED], least=15)


@pytest.mark.parametrize("mode", races.MODES)
def test_searches_beside_a_writer_see_one_committed_state(attacked: World, crew: Workers, mode: str) -> None:
    tally = races.run(attacked, crew, mode, seed=1, rounds=ROUNDS)
    assert tally.failures == []
    assert tally.outcomes["right"] >= ROUNDS


def test_a_restored_store_beside_any_index_answers_as_it_would_alone(attacked: World, crew: Workers) -> None:
    tally = restores.run(attacked, crew, seed=1, lives=range(LIVES), games=GAMES)
    assert tally.runs == LIVES * GAMES
    assert tally.failures == []
