"""Words: BM25 over the documents' texts (SQLite's FTS5), and how it joins the vectors' score.

A document without text has no lexical signal: it is *missing*, and the document keeps the score that its vectors give.
A document with text that shares no word with the query has the signal, and it is 0.

    l(q, d)      = BM25(q, d) / Σ over the query's words of idf · (k₁ + 1)      in 0 … 1: the share of what could be had
    hybrid(q, d) = score(q, d) + w · σ · (l(q, d) − μ_M) / σ_M                   where d, of modality M, has text
    hybrid(q, d) = score(q, d)                                                   where it has none

μ_M and σ_M are the mean and deviation of l over the documents of modality M that come nearest to reference queries
without being their source: a text as wordy as such neighbours usually are gains nothing over a picture, a text that
shares more words rises, one that shares fewer sinks. σ is the deviation of reference queries' best scores.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from isthmus.search import filters
from isthmus.search.database import Database
from isthmus.search.schema import TOKENS
from isthmus.types import Matrix

WORD = re.compile(r"\w+")
MOST = 256  # words of a query that are looked up: a long message with its captions
K1 = 1.2  # FTS5's own
WEIGHT = 0.75


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """The documents that share words with a query, best first, and their share of what could be had."""

    documents: list[int]
    share: Matrix

    def joined(self, other: Found) -> Found:
        """Return the documents of both."""
        return Found([*self.documents, *other.documents], np.concatenate([self.share, other.share]))

    def of(self, documents: Sequence[int]) -> Matrix:
        """Return the share of each of these documents; 0 where no word is shared."""
        table = dict(zip(self.documents, self.share.tolist(), strict=True))
        return np.array([table.get(int(row), 0.0) for row in documents])


def words(text: str) -> list[str]:
    """Return the different words of a query, in their order.

    >>> words("A cat, a CAT & a dog!")
    ['a', 'cat', 'dog']
    """
    return list(dict.fromkeys(word.lower() for word in WORD.findall(text)))[:MOST]


def search(database: Database, text: str, k: int, where: Mapping[str, Any] | None = None) -> Found:
    """Return the ``k`` documents that BM25 puts first, of those that a filter lets through."""
    if not where:
        return _found(database, text, "ORDER BY rank LIMIT ?", k)
    condition = filters.compiled(where)
    return _found(database, text, f"AND +rowid IN ({condition.sql}) ORDER BY rank LIMIT ?", *condition.values, k)


def search_among(database: Database, text: str, documents: Sequence[int]) -> Found:
    """Return those of these documents that share words with a query."""
    return _found(database, text, "AND +rowid IN (SELECT value FROM json_each(?))", json.dumps(documents))


def _found(database: Database, text: str, rest: str, *values: Any) -> Found:
    asked = words(text)
    if not asked:
        return Found([], np.empty(0))
    match = " OR ".join(f'"{word}"' for word in asked)
    # a plain rowid would have FTS5 begin again for each: the plus sign has it read the matches once
    rows = database.all(f"SELECT rowid, -bm25(words) FROM words WHERE words MATCH ? {rest}", match, *values)
    most = _most(database, asked)
    return Found([row for row, _ in rows], np.array([score for _, score in rows]) / max(most, 1e-9))


def _most(database: Database, asked: Sequence[str]) -> float:
    """Return the BM25 score that a document with every word of the query, many times over, comes near to."""
    total = int(database.one("SELECT count(*) FROM words_docsize")[0])
    with database.connected() as connection:
        run = connection.execute
        run(f"CREATE VIRTUAL TABLE IF NOT EXISTS temp.question USING fts5 (text, tokenize = '{TOKENS}')")
        run("CREATE VIRTUAL TABLE IF NOT EXISTS temp.question_terms USING fts5vocab (temp, question, 'row')")
        run("DELETE FROM temp.question")
        run("INSERT INTO temp.question VALUES (?)", (" ".join(asked),))
        # CROSS JOIN keeps the order: the query's few words are looked up, not the collection's many read through
        counts = run("SELECT t.doc FROM temp.question_terms q CROSS JOIN main.terms t ON t.term = q.term").fetchall()
    return sum(max(float(np.log((total - n + 0.5) / (n + 0.5))), 1e-6) * (K1 + 1) for (n,) in counts)


@dataclass(frozen=True, slots=True)
class Hybrid:
    """How much words count beside scores."""

    deviation: float  # of reference queries' best scores
    modality: Mapping[str, tuple[float, float]]  # mean and deviation of the share of near documents
    weight: float = WEIGHT

    def joined(self, scores: Matrix, share: Matrix, modality: Sequence[str]) -> Matrix:
        """Return the hybrid scores of documents; a share of NaN is missing."""
        mean, deviation = np.array([self.modality.get(name, (0.0, 1.0)) for name in modality]).reshape(-1, 2).T
        gain = self.weight * self.deviation * (share - mean) / deviation
        return np.asarray(scores + np.where(np.isnan(share), 0.0, gain))


def moments(values: Sequence[float] | Matrix) -> tuple[float, float]:
    """Return mean and deviation; a deviation of 1 where it cannot be told."""
    array = np.asarray(values, dtype=np.float64)
    if len(array) < 2 or array.std() < 1e-9:
        return (float(array.mean()) if len(array) else 0.0, 1.0)
    return float(array.mean()), float(array.std())
