"""An encoder whose documents are encoded on other machines, ahead of the one that asks for their vectors.

Documents are announced as they are read (``expect``) and sent away in pieces. ``encode_passages`` collects their
vectors in the order in which they are stored. Files go along as bytes, so the machines need not see the disk, unless
they are larger than ``SENT_BYTES``: those are sent by their path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from threading import Lock
from typing import Any, Protocol, TypeAlias

import numpy as np

from isthmus.documents import Document, Query
from isthmus.encoders import Encoder, open_named
from isthmus.encoders.abilities import SplitsParts
from isthmus.encoders.base import Skip
from isthmus.encoders.runtime import Runtime
from isthmus.errors import BadInput
from isthmus.files import read_regular
from isthmus.kinds import TEXT, Part
from isthmus.types import Rows, Vectors

PIECE = 32  # documents that are sent together
SENT_BYTES = 32 << 20  # of one file, at most; and of the files of a piece
PIECES_AHEAD = 3  # for each piece of work that runs

Origin: TypeAlias = Encoder | tuple[str, Runtime]  # the encoder itself, or its name and how it runs
Encoded: TypeAlias = tuple[Vectors | None, Rows, list[tuple[int, BadInput]]]  # rows, their documents, those skipped


class Machines(Protocol):
    """What starts work elsewhere: ``Cluster``."""

    @property
    def width(self) -> int:
        """How many pieces of work run at the same time."""

    def share(self, value: object) -> Any:
        """Send a value once."""

    def start(self, work: Any, item: object) -> Any:
        """Start shared work on an item."""

    def result(self, started: Any) -> Any:
        """Wait for what was started."""


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Documents that were sent away, and what waits for their vectors."""

    started: Any
    count: int


@dataclass(slots=True, eq=False)
class ClusterEncoder:
    """An encoder around another one: queries are encoded here, documents on the cluster."""

    machines: Machines
    encoder: Encoder
    work: Any  # encodes a piece; shared
    ahead: int
    sent: int = 0  # documents so far
    _waiting: list[Document] = field(default_factory=list, repr=False)
    _places: dict[tuple[Part, ...], tuple[Piece, int]] = field(default_factory=dict, repr=False)
    _lock: Lock = field(default_factory=Lock, repr=False)

    @classmethod
    def of(cls, machines: Machines, encoder: Encoder, origin: Origin) -> ClusterEncoder:
        """Put an encoder on machines; one that splits parts keeps that ability."""
        kind = _SplittingEncoder if isinstance(encoder, SplitsParts) else cls
        work = machines.share(EncodePiece(origin))
        return kind(machines, encoder, work, PIECES_AHEAD * PIECE * machines.width)

    @property
    def name(self) -> str:
        """The name of the encoder."""
        return self.encoder.name

    @property
    def identity(self) -> str:
        """Its identity: the vectors are the same."""
        return self.encoder.identity

    @property
    def dim(self) -> int:
        """The number of dimensions of a vector."""
        return self.encoder.dim

    @property
    def modalities(self) -> tuple[str, ...]:
        """The modalities it accepts."""
        return self.encoder.modalities

    def expect(self, documents: Sequence[Document]) -> None:
        """Send documents away as soon as there are enough of them."""
        with self._lock:
            self._waiting += [document for document in documents if document.parts not in self._places]
            if len(self._waiting) >= PIECE:
                self._send()

    def _send(self) -> None:
        """Send what is waiting, in pieces; each content once."""
        several = list({document.parts: document for document in self._waiting}.values())
        self._waiting = []
        while several:
            some = [_inline(document) for document in several[:PIECE]]
            piece = Piece(self.machines.start(self.work, some), len(some))
            self._places |= {document.parts: (piece, place) for place, document in enumerate(several[:PIECE])}
            self.sent += len(some)
            several = several[PIECE:]

    def encode_passages(self, documents: Sequence[Document], *, skip: Skip | None = None) -> tuple[Vectors, Rows]:
        """Collect the vectors of documents; those that were not expected are sent now."""
        with self._lock:
            waiting = {document.parts for document in self._waiting}
            self._waiting += [one for one in documents if one.parts not in self._places and one.parts not in waiting]
            self._send()
            places = [self._places[document.parts] for document in documents]
            for document in documents:
                self._places.pop(document.parts, None)
        found: dict[int, Encoded] = {}
        rows: list[Vectors] = []
        owner: list[int] = []
        for at, (piece, place) in enumerate(places):
            if id(piece) not in found:
                found[id(piece)] = self.machines.result(piece.started)
            vectors, owners, skipped = found[id(piece)]
            problem = next((error for number, error in skipped if number == place), None)
            if problem is not None:
                if skip is None:
                    raise problem
                skip(at, problem)
            elif vectors is not None:
                mine = vectors.take(np.flatnonzero(owners == place))
                rows.append(mine)
                owner += [at] * len(mine)
        if not rows:
            nothing = Vectors({TEXT: np.zeros((0, self.dim), np.float32)}, {TEXT: np.zeros(0, bool)})
            return nothing, np.zeros(0, dtype=np.intp)
        return Vectors.concat(rows), np.array(owner, dtype=np.intp)

    def encode_documents(self, documents: Sequence[Document]) -> Vectors:
        """Return one row per document, encoded here."""
        return self.encoder.encode_documents(documents)

    def encode_queries(self, queries: Sequence[Query | str]) -> Vectors:
        """Return one row per query, encoded here."""
        return self.encoder.encode_queries(queries)

    def split(self, text: str) -> list[tuple[int, int]]:
        """Return the passages of a text."""
        return self.encoder.split(text)


class _SplittingEncoder(ClusterEncoder):
    """The same around an encoder that splits parts of other kinds than text."""

    __slots__ = ()

    def split_part(self, part: Part) -> list[tuple[float, float]]:
        """Return the segments of a part."""
        if not isinstance(self.encoder, SplitsParts):
            return []
        return self.encoder.split_part(part)


@dataclass(frozen=True, slots=True)
class EncodePiece:
    """What runs on a machine: it loads the encoder once per process."""

    origin: Origin

    def __call__(self, documents: Sequence[Document]) -> Encoded:
        """Encode documents; those that cannot be encoded are listed with the reason."""
        encoder = _loaded(*self.origin) if isinstance(self.origin, tuple) else self.origin
        skipped: dict[int, BadInput] = {}

        def skip(row: int, problem: BadInput) -> None:
            skipped.setdefault(row, problem)

        vectors, owner = encoder.encode_passages(documents, skip=skip)
        return vectors if len(owner) else None, owner, list(skipped.items())


@cache
def _loaded(name: str, runtime: Runtime) -> Encoder:
    return open_named(name, runtime.settings)


def _inline(document: Document) -> Document:
    """Return a document whose files are bytes; a file that is too large, or cannot be read, stays a path."""
    room = SENT_BYTES
    parts: list[Part] = []
    for part in document.parts:
        data = None if part.path is None else _read(part.path, room)
        room -= len(data or b"")
        parts.append(part if data is None else Part.restored(part.kind, data))
    return Document.restored(document.id, parts, {}, {})


def _read(path: str, room: int) -> bytes | None:
    try:
        return read_regular(path, room)
    except (OSError, ValueError):
        return None  # the encoder reports it
