"""An encoder made of a text tower, an image tower or both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np

from isthmus.documents import Document, Query
from isthmus.encoders.base import Role, Settings, Skip, unit
from isthmus.encoders.items import Given, Items, Refuse, named_queries, names_of, readable, stop, texts_of
from isthmus.encoders.once import EncoderRun, ImageTower, LaunchesTexts, TextTower, launched
from isthmus.encoders.texts import TextPassage
from isthmus.prefetch import prefetch
from isthmus.types import Mask, Matrix, Rows, Vectors

AHEAD = 2048  # texts that are split at once, while the model reads those before


@dataclass(frozen=True, slots=True, eq=False)
class TowerVectors:
    """The vectors of a call's items: of their passages, and of their images."""

    counts: Rows  # (n,): how many passages each item has
    text: Matrix  # (all passages, d), in the order of the items
    image: Matrix  # (n, d)
    pictured: Mask  # (n,): which items have an image
    kept: Mask  # (n,): which items could be encoded


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class TowerEncoder:
    """An ``Encoder`` with one or two towers. ``identity`` changes whenever its vectors do."""

    name: str
    dim: int
    identity: str
    text: TextTower | None
    image: ImageTower | None
    settings: Settings
    identities: Mapping[str, str] = field(default_factory=dict)  # by part, where each tower has its own
    whole: TowerEncoder | None = None  # the encoder of which this one cuts the vectors

    @property
    def modalities(self) -> tuple[str, ...]:
        """The modalities it accepts, in documents and in queries."""
        if self.text is None or self.image is None:
            return ("image",) if self.text is None else ("text",)
        return ("image", "image+text", "text")

    def __repr__(self) -> str:
        return f"<Encoder {self.name}, {self.dim} dimensions: {', '.join(self.modalities)}>"

    def encode_documents(self, documents: Sequence[Document]) -> Vectors:
        """Return one row per document; a long text is the unit mean of its passages."""
        return self._one_row_each(self._encode(documents, names_of(documents), "document", stop))

    def encode_queries(self, queries: Sequence[Query | str]) -> Vectors:
        """Return one row per query; a string is a query of words. A long one is a mean, as in documents."""
        given, names = named_queries(queries)
        return weighted(self._one_row_each(self._encode(given, names, "query", stop)), given)

    def encode_passages(self, documents: Sequence[Document], *, skip: Skip | None = None) -> tuple[Vectors, Rows]:
        """Return one row per passage, each with the image of its document, and the document of each row."""
        found = self._encode(documents, names_of(documents), "document", skip or stop)
        rows = np.where(found.kept, np.maximum(found.counts, 1), 0)
        owner = np.repeat(np.arange(len(rows)), rows)
        written = (found.counts > 0)[owner]
        text = np.zeros((len(owner), self.dim), dtype=np.float32)
        text[written] = found.text[np.repeat(found.kept, found.counts)]
        return self._vectors(text, written, found.image[owner], found.pictured[owner]), owner

    def split(self, text: str) -> list[tuple[int, int]]:
        """Return the start and end of each passage of a document's text."""
        passages = self.text.split([readable(text)], "document")[0] if self.text is not None else []
        return [(passage.start, passage.end) for passage in passages]

    def _one_row_each(self, found: TowerVectors) -> Vectors:
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

    def _encode(self, items: Items, names: Sequence[str], role: Role, refuse: Refuse) -> TowerVectors:
        """Encode items; of many texts, the next are split on another thread while the model reads the last."""
        if len(items) <= AHEAD or self.settings.progress is not None or any(item.images for item in items):
            return self._encode_split(items, self._split(items, role), names, refuse)
        starts = range(0, len(items), AHEAD)
        found: list[TowerVectors] = []
        with closing(prefetch((self._split(items[at : at + AHEAD], role) for at in starts), 1)) as several:
            for at, passages in zip(starts, several, strict=True):
                some = slice(at, at + AHEAD)
                found.append(self._encode_split(items[some], passages, names[some], _from(at, refuse)))
        return TowerVectors(
            np.concatenate([one.counts for one in found]),
            np.concatenate([one.text for one in found]),
            np.concatenate([one.image for one in found]),
            np.concatenate([one.pictured for one in found]),
            np.concatenate([one.kept for one in found]),
        )

    def _encode_split(
        self, items: Items, passages: Sequence[list[TextPassage]], names: Sequence[str], refuse: Refuse
    ) -> TowerVectors:
        given = Given.of(items, passages, names, refuse).check(self.name, self.modalities)
        pictures = {row: item.image for row, item in enumerate(items) if given.kept[row] and item.image is not None}
        several = [*given.passages]  # an unreadable picture removes its passages from given.passages, not from here
        counts = np.array([len(passages) for passages in several], dtype=np.intp)
        total = int(counts.sum()) + len(pictures)
        run = EncoderRun(name=self.name, dim=self.dim, identity=self.identity, settings=self.settings, total=total)
        image, pictured = np.zeros((len(items), self.dim), dtype=np.float32), np.zeros(len(items), dtype=bool)
        if self.image is not None and pictures:
            for row, vector in run.images(self.image, pictures, given.leave_out).items():
                image[row], pictured[row] = vector, True
        text = np.zeros((0, self.dim), dtype=np.float32)
        if self.text is not None:
            launch = self.text.launch if isinstance(self.text, LaunchesTexts) else launched(self.text.encode)
            text = run.texts(launch, [passage for passages in several for passage in passages])
        return TowerVectors(counts, text, image, pictured, given.kept)

    def _split(self, items: Items, role: Role) -> list[list[TextPassage]]:
        return [[] for _ in items] if self.text is None else self.text.split(texts_of(items), role)


def _from(first: int, refuse: Refuse) -> Refuse:
    """Return how items from a row on are reported."""
    return lambda row, problem: refuse(first + row, problem)


def weighted(vectors: Vectors, queries: Sequence[Query]) -> Vectors:
    """Apply each query's weights."""
    if all(query.weights is None for query in queries):
        return vectors
    given = [query.weights or {} for query in queries]
    weights: dict[str, Matrix] = {p: np.array([each.get(p, 1.0) for each in given]) for p in vectors.parts}
    return Vectors(vectors.parts, vectors.present, weights)
