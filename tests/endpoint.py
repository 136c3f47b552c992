"""A local endpoint with scripted answers, or with answers made from each request."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any


@dataclass
class Answer:
    """An answer: a status, a body, headers; or none at all, until the end."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    never: bool = False


Reply = Callable[[str, dict[str, Any]], Answer]


def said(content: object) -> Answer:
    return Answer(json.dumps({"choices": [{"message": {"role": "assistant", "content": content}}]}).encode())


@dataclass
class Service:
    """The endpoint's address, the requests it got, and its answers; the last answer repeats."""

    url: str
    answers: list[Answer]
    reply: Reply | None = None  # makes the answer where none is scripted
    asked: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)


@contextmanager
def serving(answers: Sequence[Answer] = (), reply: Reply | None = None) -> Iterator[Service]:
    service, over = Service("", list(answers), reply), Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            service.asked.append(json.loads(body))
            service.headers.append(dict(self.headers))
            service.paths.append(self.path)
            if service.reply is not None and not service.answers:
                answer = service.reply(self.path, service.asked[-1])
            elif len(service.answers) > 1 or service.reply is not None:
                answer = service.answers.pop(0)
            else:
                answer = service.answers[0]
            if answer.never:
                over.wait()
                return
            self.send_response(answer.status)
            for name, value in {"Content-Length": str(len(answer.body)), **answer.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.body)

        def do_GET(self) -> None:
            """Take a redirect that is followed, which comes so."""
            service.paths.append(self.path)

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        service.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield service
        finally:
            over.set()
            server.shutdown()
            thread.join()
