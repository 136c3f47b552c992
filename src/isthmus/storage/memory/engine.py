"""Transactions and snapshots over plain dictionaries.

The committed state is one immutable ``Contents`` behind one pointer. A transaction changes a copy, which replaces the
committed state in one step; a snapshot keeps the state that it started with.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock, RLock, local
from typing import Any

from isthmus.documents import Document
from isthmus.errors import Closed
from isthmus.storage.base import Entry, StoredCalibration

NAME = ":memory:"
COPIED = ("manifest", "documents", "rows", "gone", "states", "units", "skipped", "calibrations", "queries")


@dataclass(frozen=True, slots=True, eq=False)
class StoredDocument:
    """A document as it is kept: itself, its vectors, where it came from, and its metadata as JSON."""

    entry: Entry
    metadata: str
    facts: frozenset[tuple[str, Any]]

    @property
    def document(self) -> Document:
        """The document itself."""
        return self.entry.document


@dataclass(frozen=True, slots=True)
class StoredUnit:
    """A file that documents came from."""

    root: str
    key: str
    stamp: str | None = None
    run: int | None = None


@dataclass(slots=True, eq=False)
class Contents:
    """The contents of a collection. Committed contents never change."""

    manifest: dict[str, Any] = field(default_factory=dict)
    documents: dict[int, StoredDocument] = field(default_factory=dict)  # by row, which only grows
    rows: dict[str, int] = field(default_factory=dict)  # by id
    gone: dict[int, int] = field(default_factory=dict)  # row → the change that removed it
    states: dict[int, str] = field(default_factory=dict)  # change → token
    units: dict[int, StoredUnit] = field(default_factory=dict)
    skipped: list[tuple[str, str, str, str]] = field(default_factory=list)  # root, key, place, why
    calibrations: dict[int, StoredCalibration] = field(default_factory=dict)
    queries: list[tuple[str, str]] = field(default_factory=list)  # time, text
    next_row: int = 1
    next_version: int = 1

    def copy(self) -> Contents:
        """Return a copy for a transaction."""
        new = Contents(next_row=self.next_row, next_version=self.next_version)
        for name in COPIED:
            setattr(new, name, getattr(self, name).copy())
        return new

    def changed(self) -> None:
        """Count a change of the documents, and give their state a token."""
        self.manifest["sequence"] += 1
        self.states[self.manifest["sequence"]] = secrets.token_hex(16)


class MemoryEngine:
    """Holds the committed contents; several stores may share one."""

    def __init__(self, contents: Contents | None = None) -> None:
        self.path = Path(NAME)
        self.writable = True
        self.closed = False
        self.contents = contents or Contents({"schema": 0, "sequence": 0}, states={0: secrets.token_hex(16)})
        self.lock = RLock()
        self.building = Lock()
        self._thread = local()

    @property
    def now(self) -> Contents:
        """The state that this thread sees: of its own transaction, its snapshot, or the committed one."""
        if self.closed:
            raise Closed("This collection was closed, and what it held in memory is gone.")
        return getattr(self._thread, "draft", None) or getattr(self._thread, "snapshot", None) or self.contents

    def read_only(self) -> None:
        """Return None: this process may write."""

    def check_place(self) -> None:
        """Do nothing: there is no file that could be deleted."""

    def manifest(self, *names: str) -> dict[str, Any]:
        """Return the values of these names in the manifest, if they exist; without names, all values."""
        return {name: value for name, value in self.now.manifest.items() if not names or name in names}

    def put(self, transaction: Contents, /, **values: object) -> None:
        """Set values of the manifest."""
        transaction.manifest |= values

    def sequence(self) -> int:
        """Return how many transactions have changed documents."""
        return int(self.now.manifest["sequence"])

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Read one state: everything this thread reads inside is as of the last transaction committed before."""
        if getattr(self._thread, "snapshot", None) is not None:
            yield
            return
        with self.held() as within, within():
            yield

    @contextmanager
    def held(self) -> Iterator[Callable[[], AbstractContextManager[None]]]:
        """Hold one state for later reads: each read is inside ``with`` the returned function."""
        contents = self.now
        yield lambda: self._using(contents)

    @contextmanager
    def _using(self, contents: Contents) -> Iterator[None]:
        before, self._thread.snapshot = getattr(self._thread, "snapshot", None), contents
        try:
            yield
        finally:
            self._thread.snapshot = before

    @contextmanager
    def writing(self) -> Iterator[Contents]:
        """Run a transaction: all of it, or nothing."""
        with self.lock:
            if self.closed:
                raise Closed("This collection was closed, and what it held in memory is gone.")
            self._thread.draft = self.contents.copy()
            try:
                yield self._thread.draft
                self.contents = self._thread.draft
            finally:
                self._thread.draft = None

    def close(self) -> None:
        """Forget everything."""
        self.closed = True
        self.contents = Contents()
