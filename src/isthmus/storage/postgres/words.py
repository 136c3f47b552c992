"""BM25 over the documents' texts, with the numbers of SQLite's FTS5.

    BM25(q, d) = Σ over the words w of q of idf(w) · f · (k₁ + 1) / (f + k₁ · (1 − b + b · |d| / avg |d|))

The table ``words`` has f, how often a word occurs in a document, and |d|, how many words the document has. Tokens and
stems are made by FTS5 itself, when a document is stored. What a query calls one word may be several tokens, as
``ab_cd``: those are looked for one after the other, in the texts of the documents that have them all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from isthmus.storage.base import Found
from isthmus.storage.postgres.database import PostgresDatabase
from isthmus.storage.postgres.filters import Sql, compiled
from isthmus.storage.postgres.pool import Connection
from isthmus.storage.postgres.texts import texts_of
from isthmus.storage.where import Condition
from isthmus.words import attainable
from isthmus.words.query import K1
from isthmus.words.tokens import Tokenizer

B = 0.75  # FTS5's own, as K1
LEAST = 1e-6  # of an idf

SCORES = f"""
WITH asked AS (SELECT * FROM unnest(%s::text[], %s::float8[]) AS q (term, times)),
known AS (SELECT term, times, greatest(ln((%s - n + 0.5) / (n + 0.5)), {LEAST}) AS idf FROM (
  SELECT q.term, q.times, (SELECT count(*) FROM words w WHERE w.term = q.term)::float8 AS n FROM asked q) AS counted
  WHERE n > 0)
SELECT w.document,
  sum(k.times * k.idf * w.count * {K1 + 1} / (w.count + {K1} * ({1 - B} + {B} * w.tokens / %s))) AS score
FROM known k JOIN words w ON w.term = k.term {{join}} WHERE {{where}}
GROUP BY w.document ORDER BY score DESC, w.document
"""
COUNTS = "SELECT count(*) FROM words WHERE term = ANY(%s) GROUP BY term"
HAVE_ALL = "SELECT document FROM words WHERE term = ANY(%s) GROUP BY document HAVING count(*) = %s"
PASSING = "SELECT d.row FROM documents d WHERE d.row = ANY(%s) AND ({where})"


@dataclass(frozen=True, slots=True, eq=False)
class PostgresWords:
    """The table ``words``."""

    database: PostgresDatabase
    tokenizer: Tokenizer = field(default_factory=Tokenizer)

    def search(self, words: Sequence[str], k: int, where: Condition | None = None) -> Found:
        """Return the ``k`` best documents by BM25 that pass a filter."""
        return self._found(words, None if where is None else compiled(where), k)

    def search_among(self, words: Sequence[str], documents: Sequence[int]) -> Found:
        """Return those of these documents that share words with a query."""
        return self._found(words, Sql("d.row = ANY(%s)", ([int(row) for row in documents],)), None)

    def _found(self, words: Sequence[str], only: Sql | None, k: int | None) -> Found:
        if not words:
            return Found([], np.empty(0))
        manifest = self.database.manifest("texts", "tokens")
        total, mean = int(manifest["texts"]), int(manifest["tokens"]) / max(int(manifest["texts"]), 1)
        split = self.tokenizer.tokens(list(words))
        phrases = [tokens for tokens in split if len(tokens) > 1]
        limit = None if phrases else k
        scores = self._scores([tokens[0] for tokens in split if len(tokens) == 1], (total, mean), only, limit)
        for tokens in phrases:
            for row, score in self._phrase(tokens, (total, mean), only):
                scores[row] = scores.get(row, 0.0) + score
        best = sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[:k]
        terms = sorted({term for tokens in split for term in tokens})
        most = attainable(total, [int(n) for (n,) in self.database.all(COUNTS, terms)])
        return Found([row for row, _ in best], np.array([score for _, score in best]) / max(most, 1e-9))

    def _scores(self, terms: list[str], sizes: tuple[int, float], only: Sql | None, k: int | None) -> dict[int, float]:
        """Return the scores of the documents that have one of these terms, the best first."""
        times = Counter(terms)
        join = "" if only is None else "JOIN documents d ON d.row = w.document"
        statement = SCORES.format(join=join, where="TRUE" if only is None else only.text)
        values: list[Any] = [list(times), list(map(float, times.values())), sizes[0], sizes[1] or 1.0]
        values += [] if only is None else only.values
        if k is not None:
            statement, values = f"{statement} LIMIT %s", [*values, k]
        return dict(self.database.all(statement, *values))

    def _phrase(self, tokens: list[str], sizes: tuple[int, float], only: Sql | None) -> list[tuple[int, float]]:
        """Return the scores of the documents that have these tokens one after the other."""
        rows = [row for (row,) in self.database.all(HAVE_ALL, sorted(set(tokens)), len(set(tokens)))]
        texts = texts_of(self.database, rows)
        split = dict(zip(texts, self.tokenizer.tokens(list(texts.values())), strict=True))
        times = {row: count for row, words in split.items() if (count := _occurrences(tokens, words))}
        idf = max(float(np.log((sizes[0] - len(times) + 0.5) / (len(times) + 0.5))), LEAST)
        if only is not None:
            statement = PASSING.format(where=only.text)
            passing = {row for (row,) in self.database.all(statement, list(times), *only.values)}
            times = {row: count for row, count in times.items() if row in passing}
        length = {row: 1 - B + B * len(split[row]) / (sizes[1] or 1.0) for row in times}
        return [(row, idf * count * (K1 + 1) / (count + K1 * length[row])) for row, count in times.items()]


def _occurrences(tokens: list[str], words: list[str]) -> int:
    """Count where tokens stand one after the other.

    >>> _occurrences(["a", "b"], ["a", "b", "c", "a", "b"])
    2
    """
    size = len(tokens)
    return sum(words[at : at + size] == tokens for at in range(len(words) - size + 1))


def insert(connection: Connection, texts: Mapping[int, Sequence[str]]) -> None:
    """Store the tokens of documents' texts, by row, and count them."""
    with connection.cursor() as cursor, cursor.copy("COPY words (term, document, count, tokens) FROM STDIN") as copy:
        for row, tokens in texts.items():
            for term, times in Counter(tokens).items():
                copy.write_row((term, row, times, len(tokens)))
    count(connection, len(texts), sum(map(len, texts.values())))


def remove(connection: Connection, rows: Sequence[int]) -> None:
    """Delete the words of documents, before these are deleted."""
    totals = "SELECT count(tokens), coalesce(sum(tokens), 0) FROM documents WHERE row = ANY(%s)"
    texts, tokens = connection.execute(totals, (list(rows),)).fetchall()[0]
    connection.execute("DELETE FROM words WHERE document = ANY(%s)", (list(rows),))
    count(connection, -texts, -tokens)


def count(connection: Connection, texts: int, tokens: int) -> None:
    """Count texts and their words in the manifest."""
    statement = "UPDATE manifest SET value = to_jsonb(value::bigint + %s) WHERE name = %s"
    with connection.cursor() as cursor:
        cursor.executemany(statement, [(texts, "texts"), (int(tokens), "tokens")])
