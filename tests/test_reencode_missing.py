"""Documents that the new encoder cannot encode: they are named and nothing is switched, or they go if told so."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from isthmus import Collection, Document, Query
from isthmus.errors import CannotEncode
from moving import alike, answers, counted, interrupted
from stock import looked_at, mixed, pixels, unit
from tiny import write_encoder

pytestmark = pytest.mark.usefixtures("small_batches")


def test_while_a_picture_is_gone_nothing_is_switched_and_it_is_named(
    tmp_path: Path, photos: Path, tiny: str, other: str
) -> None:
    counting = counted(other)
    with Collection.open(tmp_path / "c", tiny, calibration="none", follow=False) as things:
        things.index(photos)
        old = answers(things)
        (photos / "b.png").rename(tmp_path / "away.png")
        with pytest.raises(CannotEncode, match=r"1 of 4 documents .* was not changed. 'b.png': .*b.png") as caught:
            things.reencode(counting)
        assert [name for name, _ in caught.value.skipped] == ["b.png"]
        assert answers(things) == old
        assert counting.took()[0] == 1
        (tmp_path / "away.png").rename(photos / "b.png")
        done = things.reencode(counting)
        assert (done.encoded, done.earlier, done.skipped) == (1, 3, ())
        assert counting.took() == (0, 1)
        alike(things, tmp_path / "fresh", other)


def test_dropped_documents_are_listed_and_come_back_with_their_files(
    tmp_path: Path, photos: Path, tiny: str, other: str
) -> None:
    with Collection.open(tmp_path / "c", tiny, calibration="none", follow=False) as things:
        things.index(photos)
        things.add([Document("mine", image=str(photos / "c.png"), text="a dog")])
        kept = (photos / "b.png").read_bytes()
        (photos / "b.png").unlink()
        done = things.reencode(other, drop=True)
        assert (done.encoded, [one.id for one in done.skipped]) == (4, ["b.png"])
        assert {hit.id for hit in things.search("cat", k=10)} == {"a.png", "c.png", "note.txt", "mine"}
        assert things.stats().skipped == (("b.png", done.skipped[0].why),)
        assert things.verify() == []
        (photos / "b.png").write_bytes(kept)
        assert things.index(photos).added == 1
        assert things.stats().skipped == ()
        for path in photos.iterdir():
            path.unlink()
        things.delete(["mine", "note.txt"])
        with pytest.raises(CannotEncode, match="3 of 3 documents"):
            things.reencode(tiny, drop=True)  # a folder that is away takes no collection with it
        assert len(things) == 3
    assert looked_at(tmp_path / "c") == []


def test_a_picture_that_has_changed_is_encoded_as_it_is_now_and_its_copy_serves_one_that_is_gone(
    tmp_path: Path, photos: Path, tiny: str, other: str
) -> None:
    shutil.copy(photos / "a.png", photos / "copy.png")
    with Collection.open(tmp_path / "c", tiny, calibration="none", follow=False) as things:
        things.index(photos)
        Image.fromarray(pixels(999)).save(photos / "b.png")
        with pytest.raises(KeyboardInterrupt):
            things.reencode(other, progress=interrupted(5))
        things.update("a.png", metadata={"lang": "en"})
        (photos / "a.png").unlink()
        counting = counted(other)
        assert things.reencode(counting).skipped == ()
        assert counting.took() == (0, 0)
        (hit,) = things.search(Query(image=pixels(999)), k=1)
        assert (hit.id, round(hit.similarity, 5)) == ("b.png", 1)
        assert things.index(photos).removed == 1
        assert counting.took() == (0, 0)


def test_vectors_that_documents_brought_give_way_where_there_is_something_to_encode(
    tmp_path: Path, tiny: str, other: str
) -> None:
    row = unit(np.arange(1.0, 9.0))
    with Collection.open(tmp_path / "c", tiny, calibration="none", follow=False) as things:
        things.add([Document("own", text="a cat", vectors={"text": row}), *mixed(3)])
        assert things.reencode(other).encoded == 4
        assert things.get("own").vectors == {}
        alike(things, tmp_path / "fresh", other)
        things.add([Document("sound", vectors={"audio": np.ones(12)}), Document("bare", vectors={"text": np.ones(12)})])
        with pytest.raises(CannotEncode, match="'sound': its modality is audio"):
            things.reencode(tiny)
        done = things.reencode(tiny, drop=True)
        assert {one.id: one.why for one in done.skipped} == {
            "sound": "it brought its own vector for its audio, and holds nothing that could be encoded.",
            "bare": "it brought its own vector for its text, and holds nothing that could be encoded.",
        }
        assert len(things.search("cat", k=10)) == 4


def test_an_encoder_that_reads_less_is_refused_before_anything_is_encoded(tmp_path: Path, thirty: Path) -> None:
    words = counted(f"onnx:{write_encoder(tmp_path / 'words', parts='text')}")
    with Collection.open(thirty, follow=False) as things:
        with pytest.raises(
            CannotEncode, match=r"20 of 30 .* its modality is image; the encoder reads only text.*15 more"
        ):
            things.reencode(words)
        assert words.took() == (0, 0)
        assert things.stats().reencoding is None
        assert len(things.reencode(words, drop=True).skipped) == 20
        assert things.stats().documents == {"text": 10}
        assert things.verify() == []
