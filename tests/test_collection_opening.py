"""Opening and closing a collection: its folder, its encoder, the version of its tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from isthmus import Collection, Document
from isthmus.encoders import Encoder
from isthmus.errors import BadFile, BadInput, CannotWrite, UnknownName
from isthmus.storage.sqlite import migrations, schema
from stock import database
from tiny import write_encoder


def test_a_collection_goes_with_its_encoder(tmp_path: Path, tiny: str, encoder: Encoder) -> None:
    Collection.open(tmp_path / "c", tiny).close()
    with pytest.raises(BadFile, match=r"made with the encoder onnx:.*opened with mini"):
        Collection.open(tmp_path / "c", "mini")
    with pytest.raises(BadFile, match="do not mix"):
        Collection.open(tmp_path / "c", "none")
    Collection.open(tmp_path / "c", encoder).close()  # the same one under another name
    with pytest.raises(UnknownName, match="Did you mean 'mini'"):
        Collection.open(tmp_path / "new", "minni")


def test_another_version_of_the_encoder_is_refused_when_it_is_loaded(tmp_path: Path) -> None:
    name = f"onnx:{write_encoder(tmp_path / 'encoder')}"
    with Collection.open(tmp_path / "c", name, calibration="none") as things:
        things.add([Document("a", "a cat")])
    toml = tmp_path / "encoder" / "encoder.toml"
    toml.write_text(toml.read_text().replace("length = 12", "length = 10"))
    with Collection.open(tmp_path / "c") as things:
        assert things.get("a").text == "a cat"
        with pytest.raises(BadFile, match="another version of the encoder"):
            things.search("cat")
        with pytest.raises(BadFile, match="another version of the encoder"):
            things.add([Document("b", "a dog")])


def test_a_folder_that_is_no_collection_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(BadInput, match=r"not a collection and is not empty.*letter\.txt"):
        Collection.open(tmp_path)
    with pytest.raises(BadInput, match="There is no collection"):
        Collection.open(tmp_path / "none", create=False)
    with pytest.raises(CannotWrite, match="cannot be made"):
        Collection.open(tmp_path / "letter.txt" / "below")
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_newer_tables_are_refused_and_older_ones_brought_up_to_date(
    tmp_path: Path, tiny: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Collection.open(tmp_path / "c", tiny, calibration="none") as things:
        things.add([Document("a", "a cat")])
    now = schema.VERSION
    monkeypatch.setattr(schema, "VERSION", now + 2)
    steps = {n: lambda c, n=n: schema.put(c, **{f"step{n}": 1}) for n in (now, now + 1)}
    monkeypatch.setattr(migrations, "MIGRATIONS", steps)
    with Collection.open(tmp_path / "c") as things:
        assert (things.stats().schema, things.get("a").text) == (now + 2, "a cat")
        assert database(things).one("SELECT count(*) FROM manifest WHERE name LIKE 'step%'") == (2,)
    monkeypatch.setattr(schema, "VERSION", 1)
    with pytest.raises(BadFile, match="newer isthmus"):
        Collection.open(tmp_path / "c")


def test_a_migration_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(connection: object) -> None:
        raise RuntimeError

    Collection.open(tmp_path / "c", "none").close()
    with monkeypatch.context() as patch:
        patch.setattr(migrations, "MIGRATIONS", {schema.VERSION: fails})
        patch.setattr(schema, "VERSION", schema.VERSION + 1)
        with pytest.raises(RuntimeError):
            Collection.open(tmp_path / "c")
    with Collection.open(tmp_path / "c") as things:
        assert things.stats().schema == schema.VERSION


def test_a_closed_collection_says_so_and_may_be_closed_again(tmp_path: Path) -> None:
    things = Collection.open(tmp_path / "c", "none")
    things.close()
    things.close()
    with pytest.raises(CannotWrite, match="was closed"):
        things.get("a")
    with pytest.raises(CannotWrite, match="was closed"):
        things.add([Document("a", vectors={"text": np.ones(3)})])
