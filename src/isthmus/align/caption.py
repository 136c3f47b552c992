"""Captions: turn pictures into words, each picture once.

    captioner = caption.load("embedded", encoder=encoder)
    captioner.caption(["shot.png"])                             ["Segmentation fault (core dumped) …"]

``embedded`` needs no model other than the collection's encoder, ``hf:NAME`` runs a local model, ``openai:MODEL@URL``
sends the picture to a service. Captions are deterministic: decoding is greedy (temperature 0), and captions are cached.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from types import MappingProxyType
from typing import NamedTuple, Protocol

from isthmus.align.cache import CaptionCache, caption_key
from isthmus.align.prompts import Prompt, read
from isthmus.documents import ImageLike
from isthmus.encoders import Encoder
from isthmus.errors import BadInput
from isthmus.registry import lookup

TOGETHER = 8  # pictures per batch; captions are stored after each, so a failure loses one batch


class Maker(Protocol):
    """A captioner without a cache."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def identity(self) -> str:
        """Identifies everything its captions depend on."""

    def caption(self, images: Sequence[ImageLike]) -> list[str]:
        """Return a caption for each picture; an empty string if there is none."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """A captioner with a cache."""

    maker: Maker
    cache: CaptionCache = field(default_factory=CaptionCache)

    @property
    def name(self) -> str:
        """The name of the captioner."""
        return self.maker.name

    def caption(self, images: Sequence[ImageLike]) -> list[str]:
        """Return a caption for each picture, from the cache if it is there."""
        identity = self.maker.identity
        keys = [caption_key(identity, image) for image in images]
        found = {name: self.cache.get(name) for name in dict.fromkeys(keys)}
        missing = {name: image for name, image in zip(keys, images, strict=True) if found[name] is None}
        names = list(missing)
        for start in range(0, len(names), TOGETHER):
            some = names[start : start + TOGETHER]
            for name, caption in zip(some, self.maker.caption([missing[name] for name in some]), strict=True):
                found[name] = caption.strip()
                self.cache.put(name, caption.strip(), self.maker.name)
        return [found[name] or "" for name in keys]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptionerSettings:
    """Settings of captioners; each uses those it needs."""

    encoder: Encoder | None = None
    prompt: Prompt
    device: str = "cpu"
    threads: int | None = None


def load(
    name: str = "embedded",
    *,
    encoder: Encoder | None = None,
    prompt: str | PathLike[str] | None = None,
    cache: str | PathLike[str] | CaptionCache | None = None,
    device: str = "cpu",
    threads: int | None = None,
) -> Remembered:
    """Load a captioner by name: ``embedded``, ``hf:NAME_OR_PATH`` or ``openai:MODEL@URL``.

    ``encoder`` is for the phrases of ``embedded``; ``prompt`` is the path of a text file with another prompt; ``cache``
    is the folder for captions (default: in the user's cache folder).

    >>> load("embeded")
    Traceback (most recent call last):
    isthmus.errors.UnknownName: No captioner is called 'embeded'. Did you mean 'embedded'?
    """
    kind, colon, which = name.partition(":")
    found = lookup(KINDS, kind, "captioner")
    if bool(found.model) != bool(colon) or (colon and not which):
        *others, last = (f"{known}:{each.model}" if each.model else known for known, each in KINDS.items())
        raise BadInput(f"{name!r} is not a captioner's full name. Write {', '.join(others)} or {last}.")
    kept = cache if isinstance(cache, CaptionCache) else CaptionCache(cache)
    settings = CaptionerSettings(encoder=encoder, prompt=read("caption", prompt), device=device, threads=threads)
    return Remembered(found.make(which, settings), kept)


def _embedded(_: str, settings: CaptionerSettings) -> Maker:
    from isthmus.align.embedded import EmbeddedCaptioner
    from isthmus.align.ocr import TextReader

    return EmbeddedCaptioner(settings.encoder, reader=TextReader(settings.threads))


def _hf(name: str, settings: CaptionerSettings) -> Maker:
    from isthmus.align.hf import open_captioner

    return open_captioner(name, settings.prompt, settings.device)


def _openai(name: str, settings: CaptionerSettings) -> Maker:
    from isthmus.align.chat import ChatCaptioner, Endpoint

    return ChatCaptioner(Endpoint.parse(name), settings.prompt)


class CaptionerKind(NamedTuple):
    """How to make captioners of a kind, and how to write the model after the colon; empty if there is none."""

    make: Callable[[str, CaptionerSettings], Maker]
    model: str = ""


KINDS: Mapping[str, CaptionerKind] = MappingProxyType(
    {
        "embedded": CaptionerKind(_embedded),
        "hf": CaptionerKind(_hf, "NAME_OR_PATH"),
        "openai": CaptionerKind(_openai, "MODEL@URL"),
    }
)
