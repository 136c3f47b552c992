"""What every store has to do, whichever client it has: `test_stores.py` and `tests/stores/` run it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from isthmus import stores
from isthmus.stores import Fold, StoreOptions
from isthmus.types import Matrix, Vectors
from store_clients import CLIENTS, Rows

SPEC = "center+nnn(k=8)+standardize"
HALF = 40  # images, and as many texts


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
    raw = [client.search(source, query, 10)[0] for query in some.queries[:8]]
    assert share_of_images(raw) <= 0.05
    report = stores.calibrate(source, target, file, options(folder, None if sampled else some.references))
    assert (report.written, report.rows) == (2 * HALF, {"image": HALF, "text": HALF})
    check_searches(name, target, stores.load(file), some)


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


def grown(some: Rows, change: int) -> Rows:
    """Return the rows without the first three, with three new ones, and with one changed vector."""
    vectors = np.vstack([some.vectors[3:], some.vectors[-3:]])
    vectors[0] = some.vectors[change]
    return Rows([*some.ids[3:], 1000, 1001, 1002], vectors, np.append(some.kinds[3:], ["text"] * 3))
