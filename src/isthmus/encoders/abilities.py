"""Optional abilities of an encoder beyond ``Encoder``. Each is a protocol, so any encoder can implement it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from isthmus.documents import Document, ImageLike, Part, Query
from isthmus.encoders.base import Encoder, Role, Settings
from isthmus.types import Matrix

if TYPE_CHECKING:
    from isthmus.encoders.apart import Apart


class PairMatcher(Protocol):
    """Scores how well documents answer the words of a query, reading both together."""

    def scores(self, query: Query, documents: Sequence[Document]) -> Matrix:
        """Return a score for each document, ``(n,)``, higher is better; NaN where the matcher cannot score it."""


@runtime_checkable
class CanMatch(Protocol):
    """An encoder with a matcher: a search can use its name as a reranker."""

    def matcher(self) -> PairMatcher:
        """Return the matcher."""


class TakesApart(Protocol):
    """Computes an encoder's vectors with words or patches left out."""

    def take(
        self, text: str | None, image: ImageLike | None, role: Role, passage: int | None = None
    ) -> Mapping[str, Apart]:
        """Take apart a text (or one passage of it), a picture, or both; return the result by part."""


@runtime_checkable
class SplitsParts(Protocol):
    """An encoder that also splits parts of other kinds than text. It encodes each part into rows of its own."""

    def split_part(self, part: Part) -> list[tuple[float, float]]:
        """Return the start and end of each segment, in the order of ``encode_passages``; empty: the part is one."""


@runtime_checkable
class EncodesAhead(Encoder, Protocol):
    """An encoder that starts on documents before their vectors are asked for, as on other machines."""

    @property
    def ahead(self) -> int:
        """How many documents should be on their way at a time."""

    def expect(self, documents: Sequence[Document]) -> None:
        """Start on documents that ``encode_passages`` will be called with, in any division; any thread may call it."""


@runtime_checkable
class CanExplain(Protocol):
    """An encoder that can compute what each word and patch adds to a similarity."""

    def takes_apart(self) -> TakesApart:
        """Return the object that leaves out words and patches."""


@runtime_checkable
class HasIdentities(Protocol):
    """An encoder whose parts have towers of their own: the vectors of a part depend on its tower only."""

    @property
    def identities(self) -> Mapping[str, str]:
        """For each part, a hash of everything that its vectors and its passages depend on."""


def part_identity(encoder: Encoder, part: str) -> str:
    """Return the identity of the vectors of one part; by default that of the encoder."""
    identities = encoder.identities if isinstance(encoder, HasIdentities) else {}
    return identities.get(part, encoder.identity)


@runtime_checkable
class HasSettings(Protocol):
    """An encoder with settings."""

    @property
    def settings(self) -> Settings:
        """The settings of the encoder."""


class Usage(Protocol):
    """What was asked of a service so far; as a string, what it cost."""

    requests: int
    tokens: int


@runtime_checkable
class HasUsage(Protocol):
    """An encoder or a reranker that counts what it costs."""

    @property
    def usage(self) -> Usage:
        """The count so far."""
