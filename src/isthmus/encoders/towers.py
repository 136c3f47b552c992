"""An encoder made of a text tower, an image tower or both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from isthmus.documents import Document, Query
from isthmus.encoders.base import Role, Settings, Skip, unit
from isthmus.encoders.once import ImageTower, Run, TextTower
from isthmus.encoders.texts import Passage
from isthmus.errors import BadInput
from isthmus.types import Mask, Matrix, Rows, Vectors

Items: TypeAlias = Sequence[Document | Query]


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """What became of a call's items: their passages' vectors, and their images'."""

    counts: Rows  # (n,): how many passages each item has
    text: Matrix  # (all passages, d), item after item
    image: Matrix  # (n, d)
    pictured: Mask  # (n,): which items have an image
    kept: Mask  # (n,): which items could be encoded


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class TowerEncoder:
    """The ``Encoder`` over one or two towers. ``identity`` changes whenever its vectors do."""

    name: str
    dim: int
    identity: str
    text: TextTower | None
    image: ImageTower | None
    settings: Settings

    @property
    def modalities(self) -> tuple[str, ...]:
        """The modalities it takes, in documents and in queries."""
        if self.text is None or self.image is None:
            return ("image",) if self.text is None else ("text",)
        return ("image", "image+text", "text")

    def __repr__(self) -> str:
        return f"<Encoder {self.name}, {self.dim} dimensions: {', '.join(self.modalities)}>"

    def encode_documents(self, documents: Sequence[Document]) -> Vectors:
        """Return one row per document; a long text is the unit mean of its passages."""
        return self._one_row_each(self._encode(documents, _names(documents), "document", _raise))

    def encode_queries(self, queries: Sequence[Query | str]) -> Vectors:
        """Return one row per query; a string is a query of words. A long one is a mean, as in documents."""
        asked = [Query.of(query) for query in queries]
        names = [f"query {row}" for row in range(len(asked))]
        return _weighted(self._one_row_each(self._encode(asked, names, "query", _raise)), asked)

    def encode_passages(self, documents: Sequence[Document], *, skip: Skip | None = None) -> tuple[Vectors, Rows]:
        """Return one row per passage, each with the image of its document, and the document of each row."""
        found = self._encode(documents, _names(documents), "document", skip or _raise)
        rows = np.where(found.kept, np.maximum(found.counts, 1), 0)
        owner = np.repeat(np.arange(len(rows)), rows)
        written = (found.counts > 0)[owner]
        text = np.zeros((len(owner), self.dim), dtype=np.float32)
        text[written] = found.text[np.repeat(found.kept, found.counts)]
        return self._vectors(text, written, found.image[owner], found.pictured[owner]), owner

    def split(self, text: str) -> list[tuple[int, int]]:
        """Say where the passages of a document's text begin and end."""
        passages = self.text.split([readable(text)], "document")[0] if self.text is not None else []
        return [(passage.start, passage.end) for passage in passages]

    def _one_row_each(self, found: Found) -> Vectors:
        text = np.zeros((len(found.counts), self.dim), dtype=np.float32)
        np.add.at(text, np.repeat(np.arange(len(text)), found.counts), found.text)
        several = found.counts > 1
        text[several] = unit(text[several], self.name)  # the sum and the mean have one direction
        return self._vectors(text, found.counts > 0, found.image, found.pictured)

    def _vectors(self, text: Matrix, written: Mask, image: Matrix, pictured: Mask) -> Vectors:
        columns = [("image", self.image, image, pictured), ("text", self.text, text, written)]
        return Vectors(
            {part: matrix for part, tower, matrix, _ in columns if tower is not None},
            {part: mask for part, tower, _, mask in columns if tower is not None},
        )

    def _encode(self, items: Items, names: Sequence[str], role: Role, refuse: Callable[[int, BadInput], None]) -> Found:
        kept = np.ones(len(items), dtype=bool)

        def leave_out(row: int, problem: BadInput) -> None:
            kept[row] = False
            refuse(row, type(problem)(f"{names[row]}: {problem}"))

        passages = self._split(items, role)
        for row, item in enumerate(items):
            problem = self._problem(item, passages[row])
            if problem is not None:
                leave_out(row, problem)
        passages = [several if kept[row] else [] for row, several in enumerate(passages)]
        pictures = {row: item.image for row, item in enumerate(items) if kept[row] and item.image is not None}
        counts = np.array([len(several) for several in passages], dtype=np.intp)
        total = int(counts.sum()) + len(pictures)
        run = Run(name=self.name, dim=self.dim, identity=self.identity, settings=self.settings, total=total)
        image, pictured = np.zeros((len(items), self.dim), dtype=np.float32), np.zeros(len(items), dtype=bool)
        if self.image is not None and pictures:
            for row, vector in run.images(self.image, pictures, leave_out).items():
                image[row], pictured[row] = vector, True
        text = np.zeros((0, self.dim), dtype=np.float32)
        if self.text is not None:
            text = run.texts(self.text, [passage for several in passages for passage in several])
        return Found(counts, text, image, pictured, kept)

    def _split(self, items: Items, role: Role) -> list[list[Passage]]:
        if self.text is None:
            return [[] for _ in items]
        return self.text.split([readable(item.text or "") for item in items], role)

    def _problem(self, item: Document | Query, passages: Sequence[Passage]) -> BadInput | None:
        for part, tower in (("image", self.image), ("text", self.text)):
            if tower is None and part in item.modality.split("+"):
                return BadInput(
                    f"it has the part {part!r}, and the encoder {self.name} reads {' and '.join(self.modalities)} "
                    "only. Leave that part out, or use an encoder that reads it."
                )
        if isinstance(item, Query) and item.more_images:
            return BadInput(
                f"it has {len(item.images)} pictures, and an encoder takes one. Have them put into words "
                "(align='caption'), or ask with each alone."
            )
        if item.image is None and not passages:
            return BadInput(
                f"the encoder {self.name} finds nothing to read in its text (control characters alone, say). Leave it "
                "out."
            )
        return None


def _weighted(vectors: Vectors, queries: Sequence[Query]) -> Vectors:
    """Give each query the weights it asks for."""
    if all(query.weights is None for query in queries):
        return vectors
    given = [query.weights or {} for query in queries]
    weights: dict[str, Matrix] = {p: np.array([each.get(p, 1.0) for each in given]) for p in vectors.parts}
    return Vectors(vectors.parts, vectors.present, weights)


def readable(text: str) -> str:
    """Put a question mark for each half of a surrogate pair: no file can hold one, no tokenizer reads it."""
    return text.encode("utf-8", "replace").decode()


def _raise(_: int, problem: BadInput) -> None:
    raise problem


def _names(documents: Sequence[Document]) -> list[str]:
    for row, document in enumerate(documents):
        if not isinstance(document, Document):
            kind = type(document).__name__
            raise BadInput(f"row {row} is a {kind}, not a Document. Write Document(id='a', text='…'), or image=.")
    return [f"document {document.id!r}" for document in documents]
