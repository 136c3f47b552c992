"""Killed at any point of any verb that writes, a collection holds what was acknowledged, and the verb can be run again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from attacks import kill, world
from attacks.kill import Workers
from attacks.world import World

KILLS = 4  # of each verb


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> World:
    return world.make(tmp_path_factory.mktemp("attacked"))


@pytest.fixture(scope="module")
def crew(here: World) -> Iterator[Workers]:
    with kill.workers() as started:
        yield started


@pytest.mark.parametrize("verb", kill.VERBS)
def test_a_killed_verb_loses_nothing_leaves_no_litter_and_can_be_run_again(
    here: World, crew: Workers, verb: str, tmp_path: Path
) -> None:
    tally = kill.run(here, crew, verb, seed=1, count=KILLS)
    assert tally.runs == KILLS
    assert tally.failures == []
