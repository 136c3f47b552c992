"""The tokens of texts, exactly as FTS5 makes them: words in lower case, without accents, English ones by their stem.

>>> Tokenizer().tokens(["Two cats, sleeping", "a café"])
[['two', 'cat', 'sleep'], ['a', 'cafe']]
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from threading import Lock

from isthmus.words.query import TOKENS


class Tokenizer:
    """Splits texts into tokens, several at a time."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._database = sqlite3.connect(":memory:", check_same_thread=False)
        run = self._database.execute
        run(f"CREATE VIRTUAL TABLE words USING fts5 (text, content = '', tokenize = '{TOKENS}')")
        run("CREATE VIRTUAL TABLE terms USING fts5vocab (words, 'instance')")

    def tokens(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the tokens of each text, in their order."""
        found: list[list[str]] = [[] for _ in texts]
        rows = ((row, text.encode("utf-8", "replace").decode()) for row, text in enumerate(texts, start=1))
        with self._lock:
            try:
                self._database.executemany("INSERT INTO words (rowid, text) VALUES (?, ?)", rows)
                for row, term in self._database.execute("SELECT doc, term FROM terms ORDER BY doc, offset"):
                    found[row - 1].append(term)
            finally:
                self._database.rollback()
        return found
