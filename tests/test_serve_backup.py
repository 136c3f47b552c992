"""``isthmus backup`` and ``isthmus restore`` as commands, on the folder of a server that is writing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from threading import Event, Thread
from typing import Any

from isthmus import Collection
from serving import THINGS, Process, fill, started, until
from stock import looked_at

WRITERS = 3


def command(*words: str | Path) -> dict[str, Any]:
    done = subprocess.run([sys.executable, "-m", "isthmus", *words, "--json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def numbers(ids: list[str], writer: int) -> list[int]:
    return sorted(int(name.partition("-")[2]) for name in ids if name.startswith(f"w{writer}-"))


def test_a_backup_under_writes_holds_all_that_was_acknowledged_and_its_restore_is_served_without_a_restart(
    tmp_path: Path, tiny: str
) -> None:
    root = tmp_path / "served"
    root.mkdir()
    fill(root, tiny, count=6)
    acknowledged: list[str] = []
    over = Event()

    def write(server: Process, writer: int) -> None:
        number = 0
        while not over.is_set():  # one after another, so that a moment is a first part of them
            name = f"w{writer}-{number}"
            new = {"id": name, "text": "a red cat", "image": None, "metadata": {"writer": writer}}
            assert server.ask("POST", f"{THINGS}/documents", new)[0] == 200
            acknowledged.append(name)
            number += 1

    with started(root) as server:
        writers = [Thread(target=write, args=(server, writer)) for writer in range(WRITERS)]
        for one in writers:
            one.start()
        until(lambda: len(acknowledged) > 30)
        before = list(acknowledged)
        copied = command("backup", root / "things.isthmus", tmp_path / "copy")
        after = len(acknowledged)
        until(lambda: len(acknowledged) > after)  # the server goes on writing
        over.set()
        for one in writers:
            one.join()

        restored = command("restore", tmp_path / "copy", root / "again.isthmus")
        assert restored["documents"] == copied["documents"]
        names = [one["name"] for one in server.ask("GET", "/v1/collections")[1]["collections"]]
        assert names == ["again", "things"]
        again = "/v1/collections/again"
        assert server.ask("GET", again)[1]["documents"] == copied["documents"]
        cat = {"query": "a red cat", "k": 1000, "where": {"writer": 0}}
        hits = [hit["id"] for hit in server.ask("POST", f"{again}/search", cat)[1]["hits"]]
        assert server.ask("POST", f"{again}/documents", {"id": "new", "text": "a dog"})[1]["added"] == 1
        assert server.ask("GET", f"{THINGS}/documents/new")[0] == 404
    assert looked_at(root / "again.isthmus") == []
    with Collection.open(root / "again.isthmus", follow=False) as things:
        ids = things.ids()
    assert set(before) <= set(ids)
    assert len(ids) == copied["documents"] + 1 < len(acknowledged) + 7
    found = [numbers(ids, writer) for writer in range(WRITERS)]
    assert found == [list(range(len(one))) for one in found]
    assert numbers(hits, 0) == found[0]


def test_a_collection_that_is_moved_away_and_restored_under_its_name_is_served_after_a_restart(
    tmp_path: Path, tiny: str
) -> None:
    root = tmp_path / "served"
    root.mkdir()
    fill(root, tiny, count=6)
    command("backup", root / "things.isthmus", tmp_path / "copy")
    with started(root) as server:
        assert server.ask("POST", f"{THINGS}/documents", {"id": "late", "text": "a cat"})[0] == 200
    (root / "things.isthmus").rename(tmp_path / "old")
    command("restore", tmp_path / "copy", root / "things.isthmus")
    with started(root) as server:
        assert server.ask("GET", THINGS)[1]["documents"] == 6
        assert server.ask("POST", f"{THINGS}/search", {"query": "a red cat", "k": 3})[0] == 200
