"""What some encoders can do beyond ``Encoder``; each ability is a protocol, so any encoder may have it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from isthmus.documents import Document, ImageLike, Part, Query
from isthmus.encoders.base import Role, Settings
from isthmus.types import Matrix

if TYPE_CHECKING:
    from isthmus.encoders.apart import Apart


class PairMatcher(Protocol):
    """Says how well documents answer the words of a query, reading both at once."""

    def scores(self, query: Query, documents: Sequence[Document]) -> Matrix:
        """Return a number for each document, ``(n,)``, the higher the better; NaN where it cannot be told."""


@runtime_checkable
class CanMatch(Protocol):
    """An encoder with a matcher: a search can rerank by its name."""

    def matcher(self) -> PairMatcher:
        """Return what says how well a document answers a query."""


class TakesApart(Protocol):
    """What can leave out words and patches, for an encoder: its vectors are that encoder's."""

    def take(
        self, text: str | None, image: ImageLike | None, role: Role, passage: int | None = None
    ) -> Mapping[str, Apart]:
        """Take apart a text, or one passage of it, a picture, or both; return what became a vector, by part."""


@runtime_checkable
class SplitsParts(Protocol):
    """An encoder that splits parts of other kinds than text, too. It gets every part alone, and gives each its rows."""

    def split_part(self, part: Part) -> list[tuple[float, float]]:
        """Say where the segments of a part begin and end, in the order of ``encode_passages``; none: it is one."""


@runtime_checkable
class CanExplain(Protocol):
    """An encoder that says what each word and patch adds to a similarity."""

    def takes_apart(self) -> TakesApart:
        """Return what leaves out words and patches."""


@runtime_checkable
class HasSettings(Protocol):
    """An encoder that says how it runs."""

    @property
    def settings(self) -> Settings:
        """How it runs."""
