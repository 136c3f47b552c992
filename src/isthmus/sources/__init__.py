"""Sources: files become documents, one at a time.

source = sources.open_source("notes")           a folder, a table, a shard …: detected automatically
for unit in source.units():                     SourceUnit | SkippedInput
    for found in unit.read():                   Document | SkippedInput
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from os import PathLike
from pathlib import Path
from types import MappingProxyType

from isthmus.errors import BadInput
from isthmus.registry import lookup
from isthmus.sources import readers
from isthmus.sources.base import SkippedInput, Source, SourceUnit
from isthmus.sources.clip_retrieval import FOLDERS as VECTOR_FOLDERS
from isthmus.sources.clip_retrieval import ClipRetrievalSource
from isthmus.sources.files import FileReader, unreadable
from isthmus.sources.folder import FileSource, FolderSource
from isthmus.sources.names import readable
from isthmus.sources.shards import ShardsSource, is_shard
from isthmus.urls import url_of

__all__ = ["KINDS", "SkippedInput", "Source", "SourceUnit", "open_source"]

CORPUS = "corpus.jsonl"  # of a BEIR folder
SHARD_COMPANIONS = ("_stats.json", ".json", ".parquet", ".idx")


def open_source(path: str | PathLike[str], *, kind: str | None = None) -> Source:
    """Open what is at ``path`` for reading; nothing is read yet.

    ``kind`` is one of the names in ``KINDS``. By default it is detected: a folder with ``corpus.jsonl`` is ``beir``,
    with ``img_emb`` or ``text_emb`` ``clip-retrieval``, with only tar files ``webdataset``, any other a ``folder``; a
    file is read by its extension.

    >>> open_source("nowhere")
    Traceback (most recent call last):
    isthmus.errors.BadInput: nowhere does not exist. Check the path; relative paths start at the current directory.
    >>> open_source(".", kind="foldr")
    Traceback (most recent call last):
    isthmus.errors.UnknownName: No kind of source is called 'foldr'. Did you mean 'folder'?
    """
    opener = None if kind is None else lookup(KINDS, kind, "kind of source")
    written = readable(os.fspath(path))
    given = Path(path)
    with suppress(RuntimeError):  # ~ and an unknown user: a file may have that name
        given = given.expanduser()
    try:
        given.stat()
    except (FileNotFoundError, NotADirectoryError):
        if (url := url_of(written)) is not None:
            raise BadInput(
                f"{url} is a URL, and documents are read from files and folders. A collection is named with --into "
                "(Collection.open in Python); to copy one: isthmus copy SRC DST."
            ) from None
        raise BadInput(
            f"{written} does not exist. Check the path; relative paths start at the current directory."
        ) from None
    except (OSError, ValueError) as error:
        raise BadInput(f"{written} {unreadable(error)}.") from None
    if not written:  # pathlib would take it for the current directory
        raise BadInput("The path is empty. Write . for the current directory.")
    # not resolved: a link with a new target is still the same source
    try:
        return (opener or KINDS[_kind(given)])(os.path.abspath(given))  # noqa: PTH100
    except OSError as error:
        raise BadInput(f"{written} {unreadable(error)}.") from None


def _kind(path: Path) -> str:
    if not path.is_dir():
        return "webdataset" if is_shard(path.name) else "file"
    if (path / CORPUS).is_file():
        return "beir"
    if any((path / folder).is_dir() for folder in VECTOR_FOLDERS.values()):
        return "clip-retrieval"
    return "webdataset" if _only_shards(path) else "folder"


def _only_shards(path: Path) -> bool:
    """Return whether a folder holds shards; each may come with a table and statistics."""
    shards: set[str] = set()
    companions: set[str] = set()
    try:
        with os.scandir(path) as entries:
            for name in (entry.name for entry in entries if not entry.name.startswith(".")):
                ending = next((ending for ending in SHARD_COMPANIONS if name.endswith(ending)), None)
                if is_shard(name):
                    shards.add(name.partition(".")[0])
                elif ending is not None:
                    companions.add(name.removesuffix(ending))
                else:
                    return False
    except OSError:
        return False  # reading the folder will raise the error
    return bool(shards) and companions <= shards


def _file(path: str, reader: FileReader | None = None) -> Source:
    if Path(path).is_dir():
        kind = reader.name if reader else "file"
        raise BadInput(f"{readable(path)} is a folder, not a file of kind {kind!r}. Use kind 'folder', or name a file.")
    return FileSource(path, reader)


def _folder(path: str) -> Source:
    return FolderSource(_is_folder(path, "folder"))


def _beir(path: str) -> Source:
    if not Path(_is_folder(path, "beir"), CORPUS).is_file():
        raise BadInput(f"{readable(path)} has no {CORPUS}, which a BEIR folder has. Use kind 'folder'.")
    return FileSource(path, readers.JSONL, CORPUS)


def _clip_retrieval(path: str) -> Source:
    return ClipRetrievalSource(_is_folder(path, "clip-retrieval"))


def _is_folder(path: str, kind: str) -> str:
    if not Path(path).is_dir():
        raise BadInput(f"{readable(path)} is a file, and kind {kind!r} is a folder. Use kind 'file', or leave it out.")
    return path


_TABLES = (readers.JSONL, readers.CSV, readers.TSV, readers.PARQUET, readers.JSON, readers.TEXT, readers.HTML)

KINDS: Mapping[str, Callable[[str], Source]] = MappingProxyType(
    {
        "folder": _folder,
        "file": _file,
        "beir": _beir,
        "clip-retrieval": _clip_retrieval,
        "webdataset": ShardsSource,
        **{reader.name: partial(_file, reader=reader) for reader in (*_TABLES, readers.PDF)},
    }
)
