"""``http:FORMAT[/OUTPUT]:MODEL[@URL]``: encoders behind a service, in the formats of OpenAI, Cohere, Voyage and Jina.

Texts and pictures are sent to the URL. Without one, to the vendor's own. Keys come from the environment. The encoder
counts what the service charges for: ``encoder.usage``. ``OUTPUT`` asks for vectors of 8 bits (``int8``) or of one bit
(``binary``) a number, where a service has them: smaller answers, which become rows of float32 here. The words of a
query are floats in any case: to round one side loses less than to round both (``reproduce/quantised.py``).
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from isthmus.encoders.base import Role, Settings
from isthmus.encoders.byte_splitter import BYTES_PER_TOKEN, byte_splitter
from isthmus.encoders.data_urls import data_url
from isthmus.encoders.http_usage import HttpUsage, prices
from isthmus.encoders.images import LONGEST, Frame, Pixels
from isthmus.encoders.texts import Strings, TextPassage
from isthmus.encoders.towers import TowerEncoder
from isthmus.encoders.wire_formats import FORMATS, WireFormat, WireRequest
from isthmus.errors import BadInput
from isthmus.registry import lookup
from isthmus.service import HttpService, Pace, plain_url, read_key
from isthmus.types import Matrix

NAME = re.compile(r"(?P<format>[^:]*):(?P<model>(?:(?!@https?:).)+)(?:@(?P<url>https?:.*))?", re.DOTALL)
TOKENS = "ISTHMUS_HTTP_TOKENS"  # of a text, for services whose model reads less than the vendor's
PER_MINUTE = "ISTHMUS_HTTP_PER_MINUTE"  # requests
ANSWER_BYTES = 64 * 2**20
PICTURES_BYTES = 16 * 2**20  # in one request
TRIES = 6
FLOAT = "float"


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class HttpEncoder(TowerEncoder):
    """An encoder behind a service, with the count of what it used."""

    usage: HttpUsage


def open_model(name: str, settings: Settings) -> HttpEncoder:
    """Make an encoder from ``FORMAT:MODEL[@URL]``. One text is sent, to learn the number of dimensions."""
    return encoder_of(HttpModel.parse(name), name, settings)


def encoder_of(model: HttpModel, name: str, settings: Settings) -> HttpEncoder:
    """Make an encoder of a model of a service."""
    tokens = int(_number(TOKENS) or model.format.tokens)
    text = HttpText(model, Strings(byte_splitter(tokens, f"http:{name}"), {"query": "", "document": ""}))
    image = HttpImages(model) if model.format.reads_images.fullmatch(model.model) else None
    dim = text.encode([TextPassage(0, 1, b"document\na")]).shape[1]
    known = repr(("http", name.partition(":")[0], model.model, model.service.url, tokens, dim))
    known += "" if model.output == FLOAT else ", float queries"
    identity = hashlib.sha256(known.encode()).hexdigest()
    return HttpEncoder(
        name=f"http:{name}", dim=dim, identity=identity, text=text, image=image, settings=settings, usage=model.usage
    )


@dataclass(frozen=True, slots=True, eq=False)
class HttpModel:
    """A model of a service."""

    model: str
    format: WireFormat
    service: HttpService
    usage: HttpUsage
    output: str = FLOAT

    @classmethod
    def parse(cls, name: str) -> HttpModel:
        """Read ``FORMAT:MODEL[@URL]``."""
        found = NAME.fullmatch(name)
        if found is None or (found["url"] and not urlsplit(found["url"]).hostname):
            raise BadInput(
                f"{name!r} names no service. Write http:FORMAT:MODEL or http:FORMAT:MODEL@URL, such as "
                f"http:openai:text-embedding-3-small; formats: {', '.join(FORMATS)}."
            )
        word, slash, output = found["format"].partition("/")
        format_ = lookup(FORMATS, word, "wire format of http:")
        if slash:
            lookup({FLOAT: {}, **format_.outputs}, output, f"output of http:{word}")
        if output not in ("", FLOAT) and word == "voyage" and "multimodal" in found["model"]:
            raise BadInput(f"Voyage's multimodal models return float vectors only. Write http:voyage:{found['model']}.")
        url = plain_url(found["url"] or format_.url, found["model"], format_.keys[-1])
        service = service_at(f"{found['model']} at {url}", url, format_.keys)
        usage = HttpUsage(price=prices().get(found["model"]))
        return cls(found["model"], format_, service, usage, output or FLOAT)

    def encode(self, requests: Iterable[tuple[int, WireRequest]], output: str) -> Matrix:
        """Send requests for so many inputs each, and return one row per input."""
        asked = self.format.outputs.get(output, {})
        return np.concatenate(
            [
                self.service.post(path, {**body, **asked}, partial(self._read, count, output))
                for count, (path, body) in requests
            ]
        )

    def _read(self, count: int, output: str, answer: Any) -> Matrix:
        try:
            rows = np.array(self.format.vectors(answer), dtype=np.float32)
            rows = signs(rows) if output == "binary" else rows
            used = self.format.used(answer)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"its answer has no vectors ({type(error).__name__}: {error})"[:200]) from None
        if rows.ndim != 2 or len(rows) != count:
            raise ValueError(f"its vectors have the shape {rows.shape}, for {count} inputs")
        self.usage.add(used)
        return rows


def signs(packed: Matrix) -> Matrix:
    """Unpack bytes, ``(n, d / 8)``, to rows of −1 and 1, ``(n, d)``; the first number is the highest bit.

    >>> signs(np.array([[160.0]])).tolist()
    [[1.0, -1.0, 1.0, -1.0, -1.0, -1.0, -1.0, -1.0]]
    """
    if not ((packed >= 0) & (packed <= 255) & (packed == np.rint(packed))).all():
        raise ValueError("its vectors are not packed bits")
    found: Matrix = np.unpackbits(packed.astype(np.uint8), axis=1).astype(np.float32) * 2 - 1
    return found


def service_at(name: str, url: str, keys: Sequence[str]) -> HttpService:
    """Return a service with its key, many tries, spread pauses, and as many requests a minute as the user allows."""
    per_minute = _number(PER_MINUTE)
    spread = Random()  # noqa: S311 - not for secrets; unseeded, so that clients differ
    return HttpService(
        name=name,
        url=url,
        key=read_key(keys),
        tries=TRIES,
        longest=ANSWER_BYTES,
        advice=f"Check the URL, the model's name and the key in {keys[-1]}",
        spread=lambda: 0.5 + spread.random(),
        pace=Pace(per_minute) if per_minute else None,
    )


@dataclass(frozen=True, slots=True, eq=False)
class HttpText:
    """Texts, by a service."""

    model: HttpModel
    strings: Strings

    def split(self, texts: Sequence[str], role: Role) -> list[list[TextPassage]]:
        """Return the passages of each text, as spans of it."""
        return self.strings.split(texts, role)

    def encode(self, passages: Sequence[TextPassage]) -> Matrix:
        """Return one row per passage."""
        role, texts = self.strings.read(passages)
        model, form = self.model.model, self.model.format
        parts = batches(texts, form.texts, form.together * BYTES_PER_TOKEN)
        output = FLOAT if role == "query" else self.model.output
        return self.model.encode(((len(part), form.text(model, part, role)) for part in parts), output)


@dataclass(frozen=True, slots=True, eq=False)
class HttpImages:
    """Pictures, by a service: sent inline, as JPEG."""

    model: HttpModel

    @property
    def frame(self) -> Frame:
        """The largest size of a picture that is sent."""
        return Frame(LONGEST, "within")

    def encode(self, pixels: Sequence[Pixels]) -> Matrix:
        """Return one row per picture."""
        model, form = self.model.model, self.model.format
        parts = batches([data_url(each) for each in pixels], form.pictures, PICTURES_BYTES)
        return self.model.encode(((len(part), form.image(model, part)) for part in parts), self.model.output)


def batches(inputs: Sequence[str], most: int, size: int) -> Iterator[list[str]]:
    """Yield inputs in order, at most ``most`` at a time and ``size`` bytes, or one that is larger.

    >>> list(batches(["one", "two", "three", "four", "five"], 2, 8))
    [['one', 'two'], ['three'], ['four', 'five']]
    """
    part: list[str] = []
    used = 0
    for each in inputs:
        length = len(each.encode())
        if part and (len(part) == most or used + length > size):
            yield part
            part, used = [], 0
        part.append(each)
        used += length
    if part:
        yield part


def _number(variable: str) -> float | None:
    """Return a positive number from the environment."""
    said = os.environ.get(variable, "").strip()
    if not said:
        return None
    try:
        value = float(said)
    except ValueError:
        value = 0.0
    if not value > 0:
        raise BadInput(f"{variable} is {said!r}; it must be a number above 0.")
    return value
