"""What the tests of attacks share: the collection that is attacked, and the processes that attack it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from attacks import kill, world
from attacks.kill import Workers
from attacks.world import World


@pytest.fixture(scope="session")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A collection with something in every table."""
    return world.make(tmp_path_factory.mktemp("attacked"))


@pytest.fixture(scope="session")
def crew(attacked: World) -> Iterator[Workers]:
    """Processes to fork from."""
    with kill.workers() as started:
        yield started
