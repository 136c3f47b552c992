"""What every store has to do, whichever client it has: `test_stores.py` and `tests/stores/` run it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import chdir
from dataclasses import dataclass
from itertools import dropwhile, takewhile
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

from isthmus import stores
from isthmus.cli import main
from isthmus.stores import Fold, StoreOptions
from isthmus.types import Matrix, Vectors
from store_clients import CLIENTS, Rows, place_of

SPEC = "center+nnn(k=8)+standardize"
HALF = 40  # images, and as many texts
DOCS = Path(__file__).resolve().parent.parent / "docs" / "stores.md"
IMPORTS = {  # before the lines of the docs
    "parquet": "import pyarrow.parquet",
    "faiss": "import faiss",
    "clip-retrieval": "import faiss",
    "chroma": "import chromadb",
    "lancedb": "import lancedb",
    "milvus": "from pymilvus import MilvusClient",
    "qdrant": "from qdrant_client import QdrantClient",
    "pgvector": "import psycopg; connection = psycopg.connect(where)",
}


@dataclass(frozen=True)
class World:
    """Rows with a strong gap, as CLIP has: images first, then a text on the topic of each; queries, references."""

    rows: Rows
    queries: Matrix
    references: Matrix


def unit(matrix: Matrix) -> Matrix:
    return np.asarray(matrix / np.linalg.norm(matrix, axis=1, keepdims=True), dtype=np.float32)


def world(seed: int = 0, dim: int = 24) -> World:
    rng = np.random.default_rng(seed)
    topics = rng.normal(size=(HALF, dim))
    text_cone, image_cone = 3 * rng.normal(size=dim), 3 * rng.normal(size=dim)

    def said(about: Matrix) -> Matrix:
        return unit(about + 0.4 * rng.normal(size=about.shape) + text_cone)

    pictures = unit(topics + 0.4 * rng.normal(size=topics.shape) + image_cone)
    rows = np.vstack([pictures, said(topics)]).astype(np.float16).astype(np.float32)  # exact in half precision, too
    kinds = np.repeat(["image", "text"], HALF)
    return World(Rows(list(range(2 * HALF)), rows, kinds), said(topics), said(rng.normal(size=(100, dim))))


def options(folder: Path, given: Matrix | None = None, **others: str) -> StoreOptions:
    """Return options, with reference queries in a file if there are some."""
    if given is not None:
        np.save(folder / "references.npy", given)
    queries = None if given is None else folder / "references.npy"
    return StoreOptions(spec=others.pop("spec", SPEC), queries=queries, query_modality="text", **others)


def place(key: str) -> int:
    """Return the row of an id: clip-retrieval counts captions by themselves."""
    if "-" not in key:
        return int(key)
    _, row, kind = key.split("-")
    return int(row) + (HALF if kind == "text" else 0)


def own_scores(fold: Fold, some: World) -> Matrix:
    """Return the scores of isthmus's own search over arrays, ``(queries, rows)``."""
    documents = Vectors.of(some.rows.vectors, some.rows.kinds)
    sources = [place(key) for key in fold.reference_ids] or None
    return fold.fitted.scores(Vectors.of(some.queries, "text"), documents, sources=sources)


def share_of_images(lists: list[list[int]]) -> float:
    return float(np.mean([[row < HALF for row in ids[:10]] for ids in lists]))


def check_store(name: str, folder: Path, *, sampled: bool = False) -> None:
    """A plain search of the raw store finds no images; of the calibrated one, what isthmus finds, with its scores."""
    some, client = world(), CLIENTS[name]
    source, target, file = client.build(folder, some.rows), client.target(folder), folder / "photos.fold"
    raw = [client.search(source, query, 2 * HALF) for query in some.queries[:8]]
    assert share_of_images([ids for ids, _ in raw]) == 0
    report = stores.calibrate(source, target, file, options(folder, None if sampled else some.references))
    assert (report.written, report.rows) == (2 * HALF, {"image": HALF, "text": HALF})
    check_searches(name, target, stores.load(file), some)
    for query, (ids, values) in zip(some.queries, raw, strict=False):  # the old vectors are as they were
        before = dict(zip(ids, values, strict=True))
        after = dict(zip(*client.search(source, query, 2 * HALF), strict=True))
        both = before.keys() & after.keys()  # a server that builds its index in between may miss a row
        assert len(both) > HALF if name == "milvus" else before.keys() == after.keys()
        assert [after[row] for row in both] == pytest.approx([before[row] for row in both], abs=1e-6)


def check_updates(name: str, folder: Path, *, whole: bool) -> None:
    """An update follows adds, changes and deletes, then deletes alone; ``whole``: every row is written again."""
    some, client = world(), CLIENTS[name]
    source, target, file = client.build(folder, some.rows), client.target(folder), folder / "a.fold"
    chosen = options(folder, some.references)
    stores.calibrate(source, target, file, chosen)
    fold = file.read_bytes()
    assert stores.update(source, target, file, chosen).written == 0
    changed = grown(some.rows, 5)
    fewer = Rows(changed.ids[:-2], changed.vectors[:-2], changed.kinds[:-2])
    for rows, written, deleted in ((changed, 4, 3), (fewer, 0, 2)):
        client.build(folder, rows)
        report = stores.update(source, target, file, chosen)
        assert (report.written, report.deleted) == ((len(rows), 0) if whole else (written, deleted))
        assert (report.refitted, file.read_bytes()) == (False, fold)
        check_rows(name, target, stores.load(file), rows, some.queries[:3])


def check_rows(name: str, target: str, fold: Fold, rows: Rows, queries: Matrix) -> None:
    """The target has these rows and no others, with the scores of isthmus's own search."""
    expected = fold.fitted.scores(Vectors.of(queries, "text"), Vectors.of(rows.vectors, rows.kinds))
    more = len(rows) + (0 if name == "faiss" else 5)  # Faiss fills its answer; its index is written whole
    for number, vector in enumerate(queries):
        query = fold.query(vector)
        ids, values = CLIENTS[name].search(target, query, more, fold.metric)
        assert sorted(ids) == sorted(rows.ids)
        own = expected[number][[rows.ids.index(key) for key in ids]]
        assert np.allclose(fold.scores(values, query), own, atol=1e-3)


def check_searches(name: str, target: str, fold: Fold, some: World, tolerance: float = 1e-4) -> None:
    """The client's searches have the order and the scores of isthmus's own."""
    expected = own_scores(fold, some)
    found = []
    for number, vector in enumerate(some.queries[:8]):
        query = fold.query(vector)
        ids, values = CLIENTS[name].search(target, query, 20, fold.metric)
        assert np.allclose(fold.scores(values, query), -np.sort(-expected[number])[:20], atol=tolerance)
        assert np.allclose(expected[number][ids], -np.sort(-expected[number])[:20], atol=tolerance)
        found.append(ids)
    ranks = [1 + int((row > row[number]).sum()) for number, row in enumerate(expected[:8])]
    assert np.median(ranks) <= 3  # of the right image; raw, all texts come first
    assert share_of_images(found) > 0.05


def command_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Return what runs the command line, which has to succeed, and returns its output."""

    def run(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["isthmus", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        assert not ended.value.code, said.err
        return said.out

    return run


def check_command_line(name: str, folder: Path, run: Callable[..., str]) -> None:
    """The command line diagnoses a store, calibrates it, says what that has changed, and follows it."""
    some, client = world(), CLIENTS[name]
    source, target, fold = client.build(folder, some.rows), client.target(folder), str(folder / "fair.fold")
    np.save(folder / "queries.npy", some.references)
    given = ("--queries", str(folder / "queries.npy"))
    before = run("diagnose", source, *given)
    assert "Some kinds of documents hardly get into the top 10" in before
    assert "calibrated" not in before.split("most frequent")[0].split("top 10   ")[1]
    assert json.loads(run("diagnose", source, "--json"))["level"] == "unfair"  # asked by rows of the store
    said = run("calibrate", source, "--into", target, "--fold", fold, *given)
    assert "80 rows written" in said
    assert "fair.fold" in said
    after = json.loads(run("diagnose", source, "--fold", fold, *given, "--json"))
    assert after["level"] in ("corrected", "fair")
    again = json.loads(run("calibrate", source, "--into", target, "--fold", fold, "--update", "--json"))
    assert (again["written"], again["deleted"], again["refitted"]) == (0, 0, False)
    check_searches(name, target, stores.load(fold), some, tolerance=1e-3)


def lines_in_the_docs(name: str, where: str, table: str) -> str:
    """Return the lines of Python that the docs give for a store, with the place and the columns of the test's store."""
    sections = {part.split("\n")[0].lower(): part for part in DOCS.read_text().split("\n## ")}
    lines = dropwhile(lambda line: not line.startswith("    "), sections[name].splitlines())
    text = dedent("\n".join(takewhile(lambda line: line.startswith("    "), lines)))
    here = {"data/chroma": where, "data/lance": where, "http://localhost:19530": where, '"photos_fair"': f'"{table}"'}
    here |= {'"http://localhost:6333"': f"path={where!r}", '["vector"]': '["embedding"]', " embedding <#>": " v <#>"}
    for said, put in here.items():
        text = text.replace(said, put)
    return text


def check_docs(name: str, folder: Path) -> None:
    """The lines of the docs return the best rows, with the scores of isthmus."""
    some, client = world(), CLIENTS[name]
    source, target, file = client.build(folder, some.rows), client.target(folder), folder / "photos_fair.fold"
    stores.calibrate(source, target, file, options(folder, some.references))
    where, table = place_of(target)
    fold = stores.load(file)
    expected = own_scores(fold, some)[0]
    if name == "clip-retrieval":
        write_index_of_images(Path(where, table), folder / "indices_fair")
        expected = expected[:HALF]
    names: dict[str, Any] = {"np": np, "fold": fold, "vector": some.queries[0], "where": where}
    with chdir(folder):
        exec(f"{IMPORTS[name]}\n{lines_in_the_docs(name, where, table)}", names)  # noqa: S102 - our own docs
    assert np.allclose(-np.sort(-names["scores"])[:10], -np.sort(-expected)[:10], atol=1e-3)


def write_index_of_images(embeddings: Path, out: Path) -> None:
    """Make the index that `clip-retrieval index` makes of pictures."""
    import faiss

    shard = np.load(embeddings / "img_emb" / "img_emb_0.npy")
    index = faiss.IndexFlatIP(shard.shape[1])
    index.add(shard)
    out.mkdir()
    faiss.write_index(index, str(out / "image.index"))


def grown(some: Rows, change: int) -> Rows:
    """Return the rows without the first three, with three new ones, and with one changed vector."""
    vectors = np.vstack([some.vectors[3:], some.vectors[-3:]])
    vectors[0] = some.vectors[change]
    return Rows([*some.ids[3:], 1000, 1001, 1002], vectors, np.append(some.kinds[3:], ["text"] * 3))
