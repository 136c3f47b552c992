"""``openai:MODEL@URL``: any endpoint that implements OpenAI's chat completions, over the standard library's HTTP.

Queries are sent to the URL: words, and pictures as data URLs.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from isthmus.align.prompts import Prompt
from isthmus.documents import ImageLike
from isthmus.encoders.data_urls import data_url
from isthmus.encoders.images import in_order
from isthmus.errors import BadInput
from isthmus.service import LONGEST, HttpService, plain_url, read_key

NAME = re.compile(r"(?P<model>.+?)@(?P<url>https?://.+)", re.DOTALL)
KEYS = ("ISTHMUS_OPENAI_KEY", "OPENAI_API_KEY")  # the first that is set
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
        url = plain_url(found["url"], found["model"], KEYS[0])
        return cls(model=found["model"], url=url, key=read_key(KEYS))

    @property
    def name(self) -> str:
        """The model and its URL, without a password."""
        parts = urlsplit(self.url)
        return f"openai:{self.model}@{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    def ask(self, messages: Sequence[Message], tokens: int = TOKENS) -> str:
        """Return the model's answer, at temperature 0."""
        body = {"model": self.model, "messages": list(messages), "temperature": 0, "max_tokens": tokens}
        service = HttpService(
            name=self.name,
            url=self.url,
            key=self.key,
            timeout=self.timeout,
            tries=self.tries,
            pause=self.pause,
            longest=LONGEST,
            wait=self.wait,
        )
        return service.post("/chat/completions", body, _said)


def _said(answer: Any) -> str:
    try:
        said = answer["choices"][0]["message"]["content"]
    except (LookupError, TypeError) as error:
        raise ValueError(f"its answer is not a chat completion ({type(error).__name__}: {error})"[:200]) from None
    if said is not None and not isinstance(said, str):
        raise ValueError(f"its answer is not a chat completion (a content of type {type(said).__name__})")
    return said or ""


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
    tokens: int = TOKENS

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
        messages = [{"role": "system", "content": prompt.text}, {"role": "user", "content": text}]
        return self.endpoint.ask(messages, self.tokens)
