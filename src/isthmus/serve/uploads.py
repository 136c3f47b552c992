"""Uploaded files become documents by the readers of ``isthmus index``: pictures, texts, PDF pages, tables.

The files lie in a folder of their own while they are read; it is deleted afterwards. A name that is a plain relative
path keeps its folders, as the files of a dropped folder need; of any other one the last part is taken. Pictures are
kept by the collection.
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
from starlette.exceptions import HTTPException
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
FIELDS = 16  # of an upload that are no files, which are held in memory; none is used
DEPTH = 16  # folders of a name
TOGETHER = 64  # documents that are added together
NAME_BYTES = 200
LOCAL = ("path", "folder", "modified")  # metadata of files that mean nothing elsewhere
UNSAFE = re.compile(r"[\x00-\x1f\x7f]")


async def add_files(server: Server, things: Collection, request: Request) -> Added:
    """Add uploaded files; each is a document, or several, called by the name of the file, with its folders."""
    done: list[Added] = []
    form = await _form(request)
    try:
        with tempfile.TemporaryDirectory(prefix="isthmus-upload-") as folder:
            skipped = await server.pool.run(lambda: _write(form, Path(folder), server.settings.limits.body))
            found = _documents(Path(folder), skipped)
            while batch := await server.pool.run(lambda: list(islice(found, TOGETHER))):
                done.append(await server.pool.run(partial(things.add, batch)))
    finally:
        await form.close()
    return Added.together([*done, Added(skipped=tuple(skipped))])


async def _form(request: Request) -> FormData:
    try:
        return await request.form(max_files=FILES, max_fields=FIELDS)
    except (HTTPException, ValueError) as error:  # ValueError: of the parser, in older versions of Starlette
        raise BadInput(f"The upload cannot be read: {getattr(error, 'detail', error)}") from None


def _write(form: FormData, folder: Path, largest: int) -> list[Skipped]:
    """Write files into a folder; return those that are too large, or whose name another file has."""
    skipped: list[Skipped] = []
    files = [given for _, given in form.multi_items() if isinstance(given, UploadFile)]
    if not files:
        raise BadInput("The upload has no files. Send them as multipart/form-data, each with a filename.")
    for given in files:
        name = file_name(given.filename or "")
        if (given.size or 0) > largest:
            skipped.append(Skipped(name, f"has more than {largest:,} bytes. Make it smaller, or raise --max-body."))
            continue
        try:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            out = (folder / name).open("xb")
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            skipped.append(Skipped(name, "has the name of another file of this upload. Give it another name."))
            continue
        with out:
            shutil.copyfileobj(given.file, out)
    return skipped


def file_name(given: str) -> str:
    r"""Return a name as it may stand in the folder of an upload, with its own folders if it is a plain relative path.

    >>> file_name("2024/june/cat.jpg"), file_name("2024\\cat.jpg"), file_name("cat.jpg")
    ('2024/june/cat.jpg', '2024/cat.jpg', 'cat.jpg')
    >>> file_name("../photos/cat.jpg"), file_name("/etc/cat.jpg"), file_name("C:\\me\\cat.jpg"), file_name("a//cat.jpg")
    ('cat.jpg', 'cat.jpg', 'cat.jpg', 'cat.jpg')
    >>> file_name("../.."), file_name(".env")
    ('file', 'env')
    """
    pieces = given.replace("\\", "/").split("/")
    kept = [_plain(piece) for piece in pieces]
    if all(kept) and pieces == kept and len(pieces) <= DEPTH and ":" not in pieces[0]:
        return "/".join(pieces)
    return kept[-1] or "file"


def _plain(piece: str) -> str:
    """Return one part of a name without what has a meaning of its own on a disk."""
    plain = UNSAFE.sub("", piece).lstrip(". ")
    while len(plain.encode("utf-8", "replace")) > NAME_BYTES:
        plain = plain[1:]  # the end says what it is
    return plain.encode("utf-8", "replace").decode()


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
