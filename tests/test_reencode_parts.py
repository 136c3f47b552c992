"""A part whose tower is the same in the new encoder keeps its vectors; the others are encoded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from isthmus import Collection, Document, encoders
from moving import alike, answers, counted, interrupted, made
from stock import Counting, database, mixed, pixels
from tiny import IMAGE_TABLE, TEXT_TABLE, write_encoder

pytestmark = pytest.mark.usefixtures("small_batches")


@pytest.fixture
def new_image(tmp_path: Path) -> str:
    """An encoder with the text tower of ``tiny`` and another image tower."""
    return f"onnx:{write_encoder(tmp_path / 'image', image=IMAGE_TABLE.replace('squash', 'crop'))}"


@pytest.fixture
def new_text(tmp_path: Path) -> str:
    """An encoder with the image tower of ``tiny`` and another text tower."""
    table = TEXT_TABLE + 'document = "the"\n'
    return f"onnx:{write_encoder(tmp_path / 'text', text=table)}"


@pytest.mark.parametrize(("which", "texts", "images"), [("new_image", 0, 20), ("new_text", 20, 0)])
@pytest.mark.parametrize("opened", [False, True], ids=["by name", "as an object"])
def test_only_the_parts_of_the_changed_tower_are_encoded(
    tmp_path: Path, tiny: str, which: str, texts: int, images: int, opened: bool, request: pytest.FixtureRequest
) -> None:
    new = request.getfixturevalue(which)
    made(tmp_path / "c", tiny, mixed(30))
    right = made(tmp_path / "right", new, mixed(30))
    counting = counted(new)
    with Collection.open(tmp_path / "c", encoders.load(tiny) if opened else None, follow=False) as things:
        done = things.reencode(counting)
        assert (done.encoded, done.skipped) == (30, ())
        assert counting.took() == (texts, images)
        assert answers(things) == right
        assert things.verify() == []


def test_an_interrupted_run_keeps_the_same_vectors(tmp_path: Path, tiny: str, new_image: str) -> None:
    made(tmp_path / "c", tiny, mixed(30))
    right = made(tmp_path / "right", new_image, mixed(30))
    counting = counted(new_image)
    with Collection.open(tmp_path / "c", follow=False) as things:
        with pytest.raises(KeyboardInterrupt):
            things.reencode(counting, progress=interrupted(10))
        assert things.reencode(counting).earlier >= 10
        assert counting.took() == (0, 20)
        assert answers(things) == right


def test_a_picture_whose_file_is_gone_keeps_its_vector_and_one_that_changed_is_encoded(
    tmp_path: Path, tiny: str, new_text: str
) -> None:
    gone, changed = tmp_path / "gone.png", tmp_path / "changed.png"
    Image.fromarray(pixels(1)).save(gone)
    Image.fromarray(pixels(2)).save(changed)
    with Collection.open(tmp_path / "c", tiny, calibration="none", follow=False) as things:
        things.add([Document("gone", "a cat", gone), Document("changed", "a dog", changed)])
    kept = gone.read_bytes()
    gone.unlink()
    Image.fromarray(pixels(3)).save(changed)
    counting = counted(new_text)
    with Collection.open(tmp_path / "c", follow=False) as things:
        assert things.reencode(counting).skipped == ()
        assert counting.took() == (2, 1)
        gone.write_bytes(kept)
        alike(things, tmp_path / "fresh", new_text)


def test_vectors_that_a_document_brought_are_not_kept(tmp_path: Path, tiny: str, new_image: str) -> None:
    with Collection.open(tmp_path / "c", tiny, calibration="none", follow=False) as things:
        things.add([Document("own", "a cat", vectors={"text": np.eye(8)[0]}), Document("made", "a cat")])
        counting = counted(new_image)
        things.reencode(counting)
        assert counting.took() == (1, 0)
        rows = database(things).all("SELECT own FROM segments")
        assert [own for (own,) in rows] == [0, 0]
        alike(things, tmp_path / "fresh", new_image)


def test_an_old_encoder_that_is_gone_leaves_everything_to_encode(tmp_path: Path, new_image: str) -> None:
    old = write_encoder(tmp_path / "old")
    made(tmp_path / "c", f"onnx:{old}", mixed(6))
    old.rename(tmp_path / "elsewhere")
    counting = Counting(encoders.load(new_image))
    with Collection.open(tmp_path / "c", follow=False) as things:
        assert things.reencode(counting).encoded == 6
    assert counting.took() == (4, 4)
