"""Every store with its own client: raw, no photo is found; calibrated, it returns what isthmus returns."""

from __future__ import annotations

import socket
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID, uuid5

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from isthmus import stores
from isthmus.errors import CannotReach
from isthmus.stores import Fold, StoreAddress
from isthmus.types import Matrix
from store_battery import (
    HALF,
    check_command_line,
    check_docs,
    check_searches,
    check_store,
    check_updates,
    command_line,
    options,
    world,
)
from store_clients import CLIENTS, KIND, chroma_server, place_of

DATABASES = ["chroma", "lancedb", "milvus", "pgvector", "qdrant"]
TARGETS = [*DATABASES, "faiss", "parquet"]
OF_MILVUS = [  # whose collections take ten seconds each: it meets stores with ids that are texts, numbers and a file's
    ("milvus", "milvus"), ("qdrant", "milvus"), ("parquet", "milvus"), ("milvus", "pgvector"), ("milvus", "parquet"),
]  # fmt: skip
PAIRS = [
    *(pair for pair in product([*DATABASES, "clip-retrieval", "faiss", "parquet"], TARGETS) if "milvus" not in pair),
    *OF_MILVUS,
]


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


def held(address: str) -> tuple[list[str], Matrix]:
    """Return the ids and the vectors of a store that was made; ids as they were where it came from."""
    source = stores.open_source(StoreAddress.read(address))
    rows = list(source.batches(1000))
    pairs = [pair for batch in rows for pair in zip(batch.ids, batch.metadata, strict=True)]
    ids = [str(row.get("isthmus_id", key)) for key, row in pairs]
    vectors = np.vstack([batch.vectors for batch in rows])
    source.close()
    return ids, vectors


def check_held(address: str, fold: Fold, ids: list[str], vectors: Matrix, kinds: Any) -> None:
    """A store has these rows, folded, and no others."""
    found, rows = held(address)
    assert sorted(found) == sorted(ids)
    expected = dict(zip(ids, fold.rows(vectors, kinds), strict=True))
    assert np.allclose(rows, np.stack([expected[key] for key in found]), atol=1e-4)


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_a_store_can_be_calibrated_into_one_of_another_kind(source: str, target: str, tmp_path: Path) -> None:
    some = world()
    (tmp_path / "from").mkdir()
    (tmp_path / "to").mkdir()
    CLIENTS[target].build(tmp_path / "to", some.rows)  # what it is made beside
    old, new = CLIENTS[source].build(tmp_path / "from", some.rows), CLIENTS[target].target(tmp_path / "to")
    stores.calibrate(old, new, tmp_path / "a.fold", options(tmp_path, some.references))
    ids, vectors = held(old)
    kinds = some.rows.kinds if source == "clip-retrieval" else [some.rows.kinds[int(key)] for key in ids]
    if target == "faiss" != source:
        assert Path(f"{new.partition(':')[2]}.ids").read_text().splitlines() == ids
    if target == "faiss":  # which has the numbers of the rows
        ids = [str(at) for at in range(len(ids))]
    check_held(new, stores.load(tmp_path / "a.fold"), ids, vectors, kinds)


@pytest.mark.parametrize("target", DATABASES)
def test_metadata_that_a_store_does_not_take_is_written_as_it_can_be(target: str, tmp_path: Path) -> None:
    some = world()
    rows: dict[str, list[Any]] = {
        "id": [uuid5(UUID(int=key), "a").hex for key in some.rows.ids],  # UUIDs, and not as Qdrant writes them
        "vector": list(some.rows.vectors),
        "modality": some.rows.kinds.tolist(),
        "when": [datetime(2024, 5, 31, tzinfo=UTC)] * len(some.rows),
        "price": [Decimal("1.50")] * len(some.rows),
        "rate": [float("nan"), *[0.5] * (len(some.rows) - 1)],
        "tags": [["a", "b"]] * len(some.rows),
        "by": [{"name": "Ada"}] * len(some.rows),
        "note": [None, *["x"] * (len(some.rows) - 1)],
    }
    pq.write_table(pa.table(rows), tmp_path / "old.parquet")
    (tmp_path / "to").mkdir()
    CLIENTS[target].build(tmp_path / "to", some.rows)
    source, new, file = f"parquet:{tmp_path}/old.parquet", CLIENTS[target].target(tmp_path / "to"), tmp_path / "a.fold"
    stores.calibrate(source, new, file, options(tmp_path, some.references))
    check_held(new, stores.load(file), rows["id"], some.rows.vectors, some.rows.kinds)
    pq.write_table(pa.table({name: values[1:] for name, values in rows.items()}), tmp_path / "old.parquet")
    report = stores.update(source, new, file, options(tmp_path, some.references))
    assert (report.written, report.deleted) == (0, 1)
    check_held(new, stores.load(file), rows["id"][1:], some.rows.vectors[1:], some.rows.kinds[1:])


def test_a_table_of_lancedb_may_call_its_ids_what_it_likes(tmp_path: Path) -> None:
    import lancedb

    some = world()
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(some.rows.vectors.ravel()), 24)
    rows = pa.table(
        {"photoId": [f"it's {key}" for key in some.rows.ids], "vector": vectors, "kind": some.rows.kinds.tolist()}
    )
    table = lancedb.connect(str(tmp_path)).create_table("old", rows)
    source, file = f"lancedb:{tmp_path}/old?modality=kind&id=photoId", tmp_path / "a.fold"
    stores.calibrate(source, f"lancedb:{tmp_path}/new", file, options(tmp_path, some.references))
    table.delete("`photoId` = 'it''s 3'")
    changed = rows.slice(4, 1).set_column(2, "kind", pa.array(["text"]))
    table.merge_insert("photoId").when_matched_update_all().execute(changed)
    report = stores.update(source, f"lancedb:{tmp_path}/new", file, options(tmp_path, some.references))
    assert (report.written, report.deleted) == (1, 1)
    new = lancedb.connect(str(tmp_path)).open_table("new").to_arrow()
    assert sorted(new["photoId"].to_pylist()) == sorted(table.to_arrow()["photoId"].to_pylist())


ODD = """
CREATE EXTENSION IF NOT EXISTS vector; DROP TABLE IF EXISTS fair, odd; DROP TYPE IF EXISTS "Kind";
CREATE TYPE "Kind" AS ENUM ('text', 'image');
CREATE TABLE odd ("the id" uuid PRIMARY KEY, "Kind" "Kind" NOT NULL, v vector(24), other vector(2), words tsvector,
  listed jsonb, said jsonb, several jsonb[], kinds "Kind"[], tags text[], at point, price numeric, "when" timestamptz,
  place inet, nothing integer, bits varbit[])
"""
ROW = """
INSERT INTO odd VALUES (%s, %s, %s::real[]::vector, '[1,2]', 'a cat', '["a", 1]', '"x"',
  ARRAY['{"a": 1}', '[2]']::jsonb[], '{text,image}', '{a,"b c"}', '(1,2)', 1.50,
  '2024-05-31 12:00+02', '10.0.0.1', NULL, '{101,1}')
"""


def test_a_table_of_pgvector_keeps_columns_of_every_type(tmp_path: Path) -> None:
    import psycopg

    some = world()
    url, _ = place_of(CLIENTS["pgvector"].build(tmp_path, some.rows))
    ids = [UUID(int=key) for key in some.rows.ids]
    with psycopg.connect(url) as connection:
        connection.execute(ODD)
        rows = zip(ids, some.rows.kinds.tolist(), some.rows.vectors.tolist(), strict=True)
        connection.cursor().executemany(ROW, list(rows))
    source, new = f"pgvector:{url}/odd?vector=v&id=the id&modality=Kind", f"pgvector:{url}/fair"
    file, chosen = tmp_path / "a.fold", options(tmp_path, some.references)
    stores.calibrate(source, new, file, chosen)
    with psycopg.connect(url) as connection:
        same = "SELECT count(*) FROM odd JOIN fair USING (\"the id\") WHERE to_jsonb(odd) - 'v' = to_jsonb(fair) - 'v'"
        assert connection.execute(same).fetchone() == (2 * HALF,)
        connection.execute('DELETE FROM odd WHERE "the id" = %s', (ids[0],))
    assert stores.update(source, new, file, chosen).deleted == 1
    stores.calibrate(source, f"parquet:{tmp_path}/fair.parquet", tmp_path / "b.fold", chosen)
    assert pq.read_table(tmp_path / "fair.parquet")["the id"].to_pylist() == [str(key) for key in ids[1:]]


def test_a_server_that_does_not_answer_is_named_without_its_password(tmp_path: Path) -> None:
    with socket.socket() as one:  # a port that nothing listens on
        one.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{one.getsockname()[1]}"
        for address in (f"qdrant:http://{place}/photos", f"pgvector:postgresql://ada:secret@{place}/shop/photos"):
            with pytest.raises(CannotReach, match=rf"{place}.* (does not answer|cannot be reached)") as raised:
                stores.examine(f"{address}?all=text", "text")
            assert "secret" not in str(raised.value)


def test_a_connection_that_is_lost_in_the_middle_is_a_clear_error_and_an_update_finishes_it(tmp_path: Path) -> None:
    import psycopg

    some, client = world(), CLIENTS["pgvector"]
    source, target, file = client.build(tmp_path, some.rows), client.target(tmp_path), tmp_path / "a.fold"
    chosen = options(tmp_path, some.references)

    def progress(stage: str) -> Callable[[int, int], None]:
        def lost(_: int, __: int) -> None:
            with psycopg.connect(place_of(source)[0], autocommit=True) as connection:
                others = "FROM pg_stat_activity WHERE datname = current_database() AND pid != pg_backend_pid()"
                connection.execute(f"SELECT pg_terminate_backend(pid) {others}")

        return lost if stage == "writing" else lambda *_: None

    with pytest.raises(CannotReach, match=r"photos_fair does not answer, or refuses .*finished with --update"):
        stores.calibrate(source, target, file, chosen, progress=progress)
    assert stores.update(source, target, file, chosen).why == "the last run was interrupted"
    check_searches("pgvector", target, stores.load(file), some)


def test_options_of_a_connection_may_have_spaces(tmp_path: Path) -> None:
    some = world()
    source = CLIENTS["pgvector"].build(tmp_path, some.rows) + "&options=-c%20statement_timeout%3D7s"
    found = stores.open_source(StoreAddress.read(source))
    assert found.connection.execute("SHOW statement_timeout").fetchone() == ("7s",)  # type: ignore[attr-defined]
    found.close()


def test_metadata_that_is_gone_in_chroma_is_gone_in_the_new_collection(tmp_path: Path) -> None:
    import chromadb

    some, client = world(), CLIENTS["chroma"]
    source, target, file = client.build(tmp_path, some.rows), client.target(tmp_path), tmp_path / "a.fold"
    old = chromadb.PersistentClient(str(tmp_path / "chroma")).get_collection("photos", embedding_function=None)
    vector = old.get(["3"], include=["embeddings"])["embeddings"]
    old.update(["3"], embeddings=vector, metadatas=[{"year": 2021}], documents=["a cat"])
    stores.calibrate(source, target, file, options(tmp_path, some.references))
    old.delete(["3"])
    old.add(["3"], embeddings=vector, metadatas=[{"kind": "image"}])
    assert stores.update(source, target, file, options(tmp_path, some.references)).written == 1
    new = chromadb.PersistentClient(str(tmp_path / "chroma")).get_collection("photos_fair", embedding_function=None)
    found = new.get(["3"], include=["metadatas", "documents"])
    assert (found["metadatas"], found["documents"]) == ([{"kind": "image"}], [None])


def test_a_server_of_chroma_is_calibrated_and_followed_as_a_folder_is(tmp_path: Path) -> None:
    import chromadb

    some, file = world(), tmp_path / "a.fold"
    CLIENTS["chroma"].build(tmp_path, some.rows)
    with chroma_server(tmp_path / "chroma") as place:
        source, target = f"chroma:{place}/photos?modality={KIND}", f"chroma:{place}/photos_fair"
        stores.calibrate(source, target, file, options(tmp_path, some.references))
        check_searches("chroma", target, stores.load(file), some)
        old = chromadb.HttpClient("127.0.0.1", urlsplit(place).port or 0).get_collection(
            "photos", embedding_function=None
        )
        old.delete(["3"])
        assert stores.update(source, target, file, options(tmp_path, some.references)).deleted == 1
        assert 3 not in CLIENTS["chroma"].search(target, stores.load(file).query(some.queries[0]), 2 * HALF)[0]
    with pytest.raises(CannotReach, match="No Chroma server answers at http://127"):
        stores.calibrate(source, target, file, options(tmp_path, some.references))
