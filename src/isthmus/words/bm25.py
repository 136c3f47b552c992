"""BM25 over plain texts, exactly as in a collection (SQLite's FTS5).

    BM25(q, d) = Σ over the words w of q of BM25(w, d)

BM25 is a sum over the query's words, so the term of a word, for every text that has it, is computed by FTS5 once and
cached. After that a query is a few additions, and its scores equal FTS5's to the last bit: the same tokens, stems and
constants.

>>> TextIndex(["a cat on a red sofa", "two dogs", "a cat asleep"]).scores("dog").round(2).tolist()
[0.0, 0.63, 0.0]
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from threading import RLock

import numpy as np

from isthmus.types import Matrix, Rows
from isthmus.words.query import TOKENS, query_words


class TextIndex:
    """An index of texts, in memory."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._size = len(texts)
        self._lock = RLock()
        self._shares: dict[str, tuple[Rows, Matrix]] = {}
        self._database = sqlite3.connect(":memory:", check_same_thread=False)
        self._database.execute(f"CREATE VIRTUAL TABLE words USING fts5 (text, content = '', tokenize = '{TOKENS}')")
        written = ((row, text.encode("utf-8", "replace").decode()) for row, text in enumerate(texts) if text)
        self._database.executemany("INSERT INTO words (rowid, text) VALUES (?, ?)", written)

    def __len__(self) -> int:
        return self._size

    def scores(self, query: str) -> Matrix:
        """Return the BM25 score of each text, ``(n,)``; 0 if no word is shared."""
        scores = np.zeros(self._size)
        for word in query_words(query):
            rows, share = self._share(word)
            scores[rows] += share
        return scores

    def _share(self, word: str) -> tuple[Rows, Matrix]:
        """Return the texts that have a word, and what it adds to their scores."""
        if word not in self._shares:
            statement = "SELECT rowid, -bm25(words) FROM words WHERE words MATCH ?"
            with self._lock:
                found = self._database.execute(statement, (f'"{word}"',)).fetchall()
            rows, share = zip(*found, strict=True) if found else ((), ())
            self._shares[word] = np.array(rows, dtype=np.intp), np.array(share, dtype=np.float64)
        return self._shares[word]
