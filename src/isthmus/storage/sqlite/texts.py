"""BM25 over texts that are held in memory, with FTS5's own scores."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from threading import Lock

import numpy as np

from isthmus.storage.base import Found
from isthmus.storage.sqlite.words import best_possible
from isthmus.words import TOKENS


class WordsInMemory:
    """An index of the words of some texts, by number."""

    def __init__(self, texts: Mapping[int, str | None]) -> None:
        self._lock = Lock()
        self._total = len(texts)
        self._connection = sqlite3.connect(":memory:", check_same_thread=False)
        run = self._connection.execute
        run(f"CREATE VIRTUAL TABLE words USING fts5 (text, content = '', tokenize = '{TOKENS}')")
        run("CREATE VIRTUAL TABLE terms USING fts5vocab (words, 'row')")
        self._connection.executemany("INSERT INTO words (rowid, text) VALUES (?, ?)", texts.items())

    def search(self, words: Sequence[str], k: int | None, rows: Sequence[int] | None = None) -> Found:
        """Return the ``k`` best texts by BM25, or all that share a word, of some rows or of all."""
        if not words:
            return Found([], np.empty(0))
        match = " OR ".join(f'"{word}"' for word in words)
        among = "" if rows is None else "AND +rowid IN (SELECT value FROM json_each(?)) "
        order = "" if k is None else "ORDER BY rank LIMIT ?"
        values = [match, *([] if rows is None else [json.dumps(list(rows))]), *([] if k is None else [k])]
        with self._lock:
            statement = f"SELECT rowid, -bm25(words) FROM words WHERE words MATCH ? {among}{order}"
            found = self._connection.execute(statement, values).fetchall()
            most = best_possible(self._connection, words, self._total)
        return Found([row for row, _ in found], np.array([score for _, score in found]) / max(most, 1e-9))
