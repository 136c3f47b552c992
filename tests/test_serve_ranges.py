"""Ranges of stored sounds, videos and pictures: a browser can seek."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient

from isthmus import Collection, Document
from isthmus.serve import ranges
from serving import THINGS, client_of, png

SOUND = b"RIFF\x00\x00\x00\x00WAVE" + bytes(range(256)) * 16
WHOLE = f"{THINGS}/documents/file/parts/0"
KEPT = f"{THINGS}/documents/kept/parts/0"


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    monkeypatch.setattr(ranges, "CHUNK", 1000)  # so that a file is sent in several pieces
    (tmp_path / "sound.wav").write_bytes(SOUND)
    (tmp_path / "picture.png").write_bytes(png(1))
    root = tmp_path / "root"
    with Collection.open(root / "things.isthmus", "none", "none") as things:
        vectors = {"audio": np.array([1.0, 0.0])}
        things.add(
            [
                Document("file", audio=tmp_path / "sound.wav", vectors=vectors),
                Document("kept", audio=SOUND, vectors=vectors),
                Document("picture", image=tmp_path / "picture.png", vectors={"image": np.array([0.0, 1.0])}),
            ]
        )
    with client_of(root) as client:
        yield client


@pytest.mark.parametrize("place", [WHOLE, KEPT])
def test_a_whole_recording_says_that_it_can_be_had_in_ranges(client: TestClient, place: str) -> None:
    whole = client.get(place)
    assert (whole.status_code, whole.content, whole.headers["accept-ranges"]) == (200, SOUND, "bytes")
    assert whole.headers["content-type"] == "audio/wav"
    again = client.get(place, headers={"If-None-Match": f'"other", {whole.headers["etag"]}'})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("place", [WHOLE, KEPT])
@pytest.mark.parametrize(
    ("asked", "first", "end"),
    [
        ("0-0", 0, 1),
        ("5-1999", 5, 2000),
        ("4000-", 4000, 4108),
        ("-8", 4100, 4108),
        ("0-99999", 0, 4108),
        ("-99999", 0, 4108),
    ],
)
def test_a_range_is_answered_with_its_bytes(client: TestClient, place: str, asked: str, first: int, end: int) -> None:
    part = client.get(place, headers={"Range": f"bytes={asked}"})
    assert (part.status_code, part.content) == (206, SOUND[first:end])
    assert part.headers["content-range"] == f"bytes {first}-{end - 1}/{len(SOUND)}"
    assert part.headers["content-length"] == str(end - first)


@pytest.mark.parametrize("place", [WHOLE, KEPT])
@pytest.mark.parametrize("asked", ["bytes=4108-", "bytes=9999-10000", "bytes=-0"])
def test_a_range_beyond_the_end_is_told_the_size(client: TestClient, place: str, asked: str) -> None:
    beyond = client.get(place, headers={"Range": asked})
    assert (beyond.status_code, beyond.headers["content-range"]) == (416, "bytes */4108")
    assert beyond.json()["error"]["message"] == "There are 4,108 bytes. Ask for a range of them."


@pytest.mark.parametrize(
    "asked", ["bytes=0-1,4-5", "bytes=5-2", "bytes=", "bytes=-", "lines=0-1", "bytes=a-b", f"bytes={'9' * 5000}-"]
)
def test_what_is_no_single_range_of_bytes_is_answered_with_the_whole(client: TestClient, asked: str) -> None:
    whole = client.get(WHOLE, headers={"Range": asked})
    assert (whole.status_code, whole.content) == (200, SOUND)


def test_a_range_of_what_has_changed_is_answered_with_the_whole(client: TestClient, tmp_path: Path) -> None:
    tag = client.get(WHOLE).headers["etag"]
    asked = {"Range": "bytes=0-3", "If-Range": tag}
    assert client.get(WHOLE, headers=asked).status_code == 206
    (tmp_path / "sound.wav").write_bytes(SOUND + b"more")
    changed = client.get(WHOLE, headers=asked)
    assert (changed.status_code, changed.content) == (200, SOUND + b"more")
    dated = client.get(WHOLE, headers={"Range": "bytes=0-3", "If-Range": "Wed, 21 Oct 2015 07:28:00 GMT"})
    assert dated.status_code == 200


def test_a_picture_has_ranges_as_it_is_and_made_smaller(client: TestClient) -> None:
    place = f"{THINGS}/documents/picture/parts/0"
    assert client.get(place, headers={"Range": "bytes=0-7"}).content == png(1)[:8]
    small = client.get(place, params={"size": 16}, headers={"Range": "bytes=0-1"})
    assert (small.status_code, small.content) == (206, b"\xff\xd8")


def test_no_path_from_outside_is_read_and_a_file_that_is_gone_is_not_named(client: TestClient, tmp_path: Path) -> None:
    for number in ("../../../../etc/passwd", "%2e%2e%2f", "0%00"):
        assert client.get(f"{THINGS}/documents/file/parts/{number}").status_code in (400, 404)
    sent = {"id": "outside", "audio": str(tmp_path / "sound.wav")}
    assert client.post(f"{THINGS}/documents", json=sent).json()["added"] == 0
    (tmp_path / "sound.wav").unlink()
    gone = client.get(WHOLE, headers={"Range": "bytes=0-3"})
    assert gone.status_code == 422 and str(tmp_path) not in gone.text
