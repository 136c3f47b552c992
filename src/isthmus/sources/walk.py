"""A folder and all folders below it, one listing at a time, in sorted order."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from isthmus.files import open_regular
from isthmus.sources.base import SkippedInput
from isthmus.sources.files import unreadable
from isthmus.sources.names import readable

Identity: TypeAlias = tuple[int, int]

COLLECTION = ".isthmus"  # the extension of collections' folders
STORE = "collection.sqlite"  # the file that identifies a collection with any other name
SQLITE = b"SQLite format 3\0"


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder on disk: its real path, its real path inside the source, and whether it was reached by a link."""

    path: str
    inside: str
    linked: bool = False


@dataclass(frozen=True, slots=True)
class Listing:
    """The names of the files in one folder, sorted."""

    folder: Folder
    files: list[str]


def walk(root: str, without: str | None = None) -> Iterator[Listing | SkippedInput]:
    """List a folder, then the folders in it, depth first; files before folders.

    Collections are ignored: the folder ``without``, also through links, and every other folder with a collection's
    files.

    Symbolic links are followed, but never to a parent folder, and to the same folder only once: folders that link to
    one another would otherwise have infinitely many names.
    """
    above: list[Identity] = []
    own = _identity(without)
    followed: set[Identity] = set()
    waiting: list[Iterator[Folder]] = [iter([Folder(root, "")])]
    while waiting:
        folder = next(waiting[-1], None)
        if folder is None:
            waiting.pop()
            del above[-1:]
            continue
        try:
            status = Path(folder.path).stat()
            identity = (status.st_dev, status.st_ino)
            if identity == own or is_collection(folder.path):
                if not folder.inside:
                    yield SkippedInput(
                        readable(root), "is a collection, not a folder of documents. Name the files it is about"
                    )
                continue
            if identity in above or (folder.linked and identity in followed):
                continue
            listing, folders = _list(folder)
        except OSError as error:
            yield SkippedInput(readable(folder.inside) or readable(root), f"is a folder that {unreadable(error)}", True)
            continue
        if folder.linked:
            followed.add(identity)
        yield listing
        waiting.append(iter(folders))
        above.append(identity)


def is_collection(folder: str) -> bool:
    """Whether a folder is a collection: it has a collection's database."""
    try:
        with open_regular(Path(folder, STORE)) as file:
            return file.read(len(SQLITE)) in (SQLITE, b"")  # empty until the first table is written
    except (OSError, ValueError):
        return False


def _identity(path: str | None) -> Identity | None:
    if path is None:
        return None
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return (status.st_dev, status.st_ino)


def _list(folder: Folder) -> tuple[Listing, list[Folder]]:
    files: list[str] = []
    folders: list[Folder] = []
    with os.scandir(folder.path) as entries:
        for entry in entries:
            if entry.name.startswith(".") or entry.name == "__MACOSX":
                continue
            if not _is_folder(entry):
                files.append(entry.name)
            elif not entry.name.endswith(COLLECTION):
                folders.append(Folder(entry.path, inside(folder, entry.name), entry.is_symlink()))
    return Listing(folder, sorted(files)), sorted(folders, key=lambda below: below.inside)


def inside(folder: Folder, name: str) -> str:
    """Return the path inside the source of something in a folder."""
    return f"{folder.inside}/{name}" if folder.inside else name


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a cycle of links; opening the file will raise the error
        return False
