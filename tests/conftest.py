import os
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import settings

# One fixed set of examples: what passes here passes everywhere, and no test depends on the machine's speed.
settings.register_profile("isthmus", deadline=None, derandomize=True, max_examples=40)
settings.load_profile("isthmus")


@pytest.fixture(scope="session", autouse=True)
def _cache_of_its_own() -> Iterator[None]:
    """Keep what can be made again out of the user's folder."""
    with tempfile.TemporaryDirectory() as folder:
        before = os.environ.get("ISTHMUS_CACHE")
        os.environ["ISTHMUS_CACHE"] = folder
        yield
        if before is None:
            del os.environ["ISTHMUS_CACHE"]
        else:
            os.environ["ISTHMUS_CACHE"] = before
