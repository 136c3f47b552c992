"""Sessions: they send the requests of an operation, with retries, timeouts and a key; one blocks, one is awaited.

Sent again, at most ``tries`` times in all: what the server has not begun (429, no connection), and for requests that
may be repeated also 503, 502, 504 and lost connections. Between them a session waits as long as ``Retry-After`` says,
else ``pause`` seconds, doubled each time. Redirects are not followed, so that a key reaches no other host.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import httpx2

from isthmus._optional import offline
from isthmus.client.calls import Call, Finished, Operation, Pause, Reply, Result, advance, error_of, fail, start
from isthmus.errors import BadInput, CannotReach, Closed, IsthmusError
from isthmus.service import HERE, retry_after

BUSY = (502, 503, 504)
TOO_MANY = 429
NOT_BEGUN = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)  # the server has seen nothing
LONGEST_WAIT = 60.0  # seconds that a server may ask for; more is an error


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectSettings:
    """How a server is reached. ``timeout``: seconds for a connection, and between two pieces of an answer."""

    url: str
    key: str | None = field(default=None, repr=False)
    timeout: float = 60.0
    tries: int = 3
    pause: float = 0.5
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)
    async_sleep: Callable[[float], Awaitable[None]] = field(default=asyncio.sleep, repr=False)

    def __post_init__(self) -> None:
        where = urlsplit(self.url)
        if where.scheme not in ("http", "https") or not where.hostname or where.query or where.fragment:
            raise BadInput(f"{self.url!r} is not the URL of a server. Write it as in http://localhost:8080.")
        if where.username is not None:
            raise BadInput("The URL contains a name or a password. Leave it out, and give the key as key=….")
        if self.key is not None and not (self.key.isascii() and self.key.isprintable() and self.key):
            raise BadInput("The key is empty or contains invalid characters. Copy it again, without line breaks.")
        if self.timeout <= 0 or self.tries < 1:
            raise BadInput(f"timeout is {self.timeout} and tries is {self.tries}; both must be more than 0.")
        if offline() and where.hostname not in HERE:
            raise CannotReach(f"{where.hostname} is not this machine, and offline is set. Unset it to connect.")

    @property
    def headers(self) -> dict[str, str]:
        """The headers of every request."""
        return {} if self.key is None else {"Authorization": f"Bearer {self.key}"}

    @property
    def is_local(self) -> bool:
        """Whether the server is on this machine; requests to it pass no proxy."""
        return urlsplit(self.url).hostname in HERE


@dataclass(slots=True)
class Attempts:
    """The attempts of one call: whether another one is allowed, and how long to wait before it."""

    settings: ConnectSettings
    call: Call
    made: int = 0

    def after(self, answer: httpx2.Response) -> Reply | float:
        """Return the reply, or the seconds to wait before the next attempt; raise what the server answered."""
        if answer.is_success:
            return Reply(answer.content)
        if answer.is_redirect:
            raise CannotReach(f"The server redirects to {answer.headers.get('location')!r}. Connect to that URL.")
        problem = error_of(answer.status_code, answer.content)
        again = answer.status_code == TOO_MANY or (self.call.repeatable and answer.status_code in BUSY)
        return self._wait(problem, retry_after(answer.headers.get("Retry-After")), again=again)

    def after_error(self, error: httpx2.TransportError) -> float:
        """Return the seconds to wait before the next attempt; raise ``CannotReach`` if there is none."""
        said = str(error) or type(error).__name__
        problem = CannotReach(f"{self.settings.url} does not answer: {said}. Is `isthmus serve` running there?")
        return self._wait(problem, None, again=self.call.repeatable or isinstance(error, NOT_BEGUN))

    def _wait(self, problem: IsthmusError, asked: float | None, *, again: bool) -> float:
        self.made += 1
        if not again or self.made >= self.settings.tries or (asked or 0) > LONGEST_WAIT:
            raise problem from None
        return self.settings.pause * 2 ** (self.made - 1) if asked is None else asked


def request_of(call: Call, client: httpx2.Client | httpx2.AsyncClient) -> httpx2.Request:
    """Return the HTTP request of a call."""
    headers = {} if call.body is None else {"Content-Type": call.kind}
    return client.build_request(
        call.method, call.path, content=call.body, params=dict(call.params) or None, headers=headers
    )


class Session:
    """Runs operations, and blocks while it waits. It may be used by several threads."""

    def __init__(self, settings: ConnectSettings) -> None:
        self.settings = settings
        self.client = httpx2.Client(
            base_url=settings.url, headers=settings.headers, timeout=settings.timeout, trust_env=not settings.is_local
        )

    def run(self, operation: Operation[Result]) -> Result:
        """Run an operation and return its result."""
        step = start(operation)
        while not isinstance(step, Finished):
            if isinstance(step, Pause):
                self.settings.sleep(step.seconds)
                step = advance(operation, Reply(b""))
            else:
                try:
                    reply = self._send(step)
                except IsthmusError as error:
                    step = fail(operation, error)
                else:
                    step = advance(operation, reply)
        return step.result

    def _send(self, call: Call) -> Reply:
        attempts = Attempts(self.settings, call)
        while True:
            check_open(self.client)
            try:
                outcome = attempts.after(self.client.send(request_of(call, self.client)))
            except httpx2.TransportError as error:
                outcome = attempts.after_error(error)
            if isinstance(outcome, Reply):
                return outcome
            self.settings.sleep(outcome)

    def close(self) -> None:
        """Close the connections."""
        self.client.close()


class AsyncSession:
    """Runs operations without blocking the event loop."""

    def __init__(self, settings: ConnectSettings) -> None:
        self.settings = settings
        self.client = httpx2.AsyncClient(
            base_url=settings.url, headers=settings.headers, timeout=settings.timeout, trust_env=not settings.is_local
        )

    async def run(self, operation: Operation[Result]) -> Result:
        """Run an operation and return its result."""
        step = start(operation)
        while not isinstance(step, Finished):
            if isinstance(step, Pause):
                await self.settings.async_sleep(step.seconds)
                step = advance(operation, Reply(b""))
            else:
                try:
                    reply = await self._send(step)
                except IsthmusError as error:
                    step = fail(operation, error)
                else:
                    step = advance(operation, reply)
        return step.result

    async def _send(self, call: Call) -> Reply:
        attempts = Attempts(self.settings, call)
        while True:
            check_open(self.client)
            try:
                outcome = attempts.after(await self.client.send(request_of(call, self.client)))
            except httpx2.TransportError as error:
                outcome = attempts.after_error(error)
            if isinstance(outcome, Reply):
                return outcome
            await self.settings.async_sleep(outcome)

    async def close(self) -> None:
        """Close the connections."""
        await self.client.aclose()


def check_open(client: httpx2.Client | httpx2.AsyncClient) -> None:
    """Raise ``Closed`` after the end of a session."""
    if client.is_closed:
        raise Closed("The connection was closed. Connect again.")
