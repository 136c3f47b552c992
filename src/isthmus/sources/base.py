"""What a source gives: units, and from each unit documents, one at a time.

    Source ──units()──▸ Unit ──read()──▸ Document | Skipped

Nothing is kept: a unit is read when it is asked for, and again when its stamp has changed. Two documents
with one id are both given; whoever keeps documents knows which ids there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from isthmus.documents import Document


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something that was not read, and why.

    ``where`` is the file, or the file and the line, row or page: ``a.jsonl, line 12``, ``b.pdf, page 3``.
    ``unreachable`` says that it is there but cannot be opened now (permissions, a disk, a missing module): what was
    read from it earlier is not gone.
    """

    where: str
    why: str
    unreachable: bool = False


Found: TypeAlias = Document | Skipped


@dataclass(frozen=True, slots=True)
class Unit:
    """What is read, and read again, as a whole: a file, a picture with its sidecars, a shard.

    ``key`` is its name inside the source. ``stamp`` changes whenever the content may have changed.
    """

    key: str
    stamp: str
    read: Callable[[], Iterator[Found]]


class Source(Protocol):
    """Somewhere documents come from."""

    @property
    def root(self) -> str:
        """The absolute path; it identifies the source."""

    def units(self) -> Iterator[Unit | Skipped]:
        """List what can be read, in a stable order; what cannot even be looked at is skipped."""
