"""Rewriters: turn a query into other or fewer words.

    rewriter = rewrite.load("forge:openai:qwen2.5-7b-instruct@http://localhost:8000/v1")
    rewriter.rewrite(["Hi all, since the update my …"])           [Rewritten("…", fell_back=None)]

A rewriter never fails: if the model fails, or writes nothing or too much, the query is unchanged and has the reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib import import_module
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from isthmus.align.base import Rewriter, Rewritten
from isthmus.align.limits import Limits
from isthmus.align.prompts import Prompt, read
from isthmus.encoders.images import in_order
from isthmus.errors import BadFile, BadInput
from isthmus.registry import lookup

TRAINED = "prompt.txt"  # written by `isthmus train forge` next to a model
PASSAGE = Limits(tokens=512, words=300)
REPEATED = 5  # how often Query2Doc repeats the query before the passage, for lexical engines

THINKING = re.compile(r"<think>.*?(</think>|\Z)", re.DOTALL)
FENCE = re.compile(r"\A```[\w-]*\n(.*?)\n?```\Z", re.DOTALL)
LABEL = re.compile(
    r"\A[\s*#_]*(?:(?:rewritten|search|optimi[sz]ed|refined|final) )*(?:query|passage)[*_]*:[\s*_]*", re.I
)
QUOTES = {'"': '"', "'": "'", "“": "”", "«": "»", "`": "`"}


class LanguageModel(Protocol):
    """A language model."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def together(self) -> int:
        """How many texts may be written at a time."""

    def write(self, prompt: Prompt, text: str) -> str:
        """Return the model's output for a prompt and a text."""


@dataclass(frozen=True, slots=True)
class Unchanged:
    """``none``: queries are not changed."""

    name: str = "none"

    def rewrite(self, texts: Sequence[str]) -> list[Rewritten]:
        """Return the queries."""
        return [Rewritten(text) for text in texts]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompted:
    """A rewriter by a language model with a prompt; ``put`` combines its output with the query."""

    method: str
    writer: LanguageModel
    prompt: Prompt
    words: int = Limits().words
    put: Callable[[str, str], str]

    @property
    def name(self) -> str:
        """The method and the model."""
        return f"{self.method}:{self.writer.name}"

    def rewrite(self, texts: Sequence[str]) -> list[Rewritten]:
        """Return each query rewritten, or unchanged with the reason."""
        together = self.writer.together
        with closing(in_order(self._rewrite, texts, workers=together, ahead=together)) as several:
            return list(several)

    def _rewrite(self, text: str) -> Rewritten:
        try:
            written = cleaned(self.writer.write(self.prompt, text))
        except Exception as error:  # noqa: BLE001 - a query is searched, whatever a model does
            return Rewritten(text, f"the model failed: {' '.join(str(error).split()) or type(error).__name__}")
        if not written:
            return Rewritten(text, "nothing was written")
        if len(written.split()) > self.words:
            return Rewritten(text, f"more than {self.words} words: {len(written.split())}")
        return Rewritten(self.put(text, written))


def cleaned(written: str) -> str:
    r"""Return a model's output without thoughts, a code fence, a label and quotation marks.

    >>> cleaned('<think>They want …</think>\n**Query:** "segmentation fault in numpy"')
    'segmentation fault in numpy'
    >>> cleaned("```\nboiling point of water\n```")
    'boiling point of water'
    """
    before, text = None, written
    while text != before:
        before, text = text, THINKING.sub("", text).strip()
        fenced = FENCE.match(text)
        text = LABEL.sub("", fenced[1] if fenced else text)
        if len(text) > 1 and QUOTES.get(text[0]) == text[-1] and text[-1] not in text[1:-1]:
            text = text[1:-1]
    return text


def instead(_: str, written: str) -> str:
    """FORGE and HyDE: the output is searched."""
    return written


def beside(query: str, passage: str) -> str:
    """Query2Doc for dense retrieval: the query, BERT's separator, the passage."""
    return f"{query} [SEP] {passage}"


def after(query: str, passage: str) -> str:
    """Query2Doc for lexical retrieval: the query several times, so that a long passage does not outweigh it."""
    return " ".join([*[query] * REPEATED, passage])


@dataclass(frozen=True, slots=True)
class RewriteMethod:
    """How to make a rewriter from a language model."""

    prompt: str
    put: Callable[[str, str], str]
    limits: Limits = PASSAGE
    trainable: bool = False  # a model of `isthmus train` has the prompt and the limits it was trained with


METHODS: Mapping[str, RewriteMethod] = MappingProxyType(
    {
        "forge": RewriteMethod("forge", instead, Limits(), trainable=True),
        "hyde": RewriteMethod("hyde", instead),
        "query2doc": RewriteMethod("query2doc", beside),
        "query2doc-words": RewriteMethod("query2doc", after),
    }
)
MINI = "forge-mini"


def load(
    name: str,
    *,
    prompt: str | PathLike[str] | None = None,
    tokens: int | None = None,
    words: int | None = None,
    device: str = "cpu",
) -> Rewriter:
    """Load a rewriter by name: ``none``, ``forge-mini``, or a method with a model: ``forge:hf:NAME_OR_PATH``.

    Methods are ``forge``, ``hyde``, ``query2doc`` and ``query2doc-words``; models ``hf:NAME_OR_PATH`` and
    ``openai:MODEL@URL``. ``prompt`` is the path of a text file with another prompt; the default is
    ours, or the one that a model of `isthmus train forge` was trained with. The same holds for the most ``tokens`` that
    the model writes and the most ``words`` of a rewrite: 256 and 200 for ``forge``, 512 and 300 for passages.

    >>> load("forge-mimi")
    Traceback (most recent call last):
    isthmus.errors.UnknownName: No rewriter is called 'forge-mimi'. Did you mean 'forge-mini'?
    """
    kind, colon, which = name.partition(":")
    lookup(dict.fromkeys(NAMES), kind, "rewriter")
    if kind in WITHOUT_MODEL:
        if colon:
            raise BadInput(f"{kind} takes no model: write {kind} alone.")
        return WITHOUT_MODEL[kind]()
    method = METHODS[kind]
    trained = _trained(which) if method.trainable else None
    limits = (trained and Limits.read(trained)) or method.limits
    limits = Limits(limits.tokens if tokens is None else tokens, limits.words if words is None else words)
    if prompt is None and trained and (trained / TRAINED).is_file():
        prompt = trained / TRAINED
    return Prompted(
        method=kind,
        writer=_writer(kind, which, device, limits.tokens),
        prompt=read(method.prompt, prompt, words=limits.words),
        words=limits.words,
        put=method.put,
    )


def _writer(method: str, name: str, device: str, tokens: int) -> LanguageModel:
    kind, _, which = name.partition(":")
    if not name or not which:
        raise BadInput(f"{method} needs a model. Write {method}:hf:NAME_OR_PATH or {method}:openai:MODEL@URL.")
    return lookup(WRITERS, kind, "kind of language model")(which, device, tokens)


def _trained(model: str) -> Path | None:
    """Return the folder of a model, which `isthmus train forge` may have written."""
    kind, _, which = model.partition(":")
    return Path(which).expanduser() if kind == "hf" and which else None


def _hf(name: str, device: str, tokens: int) -> LanguageModel:
    from isthmus.align.hf import open_writer

    return open_writer(name, device, tokens)


def _openai(name: str, _: str, tokens: int) -> LanguageModel:
    from isthmus.align.chat import ChatWriter, Endpoint

    return ChatWriter(Endpoint.parse(name), tokens)


def _mini() -> Rewriter:
    try:
        rewriter: Rewriter = import_module("isthmus.align.mini").load()
    except ModuleNotFoundError as error:
        if error.name != "isthmus.align.mini":
            raise
        raise BadFile(
            f"{MINI!r} is not in this installation. Install isthmus again, or name another aligner (caption, "
            "forge:hf:NAME_OR_PATH)."
        ) from None
    return rewriter


WRITERS: Mapping[str, Callable[[str, str, int], LanguageModel]] = MappingProxyType({"hf": _hf, "openai": _openai})
WITHOUT_MODEL: Mapping[str, Callable[[], Rewriter]] = MappingProxyType({"none": Unchanged, MINI: _mini})
NAMES = (*WITHOUT_MODEL, *METHODS)
