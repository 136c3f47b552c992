"""A re-encoded collection is as if it had been made with the new encoder; what cannot be is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from isthmus import Collection, Document, Query, encoders
from isthmus.errors import BadInput, CannotWrite, UnknownName
from moving import SPEC, alike, answers, made
from stock import database, looked_at, mixed

pytestmark = pytest.mark.usefixtures("small_batches")


@pytest.mark.parametrize(("before", "after"), [("tiny", "fusing"), ("fusing", "tiny")])
def test_afterwards_it_is_as_if_it_had_been_made_with_the_new_encoder(
    tmp_path: Path, before: str, after: str, request: pytest.FixtureRequest
) -> None:
    old, new = request.getfixturevalue(before), request.getfixturevalue(after)
    made(tmp_path / "c", old, mixed(30))
    right = made(tmp_path / "right", new, mixed(30))
    with Collection.open(tmp_path / "c", follow=False) as things:
        done = things.reencode(new)
        assert (done.encoder, done.encoded, done.earlier, done.skipped) == (new, 30, 0, ())
        assert answers(things) == right
        assert things.encoder is not None
        assert things.encoder.identity == encoders.load(new).identity
    with Collection.open(tmp_path / "c", new, follow=False) as things:
        assert answers(things) == right
        assert things.verify() == []
        told = things.stats()
        assert (told.encoder["encoder"], told.encoder["dim"]) == (new, encoders.load(new).dim)
        assert told.reencoding is None
        assert max(told.drift.values()) == pytest.approx(0, abs=1e-9)
        assert database(things).one("SELECT count(*) FROM calibrations") == (1,)
        things.update(Document("d0-2", text="a tree"))
        assert things.add(mixed(30)[3:]).unchanged
    assert looked_at(tmp_path / "c") == []
    assert sorted(path.name for path in (tmp_path / "c").iterdir()) == [
        "collection.sqlite",
        "index",
        "index.lock",
        "writer.json",
        "writer.lock",
    ]
    assert [path.name.split("-")[0] for path in (tmp_path / "c" / "index").iterdir()] == ["2"]


@pytest.mark.parametrize("asked", ["auto", SPEC])
def test_it_is_calibrated_as_it_was_told_to_be(thirty: Path, other: str, asked: str) -> None:
    with Collection.open(thirty, follow=False) as things:
        things.calibrate(asked, queries=[("a red dog", "d0-0")])
        things.reencode(other)
        assert things.calibration_spec == asked
        assert things.calibration is not None
        assert str(things.calibration.fitted.spec) == (SPEC if asked == SPEC else "blend")
        assert things._snapshots.own_queries() == [(Query(text="a red dog"), "d0-0")]
        assert not things.drifted


def test_an_empty_collection_changes_its_encoder(tmp_path: Path, tiny: str, other: str) -> None:
    with Collection.open(tmp_path / "c", tiny, calibration=SPEC) as things:
        assert things.reencode(other).encoded == 0
        assert things.search("cat") == []
        things.add(mixed(6))
        assert len(things.search("cat")) == 6
        assert things.stats().encoder["dim"] == 12


def test_a_collection_of_vectors_can_get_an_encoder(tmp_path: Path, tiny: str) -> None:
    with Collection.open(tmp_path / "c", "none", calibration="none", follow=False) as things:
        things.add([Document(f"v{i}", text=f"a cat {i}", vectors={"text": np.eye(3)[i]}) for i in range(3)])
        assert things.reencode(tiny).encoded == 3
        assert len(things.search("cat")) == 3
        alike(things, tmp_path / "fresh", tiny)


def test_what_cannot_be_done_is_refused(thirty: Path, other: str) -> None:
    with Collection.open(thirty, follow=False) as things:
        with pytest.raises(UnknownName, match=r"No encoder is called 'minni'.* 'mini'"):
            things.reencode("minni")
        with pytest.raises(BadInput, match="'none' encodes nothing"):
            things.reencode("none")
        things._handle.database.writable = False
        with pytest.raises(CannotWrite, match="read-only"):
            things.reencode(other)
    with pytest.raises(ValueError, match=f"isthmus reencode --in {thirty} --encoder {other}"):
        Collection.open(thirty, other)
