"""Several processes that write to one collection on a real PostgreSQL server: the same documents, other clocks."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from threading import Event
from typing import Self

import numpy as np
import pytest

from isthmus import Collection, Document
from isthmus.errors import UnknownDocument
from isthmus.search import query_log, snapshot_builder
from isthmus.search.writer import Writer
from postgres_server import server
from stock import Counting, mixed

psycopg = pytest.importorskip("psycopg")
pytestmark = pytest.mark.install
CHANGE = """
import json, sys
import numpy as np
from isthmus import Collection, Document
url, name = sys.argv[1:]
rng, last = np.random.default_rng(int(name)), {}
with Collection.open(url, follow=False) as things:
    for step in range(30):
        ids = [f"d{at}" for at in rng.choice(12, 3, replace=False)]
        said = {"by": name, "step": step}
        if step % 3 == 2:
            things.delete(ids)
        else:
            things.add([Document(i, metadata=said, vectors={"text": rng.normal(size=4)}) for i in ids])
        last |= dict.fromkeys(ids, None if step % 3 == 2 else said)
        things.update("shared", metadata={f"{name}-{step}": 1})
print(json.dumps(last))
"""


@pytest.fixture
def url() -> str:
    return server().collection()


@pytest.fixture
def things(url: str, counting: Counting) -> Iterator[Collection]:
    with Collection.open(url, counting, calibration="center", follow=False) as opened:
        opened.add(mixed(20))
        yield opened


def test_processes_that_change_the_same_documents_leave_one_of_the_last_states_of_each(url: str) -> None:
    with Collection.open(url, "none", follow=False) as things:
        things.add([Document("shared", vectors={"text": np.ones(4, np.float32)})])
        words = [sys.executable, "-c", CHANGE, url]
        started = [subprocess.Popen([*words, name], stdout=subprocess.PIPE, text=True) for name in ("1", "2", "3")]
        said = [process.communicate()[0] for process in started]
        assert [process.returncode for process in started] == [0, 0, 0]
        last = [json.loads(one) for one in said]
        for name in {name for one in last for name in one}:
            now = things.get(name).metadata if name in things else None
            assert now in [one[name] for one in last if name in one]
        assert len(things.get("shared").metadata) == 90  # no update was lost
        assert things.store.statistics().parts["text"].count == len(things)
        assert things.store.recounted().parts["text"].count == len(things)
        assert things.verify() == []


def test_an_update_keeps_what_another_process_changed_meanwhile(
    things: Collection, url: str, counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual, done = Writer.commit, Event()

    with Collection.open(url, counting, create=False) as other:

        def commit(self: Writer, *values: object) -> None:
            if not done.is_set():
                done.set()
                other.update("d0-1", metadata={"theirs": 1})
            usual(self, *values)  # type: ignore[arg-type]

        monkeypatch.setattr(Writer, "commit", commit)
        things.update("d0-1", metadata={"mine": 1})
    assert things.get("d0-1").metadata == {"number": 1, "odd": True, "theirs": 1, "mine": 1}


def test_an_update_does_not_bring_back_what_another_process_deleted_meanwhile(
    things: Collection, url: str, counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = Writer.commit

    with Collection.open(url, counting, create=False) as other:

        def commit(self: Writer, *values: object) -> None:
            other.delete("d0-1")
            usual(self, *values)  # type: ignore[arg-type]

        monkeypatch.setattr(Writer, "commit", commit)
        with pytest.raises(UnknownDocument):
            things.update("d0-1", metadata={"mine": 1})
    assert "d0-1" not in things


class Clock(datetime):
    """The clock of a machine that is years ahead."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        return super().now(tz) + timedelta(days=4000)


def test_the_last_calibration_is_served_whatever_the_clock_of_its_machine_says(
    things: Collection, url: str, counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    things.log_queries()
    with monkeypatch.context() as ahead:
        ahead.setattr(snapshot_builder, "datetime", Clock)
        ahead.setattr(query_log, "datetime", Clock)
        early = things.calibrate("none")
        things.search("an early red cat")
        things.close()
    assert early.made > datetime.now(UTC).isoformat()
    with Collection.open(url, counting, create=False) as other:
        late = other.calibrate("center")
        assert late.made < early.made
        assert late.version > early.version
        other.search("a late red dog")
    with Collection.open(url, counting, create=False) as third:
        assert third.calibration is not None
        assert third.calibration.version == late.version
        assert [one.version for one in third.calibrations()] == [early.version, late.version]
        assert third.store.queries.recent(2) == ["a late red dog", "an early red cat"]
        assert len(third.search("a red cat", k=50)) == 20
