"""Bodies of requests: JSON, lines of JSON, and uploads. Their size is limited while they are read."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, NoReturn

from starlette.requests import Request

from isthmus.budget import JSON_BYTES, mebibytes
from isthmus.errors import BadInput
from isthmus.serve.errors import Refused
from isthmus.sources.jsonl import VALUE_BYTES

JSON = "application/json"
LINES = ("application/x-ndjson", "application/jsonl", "application/ndjson", "application/json-lines")
UPLOAD = "multipart/form-data"


def content_type(request: Request) -> str:
    """Return the media type of a body, without its parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def json_body(request: Request) -> bytes:
    """Return a JSON body, unread. Its type must be named: a form of another site cannot send it."""
    if content_type(request) != JSON:
        raise Refused(415, f"The body must be JSON. Send the header Content-Type: {JSON}.")
    return await request.body()


def parsed(body: bytes) -> Any:
    """Read JSON; what is not JSON by the standard is rejected, and what would take far more memory than its text.

    >>> parsed(b'{"k": NaN}')
    Traceback (most recent call last):
    isthmus.errors.BadInput: The body is not JSON: NaN is not a number of JSON.
    """
    if sum(body.count(sign.encode()) * size for sign, size in VALUE_BYTES.items()) > JSON_BYTES:
        raise Refused(
            413, f"The body has so many values that they may take more than {mebibytes(JSON_BYTES)}. Split it."
        )
    try:
        return json.loads(body, parse_constant=_no_number)
    except RecursionError:
        raise BadInput("The body is not usable JSON: it is nested too deep.") from None
    except ValueError as error:
        raise BadInput(f"The body is not JSON: {str(error)[:200]}.") from None


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")


def parsed_object(body: bytes) -> dict[str, Any]:
    """Read a JSON object."""
    form = parsed(body)
    if not isinstance(form, dict):
        raise BadInput(f"The body is a JSON object, not a {type(form).__name__}.")
    return form


async def lines(request: Request, longest: int) -> AsyncIterator[bytes]:
    """Yield the lines of a body as they arrive; a line over the limit is refused."""
    held: list[bytes] = []  # pieces of a line that has not ended
    size = 0
    async for piece in request.stream():
        first, *others = piece.split(b"\n")
        held.append(first)
        size += len(first)
        if size > longest:
            raise Refused(
                413,
                f"A line has more than {longest:,} bytes. Split the document, or raise --max-body.",
                {"Connection": "close"},
            )
        if others:
            for line in (b"".join(held), *others[:-1]):
                if line.strip():
                    yield line
            held, size = [others[-1]], len(others[-1])
    if (last := b"".join(held)).strip():
        yield last
