"""BM25 over the documents' texts, by SQLite's FTS5."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from isthmus.errors import BadFile
from isthmus.storage.base import Found
from isthmus.storage.sqlite.database import Database
from isthmus.storage.sqlite.filters import compiled
from isthmus.storage.where import Condition
from isthmus.words import TOKENS, attainable


@dataclass(frozen=True, slots=True, eq=False)
class SqliteWords:
    """The tables ``words`` and ``terms``."""

    database: Database

    def search(self, words: Sequence[str], k: int, where: Condition | None = None) -> Found:
        """Return the ``k`` best documents by BM25 that pass a filter."""
        if where is None:
            return self._found(words, "ORDER BY rank LIMIT ?", k)
        rows = compiled(where)
        return self._found(words, f"AND +rowid IN ({rows.sql}) ORDER BY rank LIMIT ?", *rows.values, k)

    def search_among(self, words: Sequence[str], documents: Sequence[int]) -> Found:
        """Return those of these documents that share words with a query."""
        return self._found(words, "AND +rowid IN (SELECT value FROM json_each(?))", json.dumps(documents))

    def _found(self, words: Sequence[str], rest: str, *values: Any) -> Found:
        if not words:
            return Found([], np.empty(0))
        match = " OR ".join(f'"{word}"' for word in words)
        # with a plain rowid, FTS5 would start again for each; the plus sign makes it read the matches once
        rows = self.database.all(f"SELECT rowid, -bm25(words) FROM words WHERE words MATCH ? {rest}", match, *values)
        total = int(self.database.one("SELECT count(*) FROM words_docsize")[0])
        with self.database.connected() as connection:
            most = best_possible(connection, words, total)
        return Found([row for row, _ in rows], np.array([score for _, score in rows]) / max(most, 1e-9))


def best_possible(connection: sqlite3.Connection, words: Sequence[str], total: int) -> float:
    """Return the upper bound of the BM25 score among ``total`` texts: every word of the query, many times."""
    run = connection.execute
    run(f"CREATE VIRTUAL TABLE IF NOT EXISTS temp.question USING fts5 (text, tokenize = '{TOKENS}')")
    run("CREATE VIRTUAL TABLE IF NOT EXISTS temp.question_terms USING fts5vocab (temp, question, 'row')")
    run("DELETE FROM temp.question")
    run("INSERT INTO temp.question VALUES (?)", (" ".join(words),))
    # CROSS JOIN keeps the order: look up the query's few words instead of scanning all words of the collection
    terms = "SELECT t.doc FROM temp.question_terms q CROSS JOIN main.terms t ON t.term = q.term"
    counts = run(terms).fetchall()
    return attainable(total, (n for (n,) in counts))


def words_match(database: Database) -> bool:
    """Whether the word index matches the texts, and every word can be looked up.

    The first is SQLite's own check, which has the form of an INSERT and changes nothing. It does not look up words.
    """
    try:
        with database.writing() as connection:
            connection.execute("INSERT INTO words (words, rank) VALUES ('integrity-check', 1)")  # 1: with the texts
    except BadFile:
        return False
    with database.reading(), database.connected() as connection:
        for term, documents in connection.execute("SELECT term, doc FROM terms"):
            found = connection.execute("SELECT doc FROM terms WHERE term = ?", (term,)).fetchone()
            if found is None or found[0] != documents:
                return False
    return True
