"""A server of vectors for each kind: Qdrant in this process, Milvus as a process of its own on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import vector_servers
from isthmus import encoders
from isthmus.encoders import Encoder
from stock import Counting
from tiny import write_encoder
from vector_servers import NAMES, Milvus, Places, is_alone


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ISTHMUS_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"onnx:{write_encoder(tmp_path_factory.mktemp('encoder') / 'tiny')}"


@pytest.fixture(scope="session")
def other(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"onnx:{write_encoder(tmp_path_factory.mktemp('other') / 'other', dim=12)}"


@pytest.fixture(scope="session")
def encoder(tiny: str) -> Encoder:
    return encoders.load(tiny)


@pytest.fixture
def counting(encoder: Encoder) -> Counting:
    return Counting(encoder)


@pytest.fixture(scope="session")
def milvus() -> Milvus:
    if not is_alone():  # a reason also where every test is asked for: not every machine lets us have such a network
        pytest.skip("Milvus listens on all addresses, and there are others than loopback. make test-all has none")
    return vector_servers.milvus()


@pytest.fixture(scope="session", params=["qdrant", "milvus"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Places:
    """Addresses on a server that is running."""
    if request.param == "milvus":
        server = request.getfixturevalue("milvus")
        return lambda: server.address(next(NAMES))
    folder = tmp_path_factory.mktemp("qdrant")
    return lambda: f"qdrant://{folder}/{next(NAMES)}/vectors"  # local mode locks its folder
