"""Hubs: documents that are near every query, and so appear for unrelated ones.

In words: count how many top-10 lists contain each document. In random lists all counts would be similar; in practice
a few documents are in very many lists, and others are never found. The skewness of the counts summarises it.

    N_10(d)   = number of queries that have d among their first 10
    expected  = 10 · questions / documents
    skewness  = mean((N − mean N)³) / std(N)³            0: even; 1 above random: a few documents crowd out others
    by lot    = (1 − 2p) / √(questions · p · (1 − p))    with p = 10 / documents: the skewness of random lists

What it means: a query's own source is never counted, so a document is not a hub because it is the right answer.
Reference: Radovanović et al. 2010, *Hubs in Space*, §2 (N_k and its skewness; the population form, as theirs).

>>> lists = np.array([[0, 1], [0, 2], [0, 3], [0, 1]])
>>> occurrences(lists, 5).tolist(), round(skewness(occurrences(lists, 5)), 2)
([4, 2, 1, 1, 0], 0.75)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isthmus.types import Matrix, Rows

WORST = 8  # hubs that are named


@dataclass(frozen=True, slots=True)
class Hub:
    """A document by its number, and how many top-10 lists it is in."""

    document: int
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Hubs:
    """How unevenly documents are found, before and after calibration."""

    questions: int
    expected: float
    skew_by_lot: float
    skew_before: float
    skew_after: float
    never_before: float  # the share of documents that no query found
    never_after: float
    most_before: int
    most_after: int
    worst: tuple[Hub, ...]  # by raw cosine
    worst_after: tuple[Hub, ...]  # after calibration


def occurrences(lists: Rows, documents: int) -> Rows:
    """Return how many of the ``lists``, ``(n, k)``, each document is in; −1 is an empty position."""
    return np.bincount(lists[lists >= 0].ravel(), minlength=documents)


def skewness(counts: Rows | Matrix) -> float:
    """Return the skewness of ``counts``; 0 if all are equal."""
    centred = np.asarray(counts, dtype=np.float64) - np.mean(counts)
    spread = float(np.sqrt(np.mean(centred**2)))
    return float(np.mean(centred**3)) / spread**3 if spread > 0 else 0.0


def by_lot(p: float, questions: int) -> float:
    """Return the skewness of the counts if each document is in each list with probability ``p``.

    With many documents and few queries it is large, because most documents are in no list and some in one.

    >>> round(by_lot(0.1, 100), 2), round(by_lot(0.001, 100), 2)
    (0.27, 3.16)
    """
    spread = questions * p * (1 - p)
    return max(0.0, (1 - 2 * p) / float(np.sqrt(spread))) if spread > 0 else 0.0


def hubs(before: Rows, after: Rows, documents: int, worst: int = WORST) -> Hubs:
    """Compare the lists of the same queries, ``(n, k)`` each."""
    old, new = occurrences(before, documents), occurrences(after, documents)

    def named(counts: Rows) -> tuple[Hub, ...]:
        order = np.lexsort((np.arange(documents), -counts))[:worst]
        return tuple(Hub(int(d), int(old[d]), int(new[d])) for d in order if counts[d] > 0)

    expected = float((before >= 0).sum()) / max(documents, 1)
    return Hubs(
        questions=len(before),
        expected=expected,
        skew_by_lot=by_lot(expected / max(len(before), 1), len(before)),
        skew_before=skewness(old),
        skew_after=skewness(new),
        never_before=float((old == 0).mean()) if documents else 0.0,
        never_after=float((new == 0).mean()) if documents else 0.0,
        most_before=int(old.max(initial=0)),
        most_after=int(new.max(initial=0)),
        worst=named(old),
        worst_after=named(new),
    )
