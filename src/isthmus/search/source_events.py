"""What happens when a source is read: units that are unchanged, begun and ended, and their documents, made ready.

Stamps are compared, files opened, pictures read (``page_texts``) and contents hashed, on the reader's threads.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeAlias

from isthmus.budget import PICTURE_BYTES
from isthmus.documents import Document
from isthmus.errors import BadInput
from isthmus.files import digest_regular
from isthmus.prefetch import prefetch
from isthmus.search.ingest import Prepared, prepared
from isthmus.search.page_texts import PageCounts, PageTexts, Wanted
from isthmus.search.writer import Skipped
from isthmus.sources import SkippedInput as Unread
from isthmus.sources import Source, SourceUnit
from isthmus.sources.files import is_missing
from isthmus.sources.readers import may_hold_pictures
from isthmus.sources.whole_files import TOGETHER, together
from isthmus.storage.protocols import Store

LISTED = 4096  # files listed before they are read


@dataclass(slots=True)
class Indexed:
    """What an index run did, in numbers, and what it had to skip.

    While it runs, ``files`` of the ``listed`` ones are done; ``listing`` sources are not listed to their end yet.
    """

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    removed: int = 0
    skipped: list[Skipped] = field(default_factory=list)
    files: int = field(default=0, compare=False)
    listed: int = field(default=0, compare=False)
    listing: int = field(default=1, compare=False)
    pages: PageCounts = field(default_factory=PageCounts, compare=False)

    @property
    def done(self) -> int:
        """Documents looked at so far."""
        return self.added + self.updated + self.unchanged + len(self.skipped)


@dataclass(frozen=True, slots=True)
class Same:
    """A unit that has not changed."""

    number: int
    documents: int


@dataclass(frozen=True, slots=True)
class Begun:
    """What follows, up to the end, is of this unit; ``number`` is None for a new one."""

    key: str
    number: int | None


@dataclass(frozen=True, slots=True)
class Ended:
    """All of the unit has been read; ``stamp`` is that of its content."""

    stamp: str


@dataclass(frozen=True, slots=True)
class Unreachable:
    """A document whose picture is there but cannot be opened now."""

    id: str
    why: str


Event: TypeAlias = Same | Begun | Ended | Prepared | Unread | Unreachable


def events(store: Store, source: Source, report: Indexed, settings: ReadSettings) -> Iterator[Event]:
    """Read a source, on the reader's thread: stamps are compared, files opened, contents read and hashed."""
    changed = _changed(store, source, report, settings)
    for several in settings.texts.in_order(partial(_ready, texts=settings.texts), changed):
        yield from several


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """How files become documents: what reads the text in pictures, and whether the pages of a file are together."""

    texts: PageTexts
    pages: str

    def stamp(self, unit: SourceUnit) -> str:
        """Return the stamp of a unit, so that it is read again under other settings."""
        if not may_hold_pictures(unit.key):
            return unit.stamp
        return unit.stamp + self.texts.stamp + (f"\npages {self.pages}" if self.pages == TOGETHER else "")


def _changed(store: Store, source: Source, report: Indexed, settings: ReadSettings) -> Iterator[Event | Document]:
    """Yield what has happened to the units of a source, and the documents of those that have changed."""
    with closing(prefetch(_listed(source, report), LISTED)) as units:
        for unit in units:
            if isinstance(unit, Unread):
                yield unit
                continue
            known = store.ledger.unit(source.root, unit.key)
            stamp = settings.stamp(unit)
            if known is not None and known.stamp == stamp:
                yield Same(known.number, store.ledger.count(known.number))
                continue
            yield Begun(unit.key, None if known is None else known.number)
            yield from together(unit.read()) if settings.pages == TOGETHER else unit.read()
            yield Ended(stamp)


def _listed(source: Source, report: Indexed) -> Iterator[SourceUnit | Unread]:
    """List a source before it is read, so that progress can show the total."""
    for unit in source.units():
        report.listed += 1
        yield unit
    report.listing -= 1


def _ready(given: Event | Document, wanted: Wanted, texts: PageTexts) -> list[Event]:
    """Make a document ready to be stored, after the problems of reading its pictures."""
    if not isinstance(given, Document):
        return [given]
    document, problems = texts.added(given, wanted)
    return [*(Unread(given.id, why) for why in problems), _prepared(document)]


def _prepared(document: Document) -> Prepared | Unread | Unreachable:
    try:
        ready = prepared(document)
    except BadInput as problem:
        return Unread(document.id, str(problem))
    for part, digest in zip(ready.document.parts, ready.hashes, strict=True):
        if digest is not None or part.path is None:
            continue
        try:
            digest_regular(part.path, PICTURE_BYTES)  # a failing disk may open a file and not give all of it
        except OSError as error:
            if error.errno != errno.EFBIG and not _shown_absent(part.path):
                return Unreachable(document.id, f"its {part.kind} cannot be read: {error.strerror}")
        except ValueError:
            pass  # a path that no file can have: the encoder says so
    return ready


def _shown_absent(path: str) -> bool:
    """Whether a folder that can be read, and is not empty as a missing drive is, does not hold a file."""
    if not is_missing(path):
        return False
    try:
        with os.scandir(Path(path).parent) as entries:
            return any(True for _ in entries)
    except OSError:
        return False
