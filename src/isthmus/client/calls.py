"""Requests and answers of the client, and the exceptions that answers become.

An operation of the client is a generator: it yields a ``Call`` (or a ``Pause``), is sent the ``Reply``, and returns
its result. So that one implementation serves both clients: a session runs it with or without ``await``.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Generic, TypeAlias, TypeVar

from isthmus.errors import CODES, BadInput, CannotReach, IsthmusError, UnknownName

JSON = "application/json"
LINES = "application/x-ndjson"
LIMIT = 200  # characters of an answer that is not understood
BY_NAME: Mapping[str, type[IsthmusError]] = MappingProxyType({kind.__name__: kind for kind in CODES})
# What the server refuses before the library sees it has no class of its own.
BY_STATUS: Mapping[int, type[IsthmusError]] = MappingProxyType(
    {400: BadInput, 404: UnknownName, 405: BadInput, 409: BadInput, 413: BadInput, 415: BadInput, 422: BadInput}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request. ``repeatable``: doing it twice is the same as once, so it may be sent again after a lost answer."""

    method: str
    path: str
    body: bytes | None = None
    kind: str = JSON
    params: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = True


@dataclass(frozen=True, slots=True)
class Pause:
    """A time to wait, in seconds, before the operation goes on."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a request that the server has accepted."""

    body: bytes

    def json(self) -> Any:
        """Return the JSON of the answer."""
        return parsed(self.body)


Result = TypeVar("Result")
Operation: TypeAlias = Generator[Call | Pause, Reply, Result]


def parsed(body: bytes) -> Any:
    """Read the JSON of an answer."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise CannotReach(
            f"The answer is not JSON: {body[:LIMIT]!r}. Check the URL: is it that of `isthmus serve`?"
        ) from None


def encoded(form: Any) -> bytes:
    """Write the JSON of a request."""
    try:
        return json.dumps(form, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which UTF-8 cannot write
        return json.dumps(form, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise BadInput(f"This cannot be sent as JSON: {error}. Use strings, finite numbers, lists and dicts.") from None


def error_of(status: int, body: bytes) -> IsthmusError:
    """Return the exception of an error answer: the class that the server raised, by the table of errors.

    >>> error_of(404, b'{"error": {"type": "UnknownDocument", "message": "No document is called b."}}')
    UnknownDocument('No document is called b.')
    >>> error_of(401, b'{"error": {"type": "Refused", "message": "This server needs a key."}}')
    CannotReach('This server needs a key. (HTTP 401)')
    """
    try:
        problem = json.loads(body)["error"]
        name, message = str(problem["type"]), str(problem["message"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return CannotReach(f"The server answered with status {status} and {body[:LIMIT]!r}. Check the URL.")
    if name in BY_NAME:
        return BY_NAME[name](message)
    known = BY_STATUS.get(status)
    return CannotReach(f"{message} (HTTP {status})") if known is None else known(message)


@dataclass(frozen=True, slots=True)
class Finished(Generic[Result]):
    """The end of an operation."""

    result: Result


def start(operation: Operation[Result]) -> Call | Pause | Finished[Result]:
    """Return the first step of an operation."""
    try:
        return next(operation)
    except StopIteration as end:
        return Finished(end.value)


def advance(operation: Operation[Result], reply: Reply) -> Call | Pause | Finished[Result]:
    """Give an operation the reply to its last step, and return the next one."""
    try:
        return operation.send(reply)
    except StopIteration as end:
        return Finished(end.value)


def fail(operation: Operation[Result], error: IsthmusError) -> Call | Pause | Finished[Result]:
    """Raise an error where an operation waits for the reply; it may handle it, and go on."""
    try:
        return operation.throw(error)
    except StopIteration as end:
        return Finished(end.value)
