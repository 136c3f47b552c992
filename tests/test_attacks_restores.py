"""A store that is put back from a copy answers for itself, whatever index lies beside it."""

from __future__ import annotations

from attacks import restores
from attacks.kill import Workers
from attacks.world import World

pytest_plugins = ["attacks.fixtures"]

LIVES, GAMES = 2, 8


def test_a_restored_store_beside_any_index_answers_as_it_would_alone(attacked: World, crew: Workers) -> None:
    tally = restores.run(attacked, crew, seed=1, lives=range(LIVES), games=GAMES)
    assert tally.runs == LIVES * GAMES
    assert tally.failures == []
