"""The protocols of the stages of an alignment, and their results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, runtime_checkable

from isthmus.documents import ImageLike, Query

DESCRIPTION = "Image Description: "

# The best documents of one query, best first: ids and scores.
Found: TypeAlias = Sequence[tuple[str, float]]


class Captioner(Protocol):
    """Captions pictures, deterministically."""

    @property
    def name(self) -> str:
        """Its name, which is part of the cache key of captions."""

    def caption(self, images: Sequence[ImageLike]) -> list[str]:
        """Return a caption for each picture; an empty string if there is none."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A rewritten query; or the query itself with the reason, and details after a colon."""

    text: str
    fell_back: str | None = None


@dataclass(frozen=True, slots=True)
class Counts:
    """How many queries were passed to a rewriter, and how many of them fell back to the original query, by reason.

    >>> some = Counts().plus([Rewritten("a"), Rewritten("b", "the model failed: timeout"), Rewritten("c")])
    >>> print(some)
    2 rewritten, 1 fell back (the model failed: 1)
    """

    total: int = 0
    fell_back: Mapping[str, int] = field(default_factory=dict)

    def plus(self, several: Sequence[Rewritten]) -> Counts:
        """Count these too."""
        reasons = Counter(self.fell_back)
        reasons.update(one.fell_back.partition(":")[0] for one in several if one.fell_back)
        return Counts(self.total + len(several), dict(reasons))

    def __str__(self) -> str:
        reasons = ", ".join(f"{reason}: {count}" for reason, count in sorted(self.fell_back.items()))
        failed = sum(self.fell_back.values())
        return f"{self.total - failed} rewritten, {failed} fell back" + (f" ({reasons})" if reasons else "")


class Rewriter(Protocol):
    """Rewrites queries."""

    @property
    def name(self) -> str:
        """Its name."""

    def rewrite(self, texts: Sequence[str]) -> list[Rewritten]:
        """Return each query rewritten. It never fails: a query that cannot be rewritten is returned unchanged."""


class Retriever(Protocol):
    """Finds documents for words: dense, by BM25, both, or a collection."""

    @property
    def name(self) -> str:
        """Its name in tables."""

    def search(self, texts: Sequence[str], k: int = 10) -> list[Found]:
        """Return the best ``k`` documents of each query."""


@dataclass(frozen=True, slots=True)
class Aligned:
    """The result of aligning a query.

    If pictures became words, ``query`` has only words. ``untouched`` is the reason why a query was not changed.
    """

    query: Query  # what is searched
    caption: str | None = None  # of all its pictures
    fell_back: str | None = None  # why the rewriter's output was not used
    untouched: str | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)  # seconds per stage: caption, rewrite
    counts: Counts | None = None  # of the aligner, including this batch


@runtime_checkable
class Aligner(Protocol):
    """Turns a query with pictures and chatter into the query that is searched."""

    @property
    def name(self) -> str:
        """Its name."""

    def align(self, queries: Sequence[Query]) -> list[Aligned]:
        """Align queries together."""


def joined(question: str | None, captions: Sequence[str]) -> str:
    r"""Append the captions of a query's pictures to its question, as BRIDGE does.

    >>> joined("what does this error mean", ["Segmentation fault"])
    'what does this error mean\nImage Description: Segmentation fault'
    >>> joined(None, ["a red sofa", ""])
    'Image Description: a red sofa'
    """
    read = [DESCRIPTION + caption.strip() for caption in captions if caption.strip()]
    return "\n".join([*([question.strip()] if question and question.strip() else []), *read])
