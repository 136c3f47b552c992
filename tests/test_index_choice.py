"""A collection can be told which kind of index to use, and keeps to it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from isthmus import Collection, Query, index
from isthmus.cli import app
from isthmus.errors import BadInput, MissingExtra, UnknownName
from stock import own, unit

ROWS = unit(np.random.default_rng(0).normal(size=(40, 8)))
ASKED = Query(vectors={"text": ROWS[3]})


def kinds(things: Collection) -> set[str]:
    return {index.engine.kind for index in things.snapshot().built}  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", sorted(index.KINDS))
def test_a_chosen_index_is_built_kept_and_shown(tmp_path: Path, kind: str) -> None:
    with Collection.open(tmp_path / "c", "none", "none", index=kind) as things:
        things.add(own(ROWS))
        assert things.search(ASKED, k=1)[0].id == "v3"
        assert kinds(things) == {kind}
    with Collection.open(tmp_path / "c") as things:
        assert kinds(things) == {kind}
        assert things.stats().index == {"text": f"{kind}, 40 rows"}
        things.calibrate("center", queries=[Query("a", vectors={"text": row}) for row in ROWS])
        assert kinds(things) == {kind}


def test_another_choice_is_built_when_the_collection_is_next_written(tmp_path: Path) -> None:
    with Collection.open(tmp_path / "c", "none", "none", follow=False) as things:
        things.add(own(ROWS))
        things.search(ASKED)
        assert kinds(things) == {"exact"}
    for kind, built in (("hnsw", "hnsw"), ("auto", "exact")):
        with Collection.open(tmp_path / "c", index=kind, follow=False) as things:
            assert things.search(ASKED, k=1)[0].id == "v3"
            things.refresh()
            assert kinds(things) == {built}
        with Collection.open(tmp_path / "c", follow=False) as things:
            assert kinds(things) == {built}


def test_a_collection_in_memory_takes_a_kind_too() -> None:
    with Collection.open(":memory:", "none", "none", index="hnsw") as things:
        things.add(own(ROWS))
        assert things.search(ASKED, k=1)[0].id == "v3"
        assert kinds(things) == {"hnsw"}


def test_a_kind_that_does_not_exist_or_cannot_be_built_here_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UnknownName, match="Did you mean 'hnsw'"):
        Collection.open(tmp_path / "c", "none", index="hsnw")
    with pytest.raises(BadInput, match="a kind of index such as 'hnsw'"):
        Collection.open(tmp_path / "c", "none", index=3)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(MissingExtra, match="ann"):
        Collection.open(tmp_path / "c", "none", index="hnsw")
    assert not (tmp_path / "c").exists()


def test_the_command_line_chooses_an_index_and_shows_it(tmp_path: Path) -> None:
    rows = [{"id": f"v{i}", "vectors": {"text": row.tolist()}} for i, row in enumerate(ROWS)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    place = str(tmp_path / "c")
    given = ["index", str(tmp_path / "rows.jsonl"), "--into", place, "--encoder", "none", "--calibration", "none"]
    assert CliRunner().invoke(app, [*given, "--index", "hnsw"]).exit_code == 0
    assert "index        text: hnsw, 40 rows" in CliRunner().invoke(app, ["stats", "--in", place]).stdout


@pytest.mark.parametrize("kind", ["ivf-sq8", "ivf-rabitq"])
def test_rounded_indexes_find_what_float_vectors_find_in_a_calibrated_collection(kind: str, tmp_path: Path) -> None:
    """Hits are scored by the float vectors, whatever the index holds. Fewer rows would be scanned."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((40, 96))
    rows = unit(centres[rng.integers(0, 40, 9_000)] + rng.standard_normal((9_000, 96)) + 2)  # in one cone
    asked = [Query(vectors={"text": row}) for row in unit(rows[:60] + 0.05 * rng.standard_normal((60, 96)))]
    found = []
    for which in ("exact", kind):
        with Collection.open(tmp_path / which, "none", "none", index=which, follow=False) as things:
            things.add(own(rows))
            things.calibrate("center", queries=[Query("a", vectors={"text": row}) for row in rows[60:400]])
            assert kinds(things) == {which}
            found.append([{hit.id: hit.score for hit in hits} for hits in things.search_many(asked, k=10)])
    shared = [len(one.keys() & other.keys()) for one, other in zip(*found, strict=True)]
    assert np.mean(shared) / 10 >= 0.95
    assert all(
        one[name] == other[name] for one, other in zip(*found, strict=True) for name in one.keys() & other.keys()
    )
