"""Killed, or on a full disk, no verb loses what it acknowledged, and each can be run again."""

from __future__ import annotations

import pytest

from attacks import disk, kill
from attacks.kill import Workers
from attacks.world import World

pytest_plugins = ["attacks.fixtures"]

KILLS, LIMITS = 4, 2  # of each verb


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
