"""The top of each modality's index, mapped and merged, is the top of the whole.

A document's score is that of its best passage, so a index is asked for more rows until enough different documents
came. Equal scores are in the order in which the documents were added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from isthmus.errors import BadInput
from isthmus.kinds import KINDS, atoms
from isthmus.registry import lookup
from isthmus.search.allowed import Allowed
from isthmus.search.published_index import PublishedIndex
from isthmus.search.snapshot import ModalityIndex, Snapshot
from isthmus.types import Folded, Matrix, Rows, Vectors


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """One query's documents, best first."""

    documents: Rows  # rows in the store
    passages: Rows  # the passage that scored best
    scores: Matrix
    inner: Matrix
    modality: list[str]

    def __len__(self) -> int:
        return len(self.documents)

    def take(self, places: Rows) -> Ranking:
        """Return the documents at these places, in this order."""
        modality = [self.modality[place] for place in places]
        return Ranking(self.documents[places], self.passages[places], self.scores[places], self.inner[places], modality)

    def joined(self, other: Ranking) -> Ranking:
        """Return the documents of both, those of the other after these."""
        return Ranking(
            np.concatenate([self.documents, other.documents]),
            np.concatenate([self.passages, other.passages]),
            np.concatenate([self.scores, other.scores]),
            np.concatenate([self.inner, other.inner]),
            [*self.modality, *other.modality],
        )


def ranked(
    snapshot: Snapshot,
    queries: Vectors,
    k: int,
    *,
    allowed: Allowed | None = None,
    modalities: Sequence[str] | None = None,
) -> list[Ranking]:
    """Return the ``k`` best documents of each query."""
    found = by_index(snapshot, queries, k, allowed=allowed, modalities=modalities)
    return [merged(several, k) for several in found]


def by_index(
    snapshot: Snapshot,
    queries: Vectors,
    k: int,
    *,
    allowed: Allowed | None = None,
    modalities: Sequence[str] | None = None,
    biased: bool = True,
) -> list[list[Ranking]]:
    """Return for each query the ``k`` best documents of each index; without biases, by the similarity before them."""
    indexes = [index for index in snapshot.all_indexes if modalities is None or index.modality in modalities]
    asked = folded_queries(snapshot, queries)
    if not biased:
        plain = asked.vectors.copy()
        plain[:, snapshot.calibrated.fitted.dim :] = 0
        asked = replace(asked, vectors=plain)
    found = [
        _of_published(snapshot, index, asked, k, allowed)
        if isinstance(index, PublishedIndex)
        else _of_index(snapshot, index, asked, k, allowed)
        for index in indexes
    ]
    return [[of_index[row] for of_index in found] for row in range(len(queries))]


def wanted(snapshot: Snapshot, modalities: str | Sequence[str] | None) -> list[str] | None:
    """Return the requested modalities; a name with a minus sign excludes one."""
    if modalities is None:
        return None
    names = [modalities] if isinstance(modalities, str) else modalities
    known = {name: name for name in snapshot.modalities}
    canonical = [
        ("-" if name.startswith("-") else "") + "+".join(sorted(name.lstrip("-").split("+"))) for name in names
    ]
    for name in canonical:
        if not set(atoms(name.lstrip("-"))) <= KINDS.keys():
            lookup(known, name.lstrip("-"), "modality in this collection")
    out = {name[1:] for name in canonical if name.startswith("-")}
    into = {name for name in canonical if not name.startswith("-")}
    if not canonical:
        raise BadInput("modalities is empty: nothing could be found. Leave it out to look everywhere.")
    return [name for name in known if name not in out and (not into or name in into)]


def folded_queries(snapshot: Snapshot, queries: Vectors) -> Folded:
    """Fold queries; a dynamic calibration first looks up each query's best document with its bias off."""
    fitted = snapshot.calibrated.fitted
    if not fitted.spec.dynamic:
        return fitted.fold_queries(queries)
    local = [index for index in snapshot.all_indexes if isinstance(index, ModalityIndex)]
    indexes = [index for index in local if index.active is not None and len(index)]
    sets = next((index.active.shape[2] for index in indexes if index.active is not None), 1)
    active = np.zeros((len(queries), sets), dtype=bool)
    plain = fitted.fold_queries(queries, active=active)
    best = np.full(len(queries), -np.inf)
    codes = np.array([fitted.query_code(str(name)) for name in queries.modality], dtype=np.intp)
    unbalanced = fitted.with_balance({})
    for index in indexes:
        inner, rows = index.engine.search(plain.vectors, 1, index.alive)
        scores = np.where(rows[:, 0] >= 0, unbalanced.finish(inner, plain.modality, index.modality)[:, 0], -np.inf)
        better = scores > best
        if index.active is not None:
            active[better] = index.active[rows[better, 0], codes[better]]
        best = np.maximum(best, scores)
    return fitted.fold_queries(queries, active=active)


def _of_index(
    snapshot: Snapshot, index: ModalityIndex, asked: Folded, k: int, allowed: Allowed | None
) -> list[Ranking]:
    mask = index.alive
    if allowed is not None:
        may = allowed.mask(index.documents)
        mask = may if mask is None else mask & may
    there = len(index) if mask is None else int(mask.sum())
    rows_asked = min(k, there)
    while rows_asked:
        inner, rows = index.engine.search(asked.vectors, rows_asked, mask)
        fewest = min((len(np.unique(index.documents[r[r >= 0]])) for r in rows), default=k)
        if fewest >= k or rows_asked >= there:
            break
        rows_asked = min(4 * rows_asked, there)
    if not rows_asked:
        return [_EMPTY] * len(asked)
    kinds = set(asked.modality.tolist())
    one = kinds.pop() if len(kinds) == 1 else asked.modality
    scores = snapshot.calibrated.fitted.finish(inner, one, index.modality)
    return [_ranking(index, *one) for one in zip(rows, scores, inner, strict=True)]


def _of_published(
    snapshot: Snapshot, index: PublishedIndex, asked: Folded, k: int, allowed: Allowed | None
) -> list[Ranking]:
    fitted, rankings = snapshot.calibrated.fitted, []
    for kind, found in zip(asked.modality, index.search(asked.vectors, k, allowed), strict=True):
        scores = fitted.finish(found.inner[None, :], str(kind), index.modality)[0]
        documents, passages = found.rows.T
        rankings.append(Ranking(documents, passages, scores, found.inner, [index.modality] * len(scores)))
    return rankings


def _ranking(index: ModalityIndex, rows: Rows, scores: Matrix, inner: Matrix) -> Ranking:
    some = rows >= 0
    documents, passages = index.rows[rows[some]].T
    return Ranking(documents, passages, scores[some], inner[some], [index.modality] * int(some.sum()))


def merged(several: Sequence[Ranking], k: int) -> Ranking:
    """Return the ``k`` best documents of several lists."""
    if not several:
        return _EMPTY
    documents = np.concatenate([one.documents for one in several])
    scores = np.concatenate([one.scores for one in several])
    passages = np.concatenate([one.passages for one in several])
    inner = np.concatenate([one.inner for one in several])
    modality = [name for one in several for name in one.modality]
    order = np.lexsort((documents, -scores))
    first = np.sort(np.unique(documents[order], return_index=True)[1])[:k]  # each document at its best passage
    order = order[first]
    return Ranking(documents, passages, scores, inner, modality).take(order)


_EMPTY = Ranking(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0), np.empty(0), [])
