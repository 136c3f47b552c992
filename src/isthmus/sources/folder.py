"""A folder of mixed files, and a single file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from isthmus.sources.base import SkippedInput, SourceUnit
from isthmus.sources.files import File, FileReader, is_missing
from isthmus.sources.names import readable
from isthmus.sources.readers import look, unit_of
from isthmus.sources.sidecars import by_picture, candidates, takes_sidecars
from isthmus.sources.walk import Listing, inside, walk


@dataclass(frozen=True, slots=True)
class FolderSource:
    """Every file below a folder; a document's id is its path inside the folder. The folder ``without`` is left out."""

    path: str
    without: str | None = None

    @property
    def root(self) -> str:
        """The folder."""
        return readable(self.path)

    def units(self) -> Iterator[SourceUnit | SkippedInput]:
        """List files, folder by folder."""
        for listing in walk(self.path, self.without):
            if isinstance(listing, SkippedInput):
                yield listing
            else:
                yield from _units(listing)


@dataclass(frozen=True, slots=True)
class FileSource:
    """One file: read by its extension, or by a given reader.

    ``path`` is the source's; the file is the source itself or, with ``inner``, a file in it.
    """

    path: str
    reader: FileReader | None = None
    inner: str = ""

    @property
    def root(self) -> str:
        """The path of the source."""
        return readable(self.path)

    def units(self) -> Iterator[SourceUnit | SkippedInput]:
        """Yield the unit."""
        path = Path(self.path, self.inner)
        file = look(str(path), readable(path.name), alone=True)
        if isinstance(file, SkippedInput):
            yield file
        elif self.reader is not None:
            yield self.reader.unit(file)
        else:
            names = candidates(path.name) if takes_sidecars(file.name) else []
            there = [path.with_name(name) for name in names if not is_missing(path.with_name(name))]
            yield unit_of(file, [look(str(path), readable(path.name)) for path in there])


def _units(listing: Listing) -> Iterator[SourceUnit | SkippedInput]:
    sidecars = by_picture(listing.files)
    used = {name for names in sidecars.values() for name in names}
    for name in listing.files:
        if name in used:
            continue
        file = _look(listing, name)
        if isinstance(file, File):
            yield unit_of(file, [_look(listing, sidecar) for sidecar in sidecars.get(name, [])])
        else:
            yield file


def _look(listing: Listing, name: str) -> File | SkippedInput:
    return look(os.path.join(listing.folder.path, name), readable(inside(listing.folder, name)))  # noqa: PTH118 - a Path drops './' and is slow
