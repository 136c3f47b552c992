"""Add documents to a collection: from JSON, from a stream of JSON lines, from uploaded files.

What cannot be added is skipped, counted and listed with the reason; the rest goes on.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

from starlette.requests import Request

from isthmus.documents import Document
from isthmus.errors import BadInput, CannotReach
from isthmus.search import Added, Collection, Skipped
from isthmus.serve.answers import public_text
from isthmus.serve.bodies import lines, parsed
from isthmus.serve.content import ContentReader
from isthmus.serve.forms import AddedJson
from isthmus.serve.jobs import UPLOAD

if TYPE_CHECKING:
    from isthmus.serve.server import Server

BATCH = 256  # lines that are added together
PIECE = 1 << 20  # bytes of a line that is written alone
BYTES = 16 << 20  # of lines that are held in memory


def add(things: Collection, forms: Iterable[object], reader: ContentReader) -> Added:
    """Add documents in their JSON form."""
    documents: list[Document] = []
    skipped: list[Skipped] = []
    for number, form in enumerate(forms):
        try:
            documents.append(reader.document(form))
        except (BadInput, CannotReach) as error:
            skipped.append(Skipped(_name(form, number), str(error)))
    return Added.together([things.add(documents), Added(skipped=tuple(skipped))])


def _name(form: object, number: int) -> str:
    name = form.get("id") if isinstance(form, dict) else None
    return name if isinstance(name, str) else f"document {number}"


async def add_lines(server: Server, things: Collection, request: Request) -> Added:
    """Add a stream of JSON lines while it arrives; each batch is committed before the next is read."""
    done: list[Added] = []
    batch: list[bytes] = []
    size = number = 0

    async def flush() -> None:
        nonlocal batch, size, number
        held, first = batch, number
        batch, size, number = [], 0, number + len(batch)
        done.append(await server.pool.run(lambda: add_some(things, held, first, server.reader())))

    async for line in lines(request, server.settings.limits.body):
        batch.append(line)
        size += len(line)
        if len(batch) >= BATCH or size > BYTES:
            await flush()
    await flush()
    return Added.together(done)


async def add_later(server: Server, name: str, request: Request) -> dict[str, Any]:
    """Keep a stream of JSON lines on the disk, and add it as a job."""
    folder = server.jobs.folder
    await server.pool.run(lambda: folder.mkdir(parents=True, exist_ok=True))
    draft = folder / f"{secrets.token_hex(8)}{UPLOAD}"
    held: list[bytes] = []
    try:
        with draft.open("wb") as file:
            async for line in lines(request, server.settings.limits.body):
                held.append(line + b"\n")
                if len(held) >= BATCH or len(line) > PIECE:
                    await server.pool.run(partial(file.writelines, held))
                    held = []
            await server.pool.run(partial(_write_last, file, held))
        return (await server.pool.run(lambda: server.jobs.submit("add", name, {}, draft))).to_json()
    finally:
        draft.unlink(missing_ok=True)


def _write_last(file: BinaryIO, held: list[bytes]) -> None:
    file.writelines(held)
    file.flush()
    os.fsync(file.fileno())


def add_some(things: Collection, several: list[bytes], first: int, reader: ContentReader) -> Added:
    """Add some lines of JSON; ``first`` is the number of lines before them."""
    forms: list[object] = []
    skipped: list[Skipped] = []
    for number, line in enumerate(several, first + 1):
        try:
            forms.append(parsed(line))
        except BadInput as error:
            skipped.append(Skipped(f"line {number}", str(error)))
    return Added.together([add(things, forms, reader), Added(skipped=tuple(skipped))])


def added_json(report: Added, things: Collection, *, ids: bool = False) -> AddedJson:
    """Return the JSON form of what became of documents; with ``ids``, also of which ones."""
    form: AddedJson = {
        "added": len(report.added),
        "updated": len(report.updated),
        "unchanged": len(report.unchanged),
        "skipped": [{"id": one.id, "why": public_text(one.why)} for one in report.skipped],
        "documents": len(things),
    }
    if ids:
        names = ("added", "updated", "unchanged")
        form["ids"] = {name: list(getattr(report, name)) for name in names}
    return form
