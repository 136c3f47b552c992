"""URLs where a path or another URL belongs: a clear error, and no password in any message."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from isthmus import Collection, sources
from isthmus.cli import app
from isthmus.errors import BadInput, CannotReach, IsthmusError
from isthmus.registry import lookup
from isthmus.storage.servers import opened_server
from isthmus.stores.address import StoreAddress
from isthmus.urls import without_password

SECRETS = ("s3cret", "s3c@ret", "s3c/ret", "s3cret%", "s3c:ret", "s3cret%00", "s3c℀ret")


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize(
    "take",
    [
        Collection.open,
        lambda url: Collection.open(Path(url)),
        lambda url: Collection.open(url.replace("postgresql", "mysql")),
        sources.open_source,
        lambda url: sources.open_source(Path(url)),
        lambda url: Collection.open(":memory:", "none", vectors=url),
        lambda url: opened_server(url.replace("postgresql", "qdrant")),
        StoreAddress.read,
        lambda url: StoreAddress.read(f"pgvector:{url}/").folder_and_name(),
        lambda url: lookup({}, url, "calibration"),
    ],
)
def test_a_url_in_a_wrong_place_is_refused_without_its_password(take: Callable[[str], object], secret: str) -> None:
    with pytest.raises(IsthmusError) as caught:
        take(f"postgresql://ada:{secret}@127.0.0.1:1/library")
    said = f"{caught.value!r} {caught.value}"
    assert "s3c" not in said
    assert "ret" not in said.replace("secret", "")


def test_documents_are_not_read_from_a_server(tmp_path: Path) -> None:
    said = "postgresql://ada@h/d is a URL, and documents are read from files and folders.*--into.*isthmus copy SRC DST"
    with pytest.raises(BadInput, match=said):
        sources.open_source("postgresql://ada:s3cret@h/d")
    done = CliRunner().invoke(app, ["index", "postgresql://ada:s3cret@h/d", "--into", str(tmp_path / "c")])
    assert isinstance(done.exception, BadInput)
    assert str(done.exception).startswith("postgresql://ada@h/d is a URL")
    assert "s3cret" not in done.output
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("url", ["qdrant://h/things", "mysql://h/d", "http://h/v1/collections/things"])
def test_a_collection_is_not_made_in_a_folder_called_as_a_url(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for given in (url, Path(url)):
        with pytest.raises(BadInput, match=f"^{url} is not the place of a collection: that is a folder, or postgresql"):
            Collection.open(given)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["http://h:80/a@b", "postgresql://h1:5432,h2:5433/d", "a:b@c", "//h/a:b", "10:30 @ 4"])
def test_what_is_no_password_stays(text: str) -> None:
    assert without_password(text) == text


def test_an_error_is_the_same_after_pickling() -> None:
    again = pickle.loads(pickle.dumps(CannotReach("postgresql://ada:s3cret@h/d is down")))  # noqa: S301
    assert str(again) == "postgresql://ada@h/d is down"
