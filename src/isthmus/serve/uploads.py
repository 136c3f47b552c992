"""Uploaded files become documents by the readers of ``isthmus index``: pictures, texts, PDF pages, tables.

The files lie in a folder of their own while they are read, under the last part of their names; the folder is deleted
afterwards. Pictures are kept by the collection.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request

from isthmus.budget import PICTURE_BYTES
from isthmus.documents import Document
from isthmus.errors import BadInput
from isthmus.files import read_regular
from isthmus.kinds import Part
from isthmus.search import Added, Collection, Skipped
from isthmus.sources import SkippedInput, open_source

if TYPE_CHECKING:
    from isthmus.serve.server import Server

FILES = 1000  # of an upload
TOGETHER = 64  # documents that are added together
NAME_BYTES = 200
LOCAL = ("path", "folder", "modified")  # metadata of files that mean nothing elsewhere
UNSAFE = re.compile(r"[\x00-\x1f\x7f]")


async def add_files(server: Server, things: Collection, request: Request) -> Added:
    """Add uploaded files; each is a document, or several, called by the name of the file."""
    done: list[Added] = []
    async with request.form(max_files=FILES, max_fields=FILES) as form:
        with tempfile.TemporaryDirectory(prefix="isthmus-upload-") as folder:
            skipped = await server.pool.run(lambda: _write(form, Path(folder), server.settings.limits.body))
            found = _documents(Path(folder), skipped)
            while batch := await server.pool.run(lambda: list(islice(found, TOGETHER))):
                done.append(await server.pool.run(partial(things.add, batch)))
    return Added.together([*done, Added(skipped=tuple(skipped))])


def _write(form: FormData, folder: Path, largest: int) -> list[Skipped]:
    """Write files into a folder; return those that are too large, or whose name another file has."""
    skipped: list[Skipped] = []
    files = [given for _, given in form.multi_items() if isinstance(given, UploadFile)]
    if not files:
        raise BadInput("The upload has no files. Send them as multipart/form-data, each with a filename.")
    for given in files:
        name = file_name(given.filename or "")
        place = folder / name
        if (given.size or 0) > largest:
            skipped.append(Skipped(name, f"has more than {largest:,} bytes. Make it smaller, or raise --max-body."))
        elif place.exists():
            skipped.append(Skipped(name, "has the name of another file of this upload. Send it separately."))
        else:
            with place.open("xb") as out:
                shutil.copyfileobj(given.file, out)
    return skipped


def file_name(given: str) -> str:
    r"""Return the last part of a name, as it may stand in a folder.

    >>> file_name("..\\..\\photos/cat.jpg"), file_name("../.."), file_name(".env")
    ('cat.jpg', 'file', 'env')
    """
    last = UNSAFE.sub("", given.replace("\\", "/").rpartition("/")[2]).lstrip(". ")
    while len(last.encode("utf-8", "replace")) > NAME_BYTES:
        last = last[1:]  # the end says what it is
    return last.encode("utf-8", "replace").decode() or "file"


def _documents(folder: Path, skipped: list[Skipped]) -> Iterator[Document]:
    for unit in open_source(folder, kind="folder").units():
        for found in [unit] if isinstance(unit, SkippedInput) else unit.read():
            if isinstance(found, SkippedInput):
                skipped.append(Skipped(found.where, found.why))
                continue
            try:
                yield _whole(found, folder)
            except (OSError, BadInput) as error:
                skipped.append(Skipped(found.id, str(error)))


def _whole(document: Document, folder: Path) -> Document:
    """Return a document with its files inside, and without what says where they lie."""
    metadata = {name: value for name, value in document.metadata.items() if name not in LOCAL}
    parts = [part if part.path is None else Part(part.kind, _read(part.path, folder)) for part in document.parts]
    return Document(document.id, metadata=metadata, vectors=document.vectors, parts=parts)


def _read(path: str, folder: Path) -> bytes:
    """Read a file of the upload; a row of a table may name any other, and none of those is read."""
    if not Path(path).resolve().is_relative_to(folder.resolve()):
        raise BadInput("names a file that is not in this upload. Send it along, or inline.")
    return read_regular(path, PICTURE_BYTES)
