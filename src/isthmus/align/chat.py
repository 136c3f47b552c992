"""``openai:MODEL@URL``: any endpoint that implements OpenAI's chat completions, over the standard library's HTTP.

Queries are sent to the URL: words, and pictures as data URLs.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from io import BytesIO
from typing import IO, Any
from urllib.parse import urlsplit

from isthmus._optional import offline
from isthmus.align.prompts import Prompt
from isthmus.documents import ImageLike
from isthmus.encoders.images import file_bytes, in_order, whole
from isthmus.errors import BadInput, CannotReach

NAME = re.compile(r"(?P<model>.+?)@(?P<url>https?://.+)", re.DOTALL)
KEYS = ("ISTHMUS_OPENAI_KEY", "OPENAI_API_KEY")  # the first that is set
HERE = ("localhost", "127.0.0.1", "::1")
AGAIN = (408, 409, 425, 429)  # and 500 and above: temporary errors
LONGEST = 8 * 2**20  # bytes of an answer
LARGEST = 4 * 2**20  # maximum bytes of a picture that is sent unchanged
SIDE = 2048  # pixels of a larger one's longer side
KINDS = {b"\x89PNG": "png", b"\xff\xd8\xff": "jpeg", b"GIF8": "gif"}
TOKENS = 512  # that an answer may have
Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A model at a URL. A request is tried at most ``tries`` times; ``wait`` sleeps in between, doubling each time."""

    model: str
    url: str
    key: str | None = field(default=None, repr=False)
    timeout: float = 60.0
    tries: int = 3
    pause: float = 0.5
    together: int = 4  # concurrent requests
    wait: Callable[[float], None] = field(default=time.sleep, repr=False)

    @classmethod
    def parse(cls, name: str) -> Endpoint:
        """Read ``MODEL@URL``; the key comes from ``ISTHMUS_OPENAI_KEY`` or ``OPENAI_API_KEY``.

        >>> Endpoint.parse("qwen2.5-vl@http://localhost:8000/v1").model
        'qwen2.5-vl'
        >>> Endpoint.parse("qwen2.5-vl")
        Traceback (most recent call last):
        isthmus.errors.BadInput: 'qwen2.5-vl' names no endpoint. Write openai:MODEL@URL, such as openai:qwen2.5-vl@http://localhost:8000/v1.
        """
        found = NAME.fullmatch(name)
        if found is None or not urlsplit(found["url"]).hostname:
            raise BadInput(
                f"{name!r} names no endpoint. Write openai:MODEL@URL, such as openai:qwen2.5-vl@http://localhost:8000/v1."
            )
        where = urlsplit(found["url"])
        if where.username is not None or where.query or where.fragment:
            raise BadInput(
                f"The URL of {found['model']!r} contains a password, a ? or a #. Write the plain URL, such as "
                f"http://localhost:8000/v1; a key belongs in {KEYS[0]}."
            )
        variable = next((variable for variable in KEYS if os.environ.get(variable, "").strip()), None)
        key = None if variable is None else os.environ[variable].strip()
        if key is not None and not (key.isascii() and key.isprintable()):
            raise BadInput(f"The key in {variable} contains invalid characters. Set it again, without line breaks.")
        return cls(model=found["model"], url=found["url"].rstrip("/"), key=key)

    @property
    def name(self) -> str:
        """The model and its URL, without a password."""
        parts = urlsplit(self.url)
        return f"openai:{self.model}@{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    def ask(self, messages: Sequence[Message], tokens: int = TOKENS) -> str:
        """Return the model's answer, at temperature 0."""
        if offline() and urlsplit(self.url).hostname not in HERE:
            raise CannotReach(
                f"{self.name} is not on this machine, and offline is set. Unset it, or use another model."
            )
        body = {"model": self.model, "messages": list(messages), "temperature": 0, "max_tokens": tokens}
        problem = ""
        for attempt in range(self.tries):
            if attempt:
                self.wait(self.pause * 2 ** (attempt - 1))
            try:
                return self._said(self._post(json.dumps(body).encode()))
            except urllib.error.HTTPError as error:
                with error:
                    problem = f"it answered {error.code} {error.reason}{_detail(error)}"
                if error.code < 500 and error.code not in AGAIN:
                    break
            except (OSError, http.client.HTTPException) as error:
                problem = f"{getattr(error, 'reason', None) or error or type(error).__name__}"
            except ValueError as error:
                problem = f"its answer is not a chat completion ({error})"
        raise CannotReach(f"The request to {self.name} failed: {problem}. Check the URL, the model's name and the key.")

    def _post(self, body: bytes) -> bytes:
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {self.key}"} if self.key else {})
        request = urllib.request.Request(f"{self.url}/chat/completions", body, headers)  # noqa: S310 - http(s) alone
        proxies: dict[str, str] | None = {} if urlsplit(self.url).hostname in HERE else None  # none on the way here
        opener = urllib.request.build_opener(_NoRedirect, urllib.request.ProxyHandler(proxies))
        with closing(opener.open(request, timeout=self.timeout)) as answer:
            read: bytes = answer.read(LONGEST + 1)
        if len(read) > LONGEST:
            raise ValueError(f"more than {LONGEST:,} bytes")
        return read

    @staticmethod
    def _said(answer: bytes) -> str:
        try:
            said = json.loads(answer)["choices"][0]["message"]["content"]
        except (ValueError, RecursionError, LookupError, TypeError) as error:
            raise ValueError(f"{type(error).__name__}: {error}"[:200]) from None
        if said is not None and not isinstance(said, str):
            raise ValueError(f"a content of type {type(said).__name__}")
        return said or ""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Does not follow redirects: a key must not reach another host."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> None:
        """Follow none."""


def _detail(error: urllib.error.HTTPError) -> str:
    """Return the service's error message, if it can be read."""
    try:
        said = json.loads(error.read(LONGEST))
        detail = said["error"]["message"] if isinstance(said.get("error"), dict) else said.get("error", "")
    except (OSError, ValueError, RecursionError, LookupError, AttributeError, http.client.HTTPException):
        return ""
    return f": {' '.join(str(detail).split())[:200]}" if detail else ""


@dataclass(frozen=True, slots=True)
class ChatCaptioner:
    """Captions pictures with a vision language model."""

    endpoint: Endpoint
    prompt: Prompt

    @property
    def name(self) -> str:
        """The model and its URL."""
        return self.endpoint.name

    @property
    def identity(self) -> str:
        """Identifies everything its captions depend on."""
        return f"{self.name}\0{self.prompt.digest}"

    def caption(self, images: Sequence[ImageLike]) -> list[str]:
        """Return the model's caption of each picture."""
        together = self.endpoint.together
        with closing(in_order(self._caption, images, workers=together, ahead=together)) as several:
            return list(several)

    def _caption(self, image: ImageLike) -> str:
        seen = {"type": "image_url", "image_url": {"url": data_url(image)}}
        content = [{"type": "text", "text": self.prompt.text}, seen]
        return self.endpoint.ask([{"role": "user", "content": content}])


@dataclass(frozen=True, slots=True)
class ChatWriter:
    """Writes with a language model."""

    endpoint: Endpoint

    @property
    def name(self) -> str:
        """The model and its URL."""
        return self.endpoint.name

    @property
    def together(self) -> int:
        """How many texts may be written at a time."""
        return self.endpoint.together

    def write(self, prompt: Prompt, text: str) -> str:
        """Return the model's output for a prompt and a text."""
        return self.endpoint.ask([{"role": "system", "content": prompt.text}, {"role": "user", "content": text}])


def data_url(image: ImageLike) -> str:
    """Return a picture as a data URL: the unchanged file if it is small and in a common format.

    >>> data_url(b"GIF89a" + bytes(20))[:22]
    'data:image/gif;base64,'
    """
    data = file_bytes(image)
    kind = next((kind for start, kind in KINDS.items() if data is not None and data.startswith(start)), None)
    if data is None or kind is None or len(data) > LARGEST:
        picture = whole(image)
        picture.thumbnail((SIDE, SIDE))
        written = BytesIO()
        picture.save(written, "JPEG", quality=90)
        data, kind = written.getvalue(), "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
