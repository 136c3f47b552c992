"""What a source gives: units, and from each unit documents, one at a time.

    Source ──units()──▸ SourceUnit ──read()──▸ Document | SkippedInput

Nothing is kept in memory: a unit is read on request, and again when its stamp has changed. A source may give two
documents with the same id; the collection resolves it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from isthmus.documents import Document


@dataclass(frozen=True, slots=True)
class SkippedInput:
    """Something that was skipped, and why.

    ``where`` is the file, or the file and the line, row or page: ``a.jsonl, line 12``, ``b.pdf, page 3``.
    ``unreachable``: it exists but cannot be opened now (permissions, a disk, a missing module), so documents read from
    it earlier are kept.
    """

    where: str
    why: str
    unreachable: bool = False


Found: TypeAlias = Document | SkippedInput


@dataclass(frozen=True, slots=True)
class SourceUnit:
    """What is read as a whole: a file, a picture with its sidecars, a shard.

    ``key`` is its name inside the source. ``stamp`` changes whenever the content may have changed.
    """

    key: str
    stamp: str
    read: Callable[[], Iterator[Found]]


class Source(Protocol):
    """An origin of documents."""

    @property
    def root(self) -> str:
        """The absolute path; it identifies the source."""

    def units(self) -> Iterator[SourceUnit | SkippedInput]:
        """List the units, in a stable order; those that cannot be listed are skipped."""
