"""Requests to a service that speaks JSON over HTTP, by the standard library: retries, waits, limits, keys.

What may pass (429, 500 and above, a lost connection) is tried again: after as many seconds as the service asks for in
``Retry-After``, else after a pause that doubles each time. Redirects are not followed, so that a key reaches no other
host. With offline set, only services on this machine are asked.
"""

from __future__ import annotations

import http.client
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from threading import Lock
from typing import IO, Any, TypeVar
from urllib.parse import urlsplit

from isthmus._optional import offline
from isthmus.errors import BadInput, CannotReach

HERE = ("localhost", "127.0.0.1", "::1")
AGAIN = (408, 409, 425, 429)  # and 500 and above: temporary errors
LONGEST = 8 * 2**20  # bytes of an answer
LONGEST_WAIT = 120.0  # seconds that a service may ask for; more is an error
Read = TypeVar("Read")


def _always() -> float:
    return 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpService:
    """A service at a URL. A request is tried at most ``tries`` times; ``wait`` sleeps in between.

    ``spread`` gives the factor of each pause: random numbers keep many clients from trying again at the same moment.
    """

    name: str  # in error messages
    url: str
    key: str | None = field(default=None, repr=False)
    timeout: float = 60.0
    tries: int = 3
    pause: float = 0.5
    longest: int = LONGEST
    advice: str = "Check the URL, the model's name and the key"
    wait: Callable[[float], None] = field(default=time.sleep, repr=False)
    spread: Callable[[], float] = field(default=_always, repr=False)
    pace: Pace | None = None

    def post(self, path: str, body: object, read: Callable[[Any], Read]) -> Read:
        """Post JSON and return what ``read`` takes from the answer; it raises ``ValueError`` if that is not there."""
        if offline() and urlsplit(self.url).hostname not in HERE:
            raise CannotReach(
                f"{self.name} is not on this machine, and offline is set. Unset it, or use another model."
            )
        sent = json.dumps(body).encode()
        problem, asked_for = "", None
        for attempt in range(self.tries):
            if attempt:
                self.wait(self.pause * 2 ** (attempt - 1) * self.spread() if asked_for is None else asked_for)
            asked_for = None
            if self.pace is not None:
                self.pace.next()
            try:
                return read(_parsed(self._post(path, sent)))
            except urllib.error.HTTPError as error:
                with error:
                    asked_for = retry_after(error.headers.get("Retry-After"))
                    problem = f"it answered {error.code} {error.reason}{_detail(error)}"
                if (error.code < 500 and error.code not in AGAIN) or (asked_for or 0) > LONGEST_WAIT:
                    break
            except (OSError, http.client.HTTPException) as error:
                problem = f"{getattr(error, 'reason', None) or error or type(error).__name__}"
            except ValueError as error:
                problem = str(error)
        raise CannotReach(f"The request to {self.name} failed: {problem}. {self.advice}.")

    def _post(self, path: str, body: bytes) -> bytes:
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {self.key}"} if self.key else {})
        request = urllib.request.Request(f"{self.url}{path}", body, headers)  # noqa: S310 - http(s) alone
        proxies: dict[str, str] | None = {} if urlsplit(self.url).hostname in HERE else None  # none on the way here
        opener = urllib.request.build_opener(_NoRedirect, urllib.request.ProxyHandler(proxies))
        with closing(opener.open(request, timeout=self.timeout)) as answer:
            read: bytes = answer.read(self.longest + 1)
        if len(read) > self.longest:
            raise ValueError(f"its answer has more than {self.longest:,} bytes")
        return read


@dataclass(slots=True, eq=False)
class Pace:
    """At most ``per_minute`` requests: the next one waits until its time has come."""

    per_minute: float
    clock: Callable[[], float] = time.monotonic
    wait: Callable[[float], None] = time.sleep
    _free: float = 0.0  # when the next request may start
    _lock: Lock = field(default_factory=Lock)

    def next(self) -> None:
        """Wait for the time of the next request."""
        with self._lock:
            now = self.clock()
            start = max(now, self._free)
            self._free = start + 60.0 / self.per_minute
        if start > now:
            self.wait(start - now)


def read_key(variables: Sequence[str]) -> str | None:
    """Return the key in the first of these environment variables that is set."""
    variable = next((variable for variable in variables if os.environ.get(variable, "").strip()), None)
    key = None if variable is None else os.environ[variable].strip()
    if key is not None and not (key.isascii() and key.isprintable()):
        raise BadInput(f"The key in {variable} contains invalid characters. Set it again, without line breaks.")
    return key


def plain_url(url: str, model: str, variable: str) -> str:
    """Return a URL without its last slash; reject one that has a password, a query or a fragment."""
    where = urlsplit(url)
    if where.username is not None or where.query or where.fragment:
        raise BadInput(
            f"The URL of {model!r} contains a password, a ? or a #. Write the plain URL, such as "
            f"http://localhost:8000/v1; a key belongs in {variable}."
        )
    return url.rstrip("/")


def _parsed(answer: bytes) -> Any:
    try:
        return json.loads(answer)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"its answer is not JSON ({type(error).__name__}: {error})"[:200]) from None


def retry_after(header: str | None) -> float | None:
    """Return the seconds of a Retry-After header: a number, or a date."""
    if header is None:
        return None
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    except (ValueError, TypeError):
        return None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Does not follow redirects: a key must not reach another host."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> None:
        """Follow none."""


def _detail(error: urllib.error.HTTPError) -> str:
    """Return the service's error message, if it can be read: OpenAI's ``error.message``, others' ``message``."""
    try:
        said = json.loads(error.read(LONGEST))
        found = said.get("error", said.get("message", said.get("detail", "")))
        detail = found["message"] if isinstance(found, dict) else found
    except (OSError, ValueError, RecursionError, LookupError, AttributeError, http.client.HTTPException):
        return ""
    return f": {' '.join(str(detail).split())[:200]}" if detail else ""
