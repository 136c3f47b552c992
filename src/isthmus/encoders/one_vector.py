"""Encoders that make ONE vector of a text and an image.

    text alone      part ``text``
    image alone     part ``image``
    both            part ``image+text``, one vector for each passage together with the image

A text of several passages is their unit mean in ``encode_documents`` and ``encode_queries``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from isthmus.documents import Document, Query
from isthmus.encoders.base import Role, Settings, Skip, unit
from isthmus.encoders.images import Frame
from isthmus.encoders.items import Given, Items, Refuse, named_queries, names_of, readable, stop, texts_of
from isthmus.encoders.once import EncoderRun, Pending, PictureItem, VectorInput
from isthmus.encoders.texts import TextPassage
from isthmus.errors import BadInput
from isthmus.types import Matrix, Rows, Vectors

Kinds: TypeAlias = NDArray[np.str_]
PARTS = ("image", "image+text", "text")


class PairTower(Protocol):
    """Splits texts into passages, and encodes passages, pictures, and both together."""

    @property
    def frame(self) -> Frame:
        """The size of the pictures it reads."""

    def split(self, texts: Sequence[str], role: Role) -> list[list[TextPassage]]:
        """Return the passages of each text; empty for a text with nothing to read."""

    def launch(self, inputs: Sequence[VectorInput], role: Role) -> Pending:
        """Start to encode; the result waits for one row per input."""


@dataclass(frozen=True, slots=True, eq=False)
class FusedVectors:
    """The vectors of a call's items, ``(passages, d)`` or ``(1, d)`` each, and the part each item is."""

    rows: list[Matrix]
    kinds: Kinds  # (n,): part names


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class OneVectorEncoder:
    """An ``Encoder`` with one vector for text and image."""

    name: str
    dim: int
    identity: str
    tower: PairTower
    settings: Settings

    @property
    def modalities(self) -> tuple[str, ...]:
        """The modalities it accepts, in documents and in queries."""
        return PARTS

    def __repr__(self) -> str:
        return f"<Encoder {self.name}, {self.dim} dimensions: {', '.join(self.modalities)}>"

    def encode_documents(self, documents: Sequence[Document]) -> Vectors:
        """Return one row per document; a long text is the unit mean of its passages, each with the image."""
        return self._one_row_each(self._encode(documents, names_of(documents), "document", stop))

    def encode_queries(self, queries: Sequence[Query | str]) -> Vectors:
        """Return one row per query; a string is a query of words. A long one is a mean, as in documents."""
        given, names = named_queries(queries)
        for query, name in zip(given, names, strict=True):
            if len(set((query.weights or {}).values())) > 1:
                raise BadInput(f"{name}: {self.name} makes one vector of words and picture. Leave the weights out.")
        return self._one_row_each(self._encode(given, names, "query", stop))

    def encode_passages(self, documents: Sequence[Document], *, skip: Skip | None = None) -> tuple[Vectors, Rows]:
        """Return one row per passage, together with the image of its document, and the document of each row."""
        found = self._encode(documents, names_of(documents), "document", skip or stop)
        owner = np.repeat(np.arange(len(found.rows)), [len(rows) for rows in found.rows])
        return self._vectors(np.concatenate([self._none, *found.rows]), found.kinds[owner]), owner

    def split(self, text: str) -> list[tuple[int, int]]:
        """Return the start and end of each passage of a document's text."""
        return [(passage.start, passage.end) for passage in self.tower.split([readable(text)], "document")[0]]

    def _encode(self, items: Items, names: Sequence[str], role: Role, refuse: Refuse) -> FusedVectors:
        given = Given.of(items, self.tower.split(texts_of(items), role), names, refuse)
        given.check(self.name, self.modalities)
        written = {row: passages for row, passages in enumerate(given.passages) if passages}
        pictures = {row: item.image for row, item in enumerate(items) if given.kept[row] and item.image is not None}
        total = sum(map(len, written.values())) + len(pictures)
        identity = f"{self.identity} {role}"  # the same content has another vector as a query
        run = EncoderRun(name=self.name, dim=self.dim, identity=identity, settings=self.settings, total=total)
        shown = {row: PictureItem(image, written.get(row, ())) for row, image in pictures.items()}
        found = run.pictures(lambda inputs: self.tower.launch(inputs, role), self.tower.frame, shown, given.leave_out)
        words = {row: passages for row, passages in written.items() if row not in pictures}
        text = run.texts(
            lambda passages: self.tower.launch([VectorInput(passage) for passage in passages], role),
            [p for each in words.values() for p in each],
        )
        ends = np.cumsum([len(passages) for passages in words.values()], dtype=np.intp)
        found |= dict(zip(words, np.split(text, ends[:-1]) if words else (), strict=True))
        kinds = ["+".join(["image"] * (row in pictures) + ["text"] * (row in written)) for row in range(len(items))]
        return FusedVectors([found.get(row, self._none) for row in range(len(items))], np.array(kinds, dtype=str))

    def _one_row_each(self, found: FusedVectors) -> Vectors:
        rows = np.concatenate([self._none, *(rows.sum(axis=0, keepdims=True) for rows in found.rows)])
        several = np.array([len(each) > 1 for each in found.rows], dtype=bool)
        rows[several] = unit(rows[several], self.name)  # the sum and the mean have one direction
        return self._vectors(rows, found.kinds)

    def _vectors(self, rows: Matrix, kinds: Kinds) -> Vectors:
        return Vectors(dict.fromkeys(PARTS, rows), {part: kinds == part for part in PARTS})

    @property
    def _none(self) -> Matrix:
        return np.zeros((0, self.dim), dtype=np.float32)
