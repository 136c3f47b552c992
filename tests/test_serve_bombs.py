"""Small uploads that are expensive to read, over HTTP: each is skipped with its reason, and the next one is added."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import hostile
from damage import pdf
from isthmus import Collection, budget
from isthmus._optional import need
from isthmus.isolated import recordings
from isthmus.isolated.worker import Worker
from isthmus.serve.settings import ServeLimits
from isthmus.sources.parquet import WORKER as PARQUET
from isthmus.sources.pdf import WORKER as PDF
from recordings import noise, video, write
from serving import THINGS, client_of

LONGEST = 3.0  # seconds
SAID = "is longer than 0.05 minutes"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A server whose encoder reads sounds and videos, up to three seconds."""
    root = tmp_path_factory.mktemp("bombs")
    with Collection.open(root / "things.isthmus", calibration="none", follow=False) as things:
        things.add([])
    with client_of(root, limits=ServeLimits(duration=LONGEST)) as client:
        yield client


def claiming(path: Path, samples: int) -> bytes:
    """A FLAC file whose header claims so many samples; 0: does not say."""
    data = bytearray(path.read_bytes())
    head = int.from_bytes(data[18:26], "big")  # rate, channels, bits and, in the last 36 bits, samples
    data[18:26] = (head >> 36 << 36 | samples).to_bytes(8, "big")
    return bytes(data)


def brief(path: Path) -> bytes:
    """A video whose headers say that it lasts for a second."""
    data = bytearray(path.read_bytes())
    for box, rate, duration in ((b"mvhd", 12, 16), (b"mdhd", 12, 16)):
        at = data.index(box) + 4
        assert data[at] == 0  # the version, in which these fields have four bytes
        data[at + duration : at + duration + 4] = data[at + rate : at + rate + 4]
    return bytes(data)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bytes]]:
    """Recordings of a second and of several, and such whose headers say something else."""
    folder = tmp_path_factory.mktemp("recorded")
    short, long = (write(folder / f"{seconds}.flac", noise(seconds)) for seconds in (1, 5))
    films = [video(folder / f"{seconds}.mp4", [(seconds, (200, 20, 20))]) for seconds in (1, 8)]
    return {
        "short": {"audio": short.read_bytes()},
        "short film": {"video": films[0].read_bytes()},
        "long": {"audio": long.read_bytes()},
        "long film": {"video": films[1].read_bytes()},
        "long film whose header says one second": {"video": brief(films[1])},
        "its header does not say": {"audio": claiming(long, 0)},
        "its header says ten hours": {"audio": claiming(short, 36_000 * 16_000)},
    }


def inline(parts: dict[str, bytes]) -> dict[str, str]:
    return {kind: b64encode(data).decode() for kind, data in parts.items()}


def test_a_sound_or_a_video_over_the_limit_is_skipped_and_those_within_it_are_added(
    client: TestClient, recorded: dict[str, dict[str, bytes]]
) -> None:
    documents = [{"id": name, **inline(parts)} for name, parts in recorded.items()]
    report = client.post(f"{THINGS}/documents?ids=true", json=documents).json()
    assert sorted(report["ids"]["added"]) == ["short", "short film"]
    assert sorted(one["id"] for one in report["skipped"]) == sorted(set(recorded) - {"short", "short film"})
    assert [SAID in one["why"] for one in report["skipped"]] == [True] * 5


def test_a_query_with_a_recording_over_the_limit_is_refused(
    client: TestClient, recorded: dict[str, dict[str, bytes]]
) -> None:
    statuses = {
        name: client.post(f"{THINGS}/search", json={"query": inline(parts)}).status_code
        for name, parts in recorded.items()
    }
    assert statuses == {name: 200 if name.startswith("short") else 400 for name in recorded}


def test_a_recording_whose_header_says_that_it_is_too_long_is_not_decoded(
    client: TestClient, recorded: dict[str, dict[str, bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    answered: list[int] = []
    ask = Worker.ask

    def counted(self: Worker, *given: Any) -> Any:
        found = ask(self, *given)
        answered.append(len(found.blobs))
        return found

    monkeypatch.setattr(Worker, "ask", counted)
    for name in ("long", "long film", "its header says ten hours"):
        client.post(f"{THINGS}/search", json={"query": inline(recorded[name])})
    assert sum(answered) == 0
    client.post(f"{THINGS}/search", json={"query": inline(recorded["short"])})
    assert sum(answered) > 0


def test_the_limit_of_a_server_ends_with_it(tmp_path: Path) -> None:
    before = recordings.LIMIT.seconds
    with client_of(tmp_path, limits=ServeLimits(duration=1.0)):
        assert recordings.LIMIT.seconds == 1.0 < before
    assert recordings.LIMIT.seconds == before


def test_a_pdf_that_draws_without_end_and_one_that_is_far_larger_than_its_file_are_skipped(
    client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "SECONDS", 2.0)
    monkeypatch.setattr(PDF, "memory", 160 * budget.MIB)
    PDF.close()  # the next one starts with less memory
    hostile.recursive_pdf(tmp_path)
    large = hostile.drawn([hostile.stream(b"0 0 m 9 9 l S\n" * (160 * budget.MIB // 14))], {})
    assert len(large) < budget.MIB
    files = {"endless.pdf": (tmp_path / "a.pdf").read_bytes(), "large.pdf": large, "plain.pdf": pdf(["a red cat"])}
    report = client.post(f"{THINGS}/documents?ids=true", files=[("files", one) for one in files.items()]).json()
    PDF.close()
    assert report["ids"]["added"] == ["plain.pdf#page=1"], report
    assert {one["id"].partition(",")[0] for one in report["skipped"]} == {"endless.pdf", "large.pdf"}


def test_a_parquet_file_with_a_cell_far_larger_than_the_file_is_skipped(
    client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PARQUET, "memory", 60 * budget.MIB)
    PARQUET.close()
    arrow, parquet = need("pyarrow", extra="parquet"), need("pyarrow.parquet", extra="parquet")
    for name, size in (("bomb", 80 * budget.MIB), ("plain", 9)):
        table = arrow.table({"text": ["x" * size]})
        parquet.write_table(table, tmp_path / f"{name}.parquet", compression="zstd", use_dictionary=False)
    files = [("files", (path.name, path.read_bytes())) for path in sorted(tmp_path.glob("*.parquet"))]
    assert sum(len(data) for _, (_, data) in files) < budget.MIB
    report = client.post(f"{THINGS}/documents?ids=true", files=files).json()
    PARQUET.close()
    assert report["ids"]["added"] == ["plain.parquet#row=1"]
    assert [one["id"] for one in report["skipped"]] == ["bomb.parquet"]
    assert "memory" in report["skipped"][0]["why"]
