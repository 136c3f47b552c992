"""What each stage of an alignment does, and what comes out of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from isthmus.documents import ImageLike, Query

DESCRIPTION = "Image Description: "

# The best documents of one query, best first: ids and scores.
Found: TypeAlias = Sequence[tuple[str, float]]


class Captioner(Protocol):
    """Reads pictures. The same picture has the same caption, always."""

    @property
    def name(self) -> str:
        """What it is called; captions are kept under it."""

    def caption(self, images: Sequence[ImageLike]) -> list[str]:
        """Return what is in each picture, in words; an empty string where nothing is."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A query as a rewriter put it; or the query itself, and why."""

    text: str
    fell_back: str | None = None


class Rewriter(Protocol):
    """Says in other words, or in fewer, what is asked for."""

    @property
    def name(self) -> str:
        """What it is called."""

    def rewrite(self, texts: Sequence[str]) -> list[Rewritten]:
        """Return each query rewritten. It never fails: what cannot be rewritten is returned as it was."""


class Retriever(Protocol):
    """Finds documents for words: dense, by BM25, both, or a collection."""

    @property
    def name(self) -> str:
        """What it is called in tables."""

    def search(self, texts: Sequence[str], k: int = 10) -> list[Found]:
        """Return the best ``k`` documents of each query."""


@dataclass(frozen=True, slots=True)
class Aligned:
    """What became of a query."""

    query: Query  # what is searched
    caption: str | None = None
    fell_back: str | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)  # what each stage cost


class Aligner(Protocol):
    """Makes of a query with pictures and talk the query that was meant."""

    @property
    def name(self) -> str:
        """What it is called."""

    def align(self, queries: Sequence[Query]) -> list[Aligned]:
        """Align queries together."""


def joined(question: str | None, captions: Sequence[str]) -> str:
    r"""Put the captions of a query's pictures behind its question, as BRIDGE does.

    >>> joined("what does this error mean", ["Segmentation fault"])
    'what does this error mean\nImage Description: Segmentation fault'
    >>> joined(None, ["a red sofa", ""])
    'Image Description: a red sofa'
    """
    read = [DESCRIPTION + caption.strip() for caption in captions if caption.strip()]
    return "\n".join([*([question.strip()] if question and question.strip() else []), *read])
