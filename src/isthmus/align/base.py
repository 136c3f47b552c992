"""What each stage of an alignment does, and what comes out of it."""

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
    """Reads pictures. The same picture has the same caption, always."""

    @property
    def name(self) -> str:
        """What it is called; captions are kept under it."""

    def caption(self, images: Sequence[ImageLike]) -> list[str]:
        """Return what is in each picture, in words; an empty string where nothing is."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A query as a rewriter put it; or the query itself, and why: a reason, and after a colon what is special here."""

    text: str
    fell_back: str | None = None


@dataclass(frozen=True, slots=True)
class Counts:
    """How many queries went to a rewriter, and how many of them came back as they were, by reason.

    >>> some = Counts().plus([Rewritten("a"), Rewritten("b", "the model failed: timeout"), Rewritten("c")])
    >>> print(some)
    3 rewritten, 1 fell back (the model failed: 1)
    """

    asked: int = 0
    fell_back: Mapping[str, int] = field(default_factory=dict)

    def plus(self, several: Sequence[Rewritten]) -> Counts:
        """Count these too."""
        reasons = Counter(self.fell_back)
        reasons.update(one.fell_back.partition(":")[0] for one in several if one.fell_back)
        return Counts(self.asked + len(several), dict(reasons))

    def __str__(self) -> str:
        reasons = ", ".join(f"{reason}: {count}" for reason, count in sorted(self.fell_back.items()))
        return f"{self.asked} rewritten, {sum(self.fell_back.values())} fell back" + (
            f" ({reasons})" if reasons else ""
        )


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
    """What became of a query.

    Where pictures became words, ``query`` is words alone. ``untouched`` says why nothing was done to a query.
    """

    query: Query  # what is searched
    caption: str | None = None  # of all its pictures
    fell_back: str | None = None  # why its words are not the rewriter's
    untouched: str | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)  # what each stage cost: caption, rewrite
    counts: Counts | None = None  # the aligner's, up to this query and those that were aligned with it


@runtime_checkable
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
