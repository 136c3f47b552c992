"""Every store with its own client: raw, no photo is found; calibrated, it returns what isthmus returns."""

from __future__ import annotations

from pathlib import Path

import pytest

from isthmus import stores
from store_battery import (
    check_command_line,
    check_docs,
    check_searches,
    check_store,
    check_updates,
    command_line,
    options,
    world,
)
from store_clients import CLIENTS

DATABASES = ["chroma", "lancedb", "milvus", "pgvector", "qdrant"]


@pytest.mark.parametrize("name", DATABASES)
def test_a_calibrated_store_returns_what_isthmus_returns(name: str, tmp_path: Path) -> None:
    check_store(name, tmp_path)


@pytest.mark.parametrize("name", DATABASES)
def test_rows_of_the_store_can_stand_for_queries_and_do_not_meet_themselves(name: str, tmp_path: Path) -> None:
    check_store(name, tmp_path, sampled=True)


@pytest.mark.parametrize("name", DATABASES)
@pytest.mark.parametrize("metric", ["inner", "cosine", "l2"])
def test_other_metrics_give_the_same_order_and_scores(name: str, metric: str, tmp_path: Path) -> None:
    some, client = world(), CLIENTS[name]
    source, target, file = client.build(tmp_path, some.rows), client.target(tmp_path), tmp_path / "a.fold"
    stores.calibrate(source, target, file, options(tmp_path, some.references, metric=metric))
    check_searches(name, target, stores.load(file), some, tolerance=1e-3)


@pytest.mark.parametrize("name", DATABASES)
def test_the_command_line_diagnoses_calibrates_and_follows_a_store(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    check_command_line(name, tmp_path, command_line(monkeypatch, capsys))


@pytest.mark.parametrize("name", DATABASES)
def test_the_lines_of_python_in_the_docs_return_the_best_rows_with_their_scores(name: str, tmp_path: Path) -> None:
    check_docs(name, tmp_path)


@pytest.mark.parametrize("name", DATABASES)
def test_an_update_writes_and_deletes_only_what_changed(name: str, tmp_path: Path) -> None:
    check_updates(name, tmp_path, whole=False)
