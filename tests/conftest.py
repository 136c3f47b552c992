from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# One fixed set of examples: what passes here passes everywhere, and no test depends on the machine's speed.
settings.register_profile("isthmus", deadline=None, derandomize=True, max_examples=40)
settings.load_profile("isthmus")


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache of our own: no test reads or fills the user's."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ISTHMUS_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of a tiny encoder of text and images."""
    from tiny import write_encoder

    return f"onnx:{write_encoder(tmp_path_factory.mktemp('encoder') / 'tiny')}"
