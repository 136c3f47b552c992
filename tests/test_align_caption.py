"""Pictures become words: what is written in them, in reading order, and phrases nearer than chance; each once."""

from __future__ import annotations

import importlib.util
import json
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageDraw, ImageFont

from isthmus import encoders, samples
from isthmus.align import caption, embedded
from isthmus.align.cache import CaptionCache, caption_key
from isthmus.align.caption import Remembered
from isthmus.align.embedded import EmbeddedCaptioner, Pages
from isthmus.align.ocr import TextReader
from isthmus.align.vocabulary import Vocabulary, visible
from isthmus.documents import ImageLike
from isthmus.errors import BadFile, BadImage, BadInput, MissingExtra, UnknownName
from isthmus.ocr.order import reading_rows

reads = pytest.mark.skipif(importlib.util.find_spec("rapidocr") is None, reason="needs isthmus[align]")
PAGE = ["Traceback (most recent call last):", "ImportError: cannot import name 'foo' from partially initialized module"]
PAGE += ["most likely due to a circular import (/srv/app/models.py)"]


@dataclass
class Loud:
    """A captioner that says which pictures it was asked for."""

    identity: str = "loud"
    name: str = "loud"
    asked: list[ImageLike] = field(default_factory=list)

    def caption(self, images: Sequence[ImageLike]) -> list[str]:
        self.asked += images
        return [f" caption {len(self.asked)} \n" for _ in images]


@dataclass
class Written:
    """A reader that finds the same lines in every picture."""

    found: list[str]
    identity: str = "written"

    def lines(self, _: ImageLike) -> list[str]:
        return self.found


def page(lines: Sequence[str], size: tuple[int, int]) -> Image.Image:
    picture = Image.new("RGB", size, "white")
    pen = ImageDraw.Draw(picture)
    for row, line in enumerate(lines):
        pen.text((20, 15 + 27 * row), line, fill="black", font=ImageFont.load_default(size=18))
    return picture


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    path = tmp_path / "a.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (9, 9, 3), dtype=np.uint8)).save(path)
    return path


def test_the_same_picture_is_captioned_once_by_path_or_by_bytes_and_by_the_next_process(
    picture: Path, tmp_path: Path
) -> None:
    maker, cache = Loud(), CaptionCache(tmp_path / "kept")
    first = Remembered(maker, cache).caption([picture, picture, picture.read_bytes()])
    assert first == ["caption 1"] * 3
    assert maker.asked == [picture.read_bytes()]
    assert Remembered(Loud(), CaptionCache(tmp_path / "kept")).caption([str(picture)]) == ["caption 1"]
    assert [path.suffix for path in (tmp_path / "kept").iterdir()] == [".json"]  # and no draft


def test_another_captioner_or_another_picture_has_another_key(picture: Path) -> None:
    pixels = np.zeros((2, 8, 3), np.uint8)
    keys = [caption_key(who, what) for who in ("one", "two") for what in (picture, pixels, pixels.reshape(8, 2, 3))]
    assert len(set(keys)) == 6
    assert caption_key("one", Image.fromarray(pixels)) == caption_key("one", pixels)


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff\xfe", b"[]", b'{"caption": 3}', b"[" * 100_000])
def test_a_kept_caption_that_cannot_be_read_is_made_again(damage: bytes, picture: Path, tmp_path: Path) -> None:
    cache = CaptionCache(tmp_path)
    name = caption_key("loud", picture)
    (tmp_path / f"{name}.json").write_bytes(damage)
    assert Remembered(Loud(), cache).caption([picture]) == ["caption 1"]
    assert json.loads((tmp_path / f"{name}.json").read_text()) == {"captioner": "loud", "caption": "caption 1"}


def test_where_nothing_can_be_kept_captions_are_made_all_the_same(picture: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    assert Remembered(Loud(), CaptionCache(tmp_path / "file")).caption([picture]) == ["caption 1"]


def test_what_was_made_before_a_failure_is_kept(tmp_path: Path) -> None:
    pictures = [np.full((2, 2), shade, np.uint8) for shade in range(caption.TOGETHER + 1)]

    class Failing(Loud):
        def caption(self, images: Sequence[ImageLike]) -> list[str]:
            if len(images) < caption.TOGETHER:
                raise BadInput("no more")
            return super().caption(images)

    with pytest.raises(BadInput, match="no more"):
        Remembered(Failing(), CaptionCache(tmp_path)).caption(pictures)
    assert len(list(tmp_path.iterdir())) == caption.TOGETHER


@given(said=st.text())
def test_any_caption_can_be_kept(said: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    cache = CaptionCache(tmp_path_factory.mktemp("any"))
    cache.put("a", said, "me")
    assert cache.get("a") == said


def test_captioners_by_name_and_the_nearest_to_a_wrong_one(tmp_path: Path) -> None:
    assert caption.load().name == "embedded"
    with pytest.raises(UnknownName, match="Did you mean 'openai'"):
        caption.load("openia:gpt@http://localhost")
    for name in ("hf", "hf:", "embedded:x"):
        with pytest.raises(BadInput, match="not a captioner's full name"):
            caption.load(name)
    with pytest.raises(BadInput, match="names no endpoint"):
        caption.load("openai:gpt")
    with pytest.raises(BadInput, match=r"prompt .* cannot be read"):
        caption.load("embedded", prompt=tmp_path / "no.txt")
    (tmp_path / "empty.txt").write_text("# nothing but a remark\n")
    with pytest.raises(BadInput, match="is empty"):
        caption.load("embedded", prompt=tmp_path / "empty.txt")


def test_without_the_extra_the_error_says_what_to_install(picture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rapidocr", None)
    with pytest.raises(MissingExtra, match=r"pip install 'isthmus\[align\]'"):
        caption.load().caption([picture])


boxes = st.lists(
    st.tuples(st.integers(0, 90), st.integers(0, 90), st.integers(1, 40), st.integers(1, 12)), max_size=20
).map(lambda several: np.array([[x, y, x + w, y + h] for x, y, w, h in several], dtype=float).reshape(-1, 4))


@given(several=boxes)
def test_every_line_is_read_once(several: np.ndarray[Any, Any]) -> None:
    assert sorted(box for row in reading_rows(several) for box in row) == list(range(len(several)))


@given(order=st.permutations(range(6)))
def test_lines_below_one_another_are_read_from_the_top_in_whatever_order_they_were_found(order: list[int]) -> None:
    lines = np.array([[3.0 * (row % 2), 12.0 * row, 80, 12 * row + 10] for row in range(6)])
    assert [[order[at] for at in row] for row in reading_rows(lines[order])] == [[row] for row in range(6)]


def test_columns_of_text_are_read_one_after_the_other_and_rows_of_a_table_across() -> None:
    def lines(left: float, width: float) -> list[list[float]]:
        return [[left, y, left + width, y + 10] for y in (0.0, 14, 28, 42)]

    assert reading_rows(np.array([*lines(0, 90), *lines(120, 90)])) == [[row] for row in range(8)]
    assert reading_rows(np.array([*lines(0, 90), *lines(120, 20)])) == [[0, 4], [1, 5], [2, 6], [3, 7]]


def test_a_photo_taken_at_an_angle_is_read_row_by_row() -> None:
    tilted = np.array([[0, 0, 40, 12], [50, 6, 90, 18], [0, 13, 40, 25], [50, 19, 90, 31]])
    assert reading_rows(tilted) == [[0, 1], [2, 3]]


@pytest.fixture(scope="module")
def reader() -> TextReader:
    return TextReader(threads=1)


@reads
def test_a_page_is_read_line_by_line_without_a_word_on_the_terminal_or_a_connection(
    reader: TextReader, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise AssertionError("nothing is fetched")

    monkeypatch.setattr(socket.socket, "connect", refused)
    assert reader.lines(page(PAGE * 2, (700, 190))) == PAGE * 2
    assert capfd.readouterr() == ("", "")


@reads
def test_the_embedded_captioner_reads_a_screenshot_and_finds_nothing_in_an_empty_picture(
    reader: TextReader, tmp_path: Path
) -> None:
    page(PAGE[:1], (640, 60)).save(tmp_path / "shot.png")
    captioner = Remembered(EmbeddedCaptioner(None, reader), CaptionCache(tmp_path / "kept"))
    assert captioner.caption([tmp_path / "shot.png", np.full((64, 64), 255, np.uint8)]) == [PAGE[0], ""]
    (tmp_path / "damaged.png").write_bytes(b"\x89PNG")
    with pytest.raises(BadImage, match=r"damaged\.png"):
        captioner.caption([tmp_path / "damaged.png"])


def test_phrases_are_added_where_little_is_written_and_none_to_a_screenshot() -> None:
    mini = encoders.load("mini", threads=1)
    pan = samples.folder() / "photos/pan.jpg"
    little, much = Written(["24 cm"]), Written(PAGE)
    assert EmbeddedCaptioner(mini, little).caption([pan]) == ["24 cm\nfrying pan"]
    assert EmbeddedCaptioner(mini, much).caption([pan]) == ["\n".join(PAGE)]
    assert EmbeddedCaptioner(None, little).caption([pan]) == ["24 cm"]
    assert EmbeddedCaptioner(mini, Written([])).caption([samples.folder() / "photos/pencil.jpg"]) == [
        ""
    ]  # none is near


def test_pictures_of_text_alone_are_read_for_auto() -> None:
    assert Pages(Written(PAGE)).caption(["any.png"]) == ["\n".join(PAGE)]
    assert Pages(Written(["EXIT", "3", "4"])).caption(["any.png"]) == [""]
    assert not embedded.full_of_text(["1", "2", "M", "T", "W"] * 9)  # a calendar is no text


def test_an_encoder_that_does_not_see_gives_no_phrases(tiny: str, tmp_path: Path) -> None:
    from tiny import write_encoder

    assert Vocabulary.of(encoders.load(f"onnx:{write_encoder(tmp_path / 'text', 'text')}")) is None
    both = Vocabulary.of(encoders.load(tiny))
    assert both is not None
    assert both.vectors.shape == (len(visible()), 8)


def test_phrases_nearer_than_chance_are_taken_best_first_and_none_that_repeats_a_word() -> None:
    words = Vocabulary(("a glacier", "glacier", "ice rink", "dog", "cat"), *[np.zeros(0)] * 3)
    assert words.taken(np.array([5.0, 6.0, 4.0, 3.2, 3.3])) == ["glacier", "ice rink", "cat"]
    assert words.taken(np.zeros(5)) == []


@pytest.fixture(scope="module", params=["blip", "vit_gpt2", "llava"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    import tiny_hf

    made: Path = getattr(tiny_hf, request.param)(tmp_path_factory.mktemp(request.param))
    return made


def test_a_local_captioner_says_the_same_of_the_same_picture(
    model: Path, picture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from isthmus.align import hf

    monkeypatch.setattr(hf, "TOKENS", 6)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (tmp_path / "prompt.txt").write_text("what is here")
    said = [
        caption.load(f"hf:{model}", prompt=tmp_path / "prompt.txt", cache=tmp_path / where).caption([picture])
        for where in ("one", "two")
    ]
    assert said[0] == said[1]
    assert said[0][0].split()
    assert "what is here" not in said[0][0]


def test_another_prompt_makes_another_caption_of_a_local_model(picture: Path, tmp_path: Path) -> None:
    import tiny_hf
    from isthmus.align.hf import open_captioner
    from isthmus.align.prompts import Prompt

    folder = str(tiny_hf.blip(tmp_path))
    one, other = (open_captioner(folder, Prompt(text)).identity for text in ("what is here", "what is wrong"))
    assert one != other
    assert one == open_captioner(folder, Prompt("what is here")).identity


def test_a_model_that_is_not_there_is_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(BadFile, match=r"cannot load 'nobody/nothing'.*Offline is set"):
        caption.load("hf:nobody/nothing")
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtra, match=r"isthmus\[hf\]"):
        caption.load("hf:nobody/nothing")
