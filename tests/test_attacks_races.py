"""A search beside a writer sees one committed state: every document once, all of one generation."""

from __future__ import annotations

import pytest

from attacks import races
from attacks.kill import Workers
from attacks.world import World

pytest_plugins = ["attacks.fixtures"]

ROUNDS = 6


@pytest.mark.parametrize("mode", races.MODES)
def test_searches_beside_a_writer_see_one_committed_state(attacked: World, crew: Workers, mode: str) -> None:
    tally = races.run(attacked, crew, mode, seed=1, rounds=ROUNDS)
    assert tally.failures == []
    assert tally.outcomes["right"] >= ROUNDS
