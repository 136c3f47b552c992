"""Identical pictures come first: a query with a picture finds the documents that have this picture.

In words: calibration compares modalities, so it may rank a text above the very picture that was asked for. A part of a
query that is not text is therefore compared with the parts of the nearest documents, by their raw vectors. Documents
that have the part are raised to the top, the most similar first; equal ones keep their order. Nothing is raised for a
query whose weights make another part more important.

Rule, for the cosines c₁ ≥ c₂ ≥ … of the query with the parts of the candidates, and distances d = 1 − c: the first j
documents have the part, for the largest j with

    d_j ≤ IDENTICAL    or    d_j ≤ NEAR  and  d_j ≤ d_{j+1} / APART

(after the last one, the next is taken to be as near). What it means: a copy that was cropped a little or compressed
again is far nearer than any other picture. Where all pictures are alike (scanned pages have cosines of .99), only an
identical one is raised. Candidates are the ``CANDIDATES`` nearest documents of each modality, biases left out. The
score of a raised document is the best score of the list. With ``none``, which is raw cosine, nothing is raised.

Texts are left out: a query in words that equals a text is no reason to rank that text above a picture of the thing.

>>> same([1.0, 0.91, 0.9]), same([0.985, 0.984, 0.98]), same([0.99, 0.985, 0.7])
(1, 0, 2)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from isthmus.kinds import TEXT, atoms
from isthmus.search.ranking import Allowed, Ranking, folded_queries, of_index, ranked
from isthmus.search.results import Answer
from isthmus.search.snapshot import Snapshot
from isthmus.storage.protocols import Store
from isthmus.types import Mask, Matrix, Rows, Vectors

IDENTICAL = 1e-4  # the distance of two encodings of one picture, at most
NEAR = 0.02  # the distance of a copy, at most
APART = 3.0  # how many times as far the next picture is
CANDIDATES = 20  # of each modality
DIGITS = 5  # of a cosine that are compared
CERTAIN = 0.97  # P(match) of a raised document, at least: the share of relevant ones on the mixtures for design


def holders(
    snapshot: Snapshot,
    store: Store,
    vectors: Vectors,
    allowed: Allowed | None = None,
    modalities: Sequence[str] | None = None,
) -> list[dict[int, float]]:
    """Return, for each query, the rows of the documents that have a part of it, and the cosine of that part."""
    out: list[dict[int, float]] = [{} for _ in range(len(vectors))]
    fitted = snapshot.calibrated.fitted
    for kind in vectors.parts:
        rows = np.flatnonzero(_main(vectors, kind))
        if kind == TEXT or kind not in fitted.query_modalities or not len(rows) or str(fitted.spec) == "none":
            continue
        parts = Vectors({kind: vectors.parts[kind][rows]}, {kind: np.ones(len(rows), dtype=bool)})
        names = [name for name in snapshot.modalities if kind in atoms(name)]
        wanted = names if modalities is None else [name for name in names if name in modalities]
        for row, query, near in zip(rows, parts.parts[kind], _near(snapshot, parts, wanted, allowed), strict=True):
            cosines = _cosines(store, kind, query, near)
            several = sorted(cosines.values(), reverse=True)
            if count := same(several):
                least = several[count - 1]
                out[row] |= {document: cosine for document, cosine in cosines.items() if cosine >= least}
    return out


def same(cosines: Sequence[float] | Matrix) -> int:
    """Return how many of the cosines, best first, belong to parts that are the same as the query's."""
    distance = 1 - np.asarray(cosines, dtype=np.float64)
    after = np.append(distance[1:], distance[-1:] if len(distance) > 1 else np.inf)  # no other is known to be far
    near = (distance <= IDENTICAL) | ((distance <= NEAR) & (distance <= after / APART))
    return int(np.flatnonzero(near)[-1]) + 1 if near.any() else 0


def with_documents(snapshot: Snapshot, query: Vectors, ranking: Ranking, documents: Mapping[int, float]) -> Ranking:
    """Return a ranking of one query with these documents in it."""
    missing = np.setdiff1d(list(documents), ranking.documents)
    if not len(missing):
        return ranking

    def may(rows: Rows) -> Mask:
        return np.isin(rows, missing)

    return ranking.joined(ranked(snapshot, query, len(missing), allowed=may)[0])


def put_first(answer: Answer, documents: Mapping[int, float]) -> Answer:
    """Put these documents of an answer first, by their cosines, with the best score and a high P(match)."""
    if not documents:
        return answer
    cosine = np.array([documents.get(int(row), -np.inf) for row in answer.ranking.documents])
    order = np.argsort(-cosine, kind="stable")
    found, has = answer.take(order), cosine[order] > -np.inf
    scores = np.where(has, found.ranking.scores.max(), found.ranking.scores)
    p = found.probability
    return replace(
        found,
        ranking=replace(found.ranking, scores=scores),
        probability=None if p is None else np.where(has, max(CERTAIN, p.max()), p),
        raised=np.where(has, scores - found.ranking.scores, np.nan),
    )


def _main(vectors: Vectors, kind: str) -> Mask:
    """Return which queries have a part of this kind, and give it no smaller weight than another part."""
    if vectors.weights is None:
        return vectors.present[kind]
    most = np.max([np.where(vectors.present[part], w, 0) for part, w in vectors.weights.items()], axis=0)
    return np.asarray(vectors.present[kind] & (vectors.weights[kind] >= most))


def _near(snapshot: Snapshot, queries: Vectors, names: Sequence[str], allowed: Allowed | None) -> Iterator[Rows]:
    """Yield the nearest documents of each query, of each modality, by the similarity before biases."""
    asked = folded_queries(snapshot, queries)
    plain = asked.vectors.copy()
    plain[:, snapshot.calibrated.fitted.dim :] = 0
    unbiased = replace(asked, vectors=plain)
    indexes = [index for index in snapshot.all_indexes if index.modality in names]
    found = [of_index(snapshot, index, unbiased, CANDIDATES, allowed) for index in indexes]
    for row in range(len(queries)):
        yield np.concatenate([np.empty(0, np.int64), *(several[row].documents for several in found)])


def _cosines(store: Store, kind: str, query: Matrix, documents: Rows) -> dict[int, float]:
    """Return the raw cosine of a part of a query with the nearest part of each document that has the kind."""
    unit = query / np.linalg.norm(query)
    own = {
        row: [float(unit @ one.vector / np.linalg.norm(one.vector)) for one in segments if one.name == kind]
        for row, segments in store.segments(documents.tolist()).items()
    }
    return {row: round(max(cosines), DIGITS) for row, cosines in own.items() if cosines}
