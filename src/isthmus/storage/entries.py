"""Whole documents out of a store, as another store takes them, and checksums of what a store holds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from isthmus import checksums
from isthmus.storage.base import Entry
from isthmus.storage.protocols import Store
from isthmus.storage.segments import blob


class Fingerprint(NamedTuple):
    """SHA-256 of a document, of its parts and of its raw vectors."""

    documents: bytes  # id, metadata, and the file it came from
    parts: bytes  # kinds, content and hashes, in their order
    vectors: bytes  # numbers, names, spans and parts, in their order


@dataclass(slots=True)
class Totals:
    """How many documents, parts and vectors there are, and their SHA-256 in the order of the documents."""

    documents: int = 0
    parts: int = 0
    vectors: int = 0
    _hashes: dict[str, Any] = field(default_factory=lambda: {name: hashlib.sha256() for name in Fingerprint._fields})

    def add(self, entry: Entry, fingerprint: Fingerprint) -> None:
        """Count a document."""
        self.documents += 1
        self.parts += len(entry.document.parts)
        self.vectors += len(entry.segments)
        for name, digest in fingerprint._asdict().items():
            self._hashes[name].update(digest)

    @property
    def sha256(self) -> dict[str, str]:
        """The checksums of documents, parts and vectors as hexadecimal digits."""
        return {name: hashed.hexdigest() for name, hashed in self._hashes.items()}


def entries(store: Store, rows: Sequence[int]) -> list[Entry]:
    """Return the documents in these rows, all of which must exist, with everything that is stored of them."""
    documents, described = store.documents(rows), store.described(rows)
    segments, origins = store.segments(rows), store.origins(rows)
    return [
        Entry(
            documents[row] if row in documents else store.document(row),  # which says what is wrong with it
            segments[row],
            described[row].hashes,
            described[row].own_hash,
            *origins[row],
        )
        for row in rows
    ]


def size(entry: Entry) -> int:
    """Return how many bytes a document's content and vectors take."""
    content = sum(len(part.content) for part in entry.document.parts)
    return content + sum(segment.vector.nbytes for segment in entry.segments)


def fingerprint(entry: Entry) -> Fingerprint:
    """Return the checksums of a document; every engine that holds it gives the same."""
    document = entry.document
    hashes = entry.hashes or [None] * len(document.parts)
    parts = (
        value for part, known in zip(document.parts, hashes, strict=True) for value in (part.kind, part.content, known)
    )
    vectors = (
        value
        for one in entry.segments
        for value in (
            *map(int, one.parts),
            one.name,
            *map(_number, (one.start, one.stop)),
            bool(one.own),
            blob(one.vector),
        )
    )
    about = (document.id, json.dumps(document.metadata), entry.own_hash, entry.unit, entry.run)
    return Fingerprint(*(hashlib.sha256(checksums.packed(*values)).digest() for values in (about, parts, vectors)))


def _number(value: float | None) -> float | None:
    """Return a number as every engine returns it."""
    return None if value is None else float(value)
