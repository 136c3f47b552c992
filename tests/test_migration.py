"""A collection that 0.1 wrote opens, is brought up to date, and answers as it did."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isthmus import Collection, Query
from isthmus.storage.sqlite import schema
from stock import FILE, looked_at

FIXTURE = Path(__file__).parent / "data" / "collection-0.1.zip"
QUERIES = {
    "text": Query(vectors={"text": np.arange(1.0, 9.0)}),
    "image": Query(vectors={"image": np.arange(8.0, 0.0, -1)}),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with zipfile.ZipFile(FIXTURE) as archive:
        archive.extractall(tmp_path)
    return tmp_path / "c"


@pytest.fixture
def expected(folder: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((folder.parent / "expected.json").read_text())
    return read


def _version(folder: Path) -> int:
    with sqlite3.connect(folder / FILE) as connection:
        found = connection.execute("SELECT value FROM manifest WHERE name = 'schema'").fetchone()[0]
    connection.close()
    return int(found)


def _answers(things: Collection) -> dict[str, list[Any]]:
    def hits(query: Query, **options: Any) -> list[Any]:
        found = things.search(query, k=30, **options)
        return [[hit.id, hit.score, hit.similarity, hit.probability] for hit in found]

    answers = {name: hits(query) for name, query in QUERIES.items()}
    answers["filtered"] = hits(QUERIES["text"], where={"lang": "en", "number": {"gte": 5}})
    return answers


def _close(found: dict[str, list[Any]], expected: dict[str, list[Any]]) -> None:
    for name, rows in expected.items():
        assert [row[0] for row in found[name]] == [row[0] for row in rows]
        for one, other in zip(found[name], rows, strict=True):
            assert one[1:] == pytest.approx(other[1:], abs=1e-5)


def test_a_collection_of_0_1_opens_and_answers_as_before(folder: Path, expected: dict[str, Any]) -> None:
    assert _version(folder) == 1
    for _ in range(2):
        with Collection.open(folder, follow=False) as things:
            _close(_answers(things), expected["answers"])
            found = {d.id: {"text": d.text, "metadata": d.metadata, "modality": d.modality} for d in things}
            assert found == expected["documents"]
            assert things.verify() == []
            told = things.stats()
            assert (told.schema, told.logged, len(told.skipped)) == (schema.VERSION, 0, 1)
    assert looked_at(folder) == []


def test_it_can_be_written_to_afterwards(folder: Path) -> None:
    with Collection.open(folder, follow=False) as things:
        count = len(things)
        assert things.delete(["r0", "kept"]) == 2
        things.update("r5", metadata={"again": True})
        things.calibrate("center")
        assert len(things.search(QUERIES["text"], k=100)) == count - 2
        things.compact()
        assert things.verify() == []


def test_a_migration_that_is_interrupted_leaves_the_old_version_whole(
    folder: Path, expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (folder / FILE).read_bytes()

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(schema, "add_state", killed)  # the last step
        with pytest.raises(KeyboardInterrupt):
            Collection.open(folder)
    assert _version(folder) == 1
    assert (folder / FILE).read_bytes() == before
    with Collection.open(folder, follow=False) as things:
        _close(_answers(things), expected["answers"])


KILLED = """
import os, signal, sys
from isthmus import Collection
from isthmus.storage.sqlite import schema
schema.add_state = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # the last step
Collection.open(sys.argv[1])
"""


def test_killed_in_the_middle_of_a_migration_it_is_still_of_the_old_version(
    folder: Path, expected: dict[str, Any]
) -> None:
    source = Path(__file__).parent.parent / "src"
    command = [sys.executable, "-c", KILLED, str(folder)]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(source)}, check=False)
    assert done.returncode == -signal.SIGKILL
    assert _version(folder) == 1
    with Collection.open(folder, follow=False) as things:
        _close(_answers(things), expected["answers"])
        assert things.verify() == []
