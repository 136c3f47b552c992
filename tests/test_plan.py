"""Estimates of sizes: against real files and indexes, published figures, and at their limits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import postgres_server
from isthmus import Collection, Document
from isthmus.cli import app
from isthmus.errors import BadInput, UnknownName
from isthmus.index import build
from isthmus.index.hnsw import LINKS
from isthmus.plan import ENGINES, Workload, measured, plan, sizes
from isthmus.plan.engines import fold_seconds, store_bytes
from isthmus.plan.workload import GIB, MOST
from isthmus.storage.postgres import folded
from isthmus.types import Matrix

LOAD = Workload(documents=1_000_000, dim=512)


def rows(n: int, dim: int) -> Matrix:
    return np.random.default_rng(0).standard_normal((n, dim), dtype=np.float32)


@pytest.mark.parametrize(
    ("kind", "estimated"),
    [("hnsw", sizes.hnsw_bytes), ("ivf-sq8", sizes.ivf_bytes), ("ivf-rabitq", sizes.rabitq_bytes)],
)
@pytest.mark.parametrize("dim", [65, 130])
def test_files_of_indexes_have_the_estimated_size(kind: str, estimated: object, dim: int, tmp_path: Path) -> None:
    assert callable(estimated)
    build(rows(4000, dim), kind).save(tmp_path, "index")
    real = sum(file.stat().st_size for file in tmp_path.iterdir())
    assert real == pytest.approx(estimated(4000, dim), rel=0.03)


def test_a_store_has_the_estimated_size(tmp_path: Path) -> None:
    vectors, text = rows(2000, 512), "harbour copper winter letter " * 12
    documents = [Document(f"d{n}", f"{text}{n}", vectors={"text": vector}) for n, vector in enumerate(vectors)]
    with Collection.open(tmp_path / "things", "none", "none", follow=False) as things:
        things.add(documents)
        things.compact()
    real = sum(file.stat().st_size for file in (tmp_path / "things").iterdir() if file.is_file())
    load = Workload(documents=2000, dim=512, text_bytes=len(text) + 4)
    assert real == pytest.approx(store_bytes(load, measured()), rel=0.1)


@pytest.mark.install
@pytest.mark.parametrize(("width", "half"), [(64, False), (513, False), (513, True), (1536, False), (2000, False)])
def test_pgvector_has_the_estimated_size(width: int, half: bool) -> None:
    kind = "halfvec" if half else "vector"
    with psycopg.connect(postgres_server.server().url) as connection:
        connection.execute("create extension if not exists vector")
        connection.execute(f"create temp table sized (id bigint, v {kind}({width}))")
        several = [
            (n, "[" + ",".join(f"{value:.4g}" for value in row) + "]") for n, row in enumerate(rows(1500, width))
        ]
        connection.cursor().executemany(
            "insert into sized values (%s, %s)", several
        )  # COPY adds empty pages in advance
        connection.execute(f"create index on sized using hnsw (v {kind}_ip_ops)")
        found = connection.execute("select pg_table_size('sized'), pg_indexes_size('sized')").fetchone()
        connection.rollback()
    assert found is not None
    assert found[0] == pytest.approx(sizes.pg_table_bytes(1500, width, half=half), rel=0.05)
    assert found[1] == pytest.approx(sizes.pg_hnsw_bytes(1500, width, half=half), rel=0.08)  # random levels


@pytest.mark.install
@pytest.mark.parametrize(("vectors", "half", "width"), [("database", False, 512), ("database-half", True, 768)])
def test_a_publication_has_the_estimated_size(
    vectors: str, half: bool, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("isthmus.storage.postgres.folded.EXACT_BELOW", 100)
    url = postgres_server.server().collection()
    with Collection.open(url, "none", "none", vectors=vectors, follow=False) as things:
        things.add([Document(f"d{n}", vectors={"text": row}) for n, row in enumerate(rows(1500, width))])
        things.calibrate("none")
    with psycopg.connect(url.partition("?")[0]) as connection:
        tables = "select oid from pg_class where relname like 'folded\\_%%' and relkind = 'r' and relnamespace = "
        tables += "%s::regnamespace"
        graph = f"select pg_relation_size(indexrelid) from pg_index where indrelid = ({tables}) and indpred is not null"
        name = url.partition("collection=")[2]
        table = connection.execute(f"select pg_table_size(oid) from ({tables}) t", (name,)).fetchone()
        index = connection.execute(graph, (name,)).fetchone()
    load = Workload(documents=1500, dim=width - 1)  # without a bias, a folded vector has no number for it
    [planned] = plan(load, f"postgresql {'halfvec' if half else 'vector'}")
    assert table is not None and index is not None
    assert table[0] == pytest.approx(sizes.pg_table_bytes(1500, load.width, inline=sizes.PG_KEPT), rel=0.05)
    assert index[0] == pytest.approx(sizes.pg_hnsw_bytes(1500, load.width, half=half), rel=0.05)
    assert planned.refit_written == pytest.approx(table[0] + index[0], rel=0.05)


def test_published_figures() -> None:
    # Qdrant's capacity planning: a million vectors of 1,024 numbers take 6,144,000,000 bytes of memory.
    assert sizes.qdrant_bytes(1_000_000, 1024) == 6_144_000_000
    # Faiss' guidelines: HNSW takes 4·d + 8·M bytes a vector, without the levels above the lowest and the offsets.
    assert sizes.hnsw_bytes(10**6, 767) == pytest.approx(10**6 * (4 * 768 + 8 * LINKS), rel=0.01)
    # A million vectors of 1,536 numbers take a page of 8 KB each in pgvector's HNSW.
    assert sizes.pg_hnsw_bytes(10**6, 1536) == 8192 * 10**6
    assert sizes.pg_hnsw_bytes(10**6, 2001) == 0  # more than 2,000 numbers cannot be indexed as vector
    assert sizes.pg_hnsw_bytes(10**6, 2001, half=True) > 0


@given(st.integers(1, 10**9), st.integers(1, 4096), st.sampled_from(list(ENGINES)))
def test_more_documents_never_take_less(documents: int, dim: int, engine: str) -> None:
    [less] = plan(Workload(documents=documents, dim=dim), engine)
    [more] = plan(Workload(documents=2 * documents, dim=dim), engine)
    assert less.memory <= more.memory and less.disk < more.disk and 1 <= less.shards <= more.shards


@pytest.mark.parametrize(("dim", "indexed"), [(1999, True), (2000, True), (3072, True), (4000, False)])
def test_vectors_that_pgvector_indexes_by_16_bits_or_not_at_all_still_need_memory(dim: int, indexed: bool) -> None:
    [vector, half] = [plan(replace(LOAD, dim=dim), f"postgresql {kind}")[0] for kind in ("vector", "halfvec")]
    table, width = sizes.pg_table_bytes(LOAD.rows, dim + 1), dim + 1
    assert vector.memory == (sizes.pg_hnsw_bytes(LOAD.rows, width, half=width > 2000) if indexed else table)
    assert half.memory == (sizes.pg_hnsw_bytes(LOAD.rows, width, half=True) if indexed else table)
    assert (vector.build_seconds is None, bool(vector.note)) == (width > 2000, width > 2000)
    assert vector.refit_written == table + (vector.memory if indexed else 0)


@pytest.mark.install
def test_the_longest_vectors_that_are_indexed_are_those_of_the_engine() -> None:
    assert {"vector": sizes.PG_WIDEST[False], "halfvec": sizes.PG_WIDEST[True]} == folded.WIDEST


def test_shards_fill_three_quarters_of_the_memory_of_a_machine() -> None:
    [alone] = plan(LOAD, "qdrant hnsw")
    fits = replace(LOAD, memory=round(alone.memory / 0.75) + 1)
    assert alone.memory == 3_078_000_000
    assert [one.shards for one in plan(fits, "qdrant hnsw")] == [1]
    [parted] = plan(replace(LOAD, memory=GIB), "qdrant hnsw")
    assert parted.shards == 4
    [folder] = plan(replace(LOAD, memory=GIB), "folder exact")
    assert "never on two" in folder.note


def test_shards_divide_the_time_of_an_index_and_not_that_of_the_process_that_writes_to_them() -> None:
    [whole] = plan(replace(LOAD, memory=1024 * GIB), "postgresql vector")
    parted = [plan(replace(LOAD, memory=size * GIB), "postgresql vector")[0] for size in (2, 1)]
    assert 1 == whole.shards < parted[0].shards < parted[1].shards
    writing = LOAD.rows * LOAD.width / 512 / measured().of("pgvector_written_rows_per_second")
    least = fold_seconds(LOAD, measured()) + writing
    index = (whole.refit_seconds or 0) - least
    assert index > 0
    assert [one.refit_seconds for one in parted] == pytest.approx([least + index / one.shards for one in parted])
    assert "are on one machine" in parted[0].note and not whole.note


def test_what_was_not_measured_is_not_guessed() -> None:
    found = {one.engine: one for one in plan(LOAD)}
    assert list(found) == list(ENGINES)
    assert found["postgresql halfvec"].build_seconds is None and found["qdrant hnsw"].refit_seconds is None
    assert (found["postgresql vector"].build_seconds or 0) > (found["postgresql vector"].refit_seconds or 0) > 0
    assert (found["folder hnsw"].build_seconds or 0) > (found["folder exact"].build_seconds or 0) > 0


def test_twice_the_cores_halve_what_is_computed() -> None:
    [one], [two] = (plan(replace(LOAD, cores=cores), "folder hnsw") for cores in (2, 4))
    assert one.refit_seconds is not None and two.refit_seconds is not None
    assert two.refit_seconds == pytest.approx(one.refit_seconds / 2)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("documents", 0),
        ("documents", MOST + 1),
        ("dim", 0),
        ("dim", 65_537),
        ("passages", 0.5),
        ("passages", float("nan")),
        ("memory", GIB - 1),
        ("cores", 0),
        ("documents", True),
        ("text_bytes", -1),
    ],
)
def test_what_makes_no_plan_is_refused(name: str, value: Any) -> None:
    with pytest.raises(BadInput, match=name):
        replace(LOAD, **{name: value})


def test_limits_themselves_are_planned() -> None:
    assert plan(Workload(documents=1, dim=1, text_bytes=0, memory=GIB, cores=1))
    assert plan(Workload(documents=MOST, dim=65_536, passages=10_000))
    with pytest.raises(UnknownName, match="folder exact"):
        plan(LOAD, "folder exakt")


def test_the_command_shows_every_engine() -> None:
    said = CliRunner().invoke(app, ["plan", "--documents", "1e9", "--dim", "512"])
    assert said.exit_code == 0 and all(name in said.output for name in ENGINES)
    assert [CliRunner().invoke(app, ["plan", "--documents", wrong]).exit_code for wrong in ("1.5", "many")] == [2, 2]
