import socket
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree
from types import MappingProxyType
from typing import NoReturn

import pytest
from hypothesis import settings
from PIL import Image

from isthmus import Collection, encoders, kinds
from isthmus.encoders import Encoder, EncoderFamily
from isthmus.encoders.base import Settings
from isthmus.search import writer
from moving import Answers, made
from stock import Counting, Fusing, mixed, pixels
from tiny import write_encoder

# One fixed set of examples: what passes here passes everywhere, and no test depends on the machine's speed.
settings.register_profile("isthmus", deadline=None, derandomize=True, max_examples=40)
settings.load_profile("isthmus")


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache for the tests, so that none reads or fills the user's."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ISTHMUS_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of a tiny encoder of text and images."""
    return f"onnx:{write_encoder(tmp_path_factory.mktemp('encoder') / 'tiny')}"


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of a second encoder, of another dimension."""
    return f"onnx:{write_encoder(tmp_path_factory.mktemp('other') / 'other', dim=12)}"


@pytest.fixture
def fusing(tiny: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of an encoder that gives one vector for text and image."""

    def opener(_: str, settings: Settings) -> Encoder:
        return Fusing(encoders.load(tiny))

    family = EncoderFamily(open=opener, rest="NAME")
    monkeypatch.setattr(encoders, "KINDS", MappingProxyType({**encoders.KINDS, "fusing": family}))
    return "fusing:tiny"


@pytest.fixture(scope="module")
def encoder(tiny: str) -> Encoder:
    """The tiny encoder itself."""
    return encoders.load(tiny)


@pytest.fixture
def counting(encoder: Encoder) -> Counting:
    """The tiny encoder, noting what it is given."""
    return Counting(encoder)


@pytest.fixture
def things(tmp_path: Path, counting: Counting) -> Iterator[Collection]:
    """A small collection of its own for each test, calibrated by a fixed spec."""
    with Collection.open(tmp_path / "things.isthmus", counting, calibration="center") as opened:
        opened.add(mixed(40))
        counting.took()
        yield opened


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents are encoded and committed five at a time."""
    monkeypatch.setattr(writer, "BATCH", 5)
    monkeypatch.setattr(type(kinds.get("image")), "cost", 1)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory, tiny: str) -> Path:
    """What ``thirty`` is a copy of."""
    folder = tmp_path_factory.mktemp("whole") / "c"
    made(folder, tiny, mixed(30))
    return folder


@pytest.fixture
def thirty(tmp_path: Path, original: Path) -> Path:
    """A calibrated collection of 30 documents, closed."""
    copytree(original, tmp_path / "c")
    return tmp_path / "c"


@pytest.fixture(scope="module")
def by_other(tmp_path_factory: pytest.TempPathFactory, other: str) -> Answers:
    """What the same collection answers when it is made with the second encoder."""
    return made(tmp_path_factory.mktemp("right") / "c", other, mixed(30))


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """A folder of three photos and a note."""
    (tmp_path / "photos").mkdir()
    for name in ("a", "b", "c"):
        Image.fromarray(pixels(ord(name))).save(tmp_path / "photos" / f"{name}.png")
    (tmp_path / "photos" / "note.txt").write_text("a red cat")
    return tmp_path / "photos"


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any network call fails the test."""

    def refuse(*_: object, **__: object) -> NoReturn:
        raise AssertionError("a network call")

    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
