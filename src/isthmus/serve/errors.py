"""Errors as HTTP responses: a status, a message that shows no path of this machine, and the id of the request.

    {"error": {"type": "UnknownDocument", "message": "No document is called 'b' in things. …", "request_id": "…"}}

The status is that of ``isthmus.errors.CODES``. From 500 on, the message says only that the server failed: the log has
the rest under the same id.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from isthmus.errors import CannotReach, CannotWrite, IsthmusError, MissingExtra, UnfinishedCopy, codes_of
from isthmus.serve.answers import answer, public_text

LOG = logging.getLogger("isthmus.serve")
GONE = 499  # nginx's status of a client that closed the connection
SAID = (CannotReach, CannotWrite, MissingExtra)  # errors from 500 on whose message helps the client


class Refused(IsthmusError):
    """A request that is not answered: ``status`` and ``headers`` say why, and when to try again."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.headers = status, dict(headers or {})

    @classmethod
    def later(cls, status: int, message: str, seconds: float = 1.0) -> Refused:
        """Return a refusal that says when to try again."""
        return cls(status, message, {"Retry-After": str(max(1, round(seconds)))})


def error_answer(kind: str, message: str, status: int, request_id: str, headers: Mapping[str, str] = {}) -> Response:
    """Return the response of an error."""
    form = {"error": {"type": kind, "message": public_text(message), "request_id": request_id}}
    return answer(form, status=status, headers=headers)


def request_id(request: Request) -> str:
    """Return the id of a request."""
    return str(request.scope.get("isthmus.request_id", ""))


def add_handlers(app: FastAPI) -> None:
    """Turn exceptions into responses; ``RequestGuard`` does it for those that nobody expected."""
    app.add_exception_handler(IsthmusError, _ours)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(ClientDisconnect, _gone)


def _ours(request: Request, error: Exception) -> Response:
    name, asked = type(error).__name__, request_id(request)
    if isinstance(error, Refused):
        return error_answer(name, str(error), error.status, asked, error.headers)
    status = codes_of(error).status if isinstance(error, IsthmusError) else 500
    if isinstance(error, UnfinishedCopy):  # its own message names where the source is
        return error_answer(
            name, "This collection is a copy that is not complete yet.", status, asked, {"Retry-After": "60"}
        )
    if status < 500 or isinstance(error, SAID):
        headers = {"Retry-After": "1"} if status == 503 else {}
        return error_answer(name, str(error), status, asked, headers)
    return failed(error, status, asked)


def _invalid(request: Request, error: Exception) -> Response:
    found: list[Any] = list(error.errors()) if isinstance(error, RequestValidationError) else []
    said = "; ".join(f"{'.'.join(map(str, one['loc'][1:]))}: {one['msg']}" for one in found)
    return error_answer("BadInput", f"The request cannot be read: {said}.", 400, request_id(request))


def _http(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
    said = "There is nothing at this address. See /openapi.json." if status == 404 else f"{HTTPStatus(status).phrase}."
    return error_answer("Refused", said, status, request_id(request), headers)


def _gone(request: Request, _: Exception) -> Response:
    """Return what the log and the counters tell of a client that left before its request had come; nobody reads it."""
    return error_answer("Refused", "The client has left.", GONE, request_id(request))


def failed(error: Exception, status: int, asked: str) -> Response:
    """Log an error under the id of its request, and return the response, which says the id alone."""
    LOG.error("the request failed", exc_info=error, extra={"request_id": asked})
    said = f"The server failed. Its log says why, under the request id {asked}."
    return error_answer("IsthmusError", said, status, asked)
