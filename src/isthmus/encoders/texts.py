"""Split long texts into passages: whole words where possible, no overlap, nothing lost."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from isthmus.budget import MODEL_BYTES
from isthmus.encoders.base import Role
from isthmus.errors import BadFile
from isthmus.files import read_regular

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

AT_ONCE = 256 * 1024  # characters tokenized at a time; a tokenizer needs about 600 bytes per token
BOUNDARY = re.compile(r"(?<=\S)(?=\s)")
PROBES = 100  # entries of the vocabulary to try when looking for the tokens around a text


@dataclass(frozen=True, slots=True)
class TextPassage:
    """A span ``text[start:end]``, and the content that decides its vector: the model's input."""

    start: int
    end: int
    content: bytes

    @property
    def tokens(self) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        """The content as tokens."""
        return np.frombuffer(self.content, dtype=np.int32)


class Tokens(NamedTuple):
    """The tokens of a text as arrays: a list of Python numbers would need 20 times the memory."""

    ids: NDArray[np.int32]
    starts: NDArray[np.int32]  # start and end of each in the text
    ends: NDArray[np.int32]
    words: NDArray[np.int32]  # the word of each; a unique negative number where the tokenizer has none


class TokenizedWord(NamedTuple):
    """A word ``text[start:end]`` as the tokenizer sees words, and the positions of its tokens in its passage."""

    start: int
    end: int
    tokens: list[int]


@dataclass(frozen=True, slots=True, eq=False)
class Splitter:
    """Split texts into passages of at most ``length`` tokens, including the special tokens around each.

    A text of n tokens with room for r in a passage becomes ⌈n / r⌉ passages of about the same length, or
    one more where words would not fit otherwise. A passage ends where a word does, unless a word alone is
    longer than a passage; passages do not overlap, and their tokens concatenated are the tokens of the text.
    A text without tokens (spaces, control characters) has no passage.
    """

    tokenizer: Tokenizer
    length: int
    before: tuple[int, ...]  # tokens before every passage, such as [CLS]
    after: tuple[int, ...]  # and after it, such as [SEP]

    @classmethod
    def of(cls, tokenizer: Tokenizer, length: int, name: str) -> Splitter:
        """Find the special tokens around a text, and turn off truncation and padding."""
        tokenizer.no_truncation()
        tokenizer.no_padding()
        before, after = _frame(tokenizer, name)
        if length - len(before) - len(after) < 1:
            raise BadFile(f"{name} has length = {length}, and the special tokens around each passage fill it.")
        return cls(tokenizer, length, before, after)

    @classmethod
    def from_file(cls, path: Path, length: int) -> Splitter:
        """Read a ``tokenizer.json``."""
        try:
            content = read_regular(path, MODEL_BYTES)
        except OSError as error:
            raise BadFile(f"{path} cannot be read: {error.strerror}.") from None
        return cls.from_bytes(content, length, str(path))

    @classmethod
    def from_bytes(cls, content: bytes, length: int, name: str) -> Splitter:
        """Take the content of a ``tokenizer.json``; ``name`` is used in error messages."""
        from tokenizers import Tokenizer

        try:
            tokenizer = Tokenizer.from_buffer(content)
        except Exception as error:  # noqa: BLE001 - the library raises Exception itself
            raise BadFile(f"{name} is not a tokenizer that `tokenizers` can read ({error}).") from None
        return cls.of(tokenizer, length, name)

    def split(self, texts: Sequence[str], prefix: str = "") -> list[list[TextPassage]]:
        """Return the passages of each text; ``prefix`` comes before every passage."""
        front = self.front(prefix)
        room = self.length - len(front) - len(self.after)
        if room < 1:
            raise BadFile(f"The prefix {prefix!r} leaves no room for text in {self.length} tokens.")
        return [passages for group in _groups(texts) for passages in self._split(group, front, room)]

    def _split(self, texts: Sequence[str], front: tuple[int, ...], room: int) -> Iterator[list[TextPassage]]:
        """Yield the passages of each text of a group; of a text that is one passage only the tokens are needed."""
        if len(texts) == 1:
            yield self._passages(self._whole(texts[0]), len(texts[0]), front, room)
            return
        before, after = (np.array(around, dtype=np.int32).tobytes() for around in (front, self.after))
        for text, encoding in zip(texts, self._numbered(texts), strict=True):
            if len(encoding) > room:
                yield self._passages(self._whole(text), len(text), front, room)
            else:
                ids = np.array(encoding.ids, dtype=np.int32).tobytes()
                yield [TextPassage(0, len(text), before + ids + after)] if ids else []

    def tokens(self, texts: Sequence[str]) -> Iterator[Tokens]:
        """Yield the tokens of each text, without special tokens.

        A text of more than ``AT_ONCE`` characters is tokenized in spans, which begin at a space if there is one.
        """
        for group in _groups(texts):
            if len(group) == 1:
                yield self._whole(group[0])
            else:
                yield from (_arrays(encoding, 0) for encoding in self._encoded(group))

    def _numbered(self, texts: Sequence[str]) -> Sequence[Encoding]:
        """Tokenize texts on all cores; where each token is in a text is not found out, which takes half of the time."""
        return self.tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)

    def _encoded(self, texts: Sequence[str]) -> Sequence[Encoding]:
        """Tokenize texts on all cores, without Python's lock."""
        return self.tokenizer.encode_batch(list(texts), add_special_tokens=False)

    def _whole(self, text: str) -> Tokens:
        spans = (
            _arrays(self.tokenizer.encode(text[start:end], add_special_tokens=False), start)
            for start, end in _spans_of(text)
        )
        return _joined(list(spans))

    def front(self, prefix: str = "") -> tuple[int, ...]:
        """Return the tokens before every passage."""
        return (*self.before, *self.tokenizer.encode(prefix, add_special_tokens=False).ids) if prefix else self.before

    def words(self, text: str, prefix: str = "") -> tuple[list[TextPassage], list[list[TokenizedWord]]]:
        """Return the passages of a text, and the words of each."""
        (passages,) = self.split([text], prefix)
        (tokens,) = self.tokens([text])
        front = len(self.front(prefix))
        found, first = [], 0
        for passage in passages:
            last = first + len(passage.tokens) - front - len(self.after)
            groups = [list(group) for _, group in groupby(range(first, last), lambda at: int(tokens.words[at]))]
            spans = [(int(tokens.starts[group[0]]), int(tokens.ends[group[-1]])) for group in groups]
            shift = front - first
            found.append(
                [TokenizedWord(*span, [at + shift for at in g]) for span, g in zip(spans, groups, strict=True)]
            )
            first = last
        return passages, found

    def _passages(self, tokens: Tokens, characters: int, front: tuple[int, ...], room: int) -> list[TextPassage]:
        count = len(tokens.ids)
        passages = []
        start = 0
        while start < count:
            end = _end(tokens.words, start, count, room)
            first = int(tokens.starts[start]) if start else 0  # the spans cover the text without gaps
            last = int(tokens.starts[end]) if end < count else characters
            framed = np.concatenate([front, tokens.ids[start:end], self.after]).astype(np.int32)
            passages.append(TextPassage(first, last, framed.tobytes()))
            start = end
        return passages


class SplitsTexts(Protocol):
    """Splits texts into passages."""

    def split(self, texts: Sequence[str], prefix: str = "") -> list[list[TextPassage]]:
        """Return the passages of each text; ``prefix`` comes before every passage."""


@dataclass(frozen=True, slots=True, eq=False)
class Strings:
    """Passages for a model that reads strings: a passage's content is its role and its span of the text."""

    splitter: SplitsTexts | None  # None: the model reads texts of any length
    prompts: Mapping[Role, str]  # the model's prompts, by role

    def split(self, texts: Sequence[str], role: Role) -> list[list[TextPassage]]:
        """Return the passages of each text, as spans of it; none for a span of white space."""
        return [
            [
                TextPassage(start, end, f"{role}\n{text[start:end]}".encode())
                for start, end in spans
                if not text[start:end].isspace()
            ]
            for text, spans in zip(texts, self._spans(texts, self.prompts[role]), strict=True)
        ]

    @staticmethod
    def read(passages: Sequence[TextPassage]) -> tuple[Role, list[str]]:
        """Return the role that these passages share, and their texts."""
        several = [passage.content.decode().partition("\n") for passage in passages]
        return "query" if several[0][0] == "query" else "document", [text for _, _, text in several]

    def _spans(self, texts: Sequence[str], prompt: str) -> list[list[tuple[int, int]]]:
        if self.splitter is None:
            return [[(0, len(text))] if text.strip() else [] for text in texts]
        first = self.splitter.split([text if text.strip() else "" for text in texts], prompt)  # all at once
        return [
            [(p.start, p.end) for p in passages]
            if len(passages) < 2
            else [piece for p in passages for piece in self._fitting(text, p.start, p.end, prompt)]
            for text, passages in zip(texts, first, strict=True)
        ]

    def _fitting(self, text: str, start: int, end: int, prompt: str) -> list[tuple[int, int]]:
        """Split a span again if it has more tokens alone than inside the text, until nothing is truncated."""
        again = self.splitter.split([text[start:end]], prompt)[0] if self.splitter else []
        if len(again) < 2:
            return [(start, end)]
        return [piece for p in again for piece in self._fitting(text, start + p.start, start + p.end, prompt)]


def padded(
    passages: Sequence[TextPassage], length: int, pad: int, *, left: bool = False
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the tokens of passages and their mask, both ``(n, length)``."""
    tokens = np.full((len(passages), length), pad, dtype=np.int64)
    mask = np.zeros_like(tokens)
    for row, passage in enumerate(passages):
        start = length - len(passage.tokens) if left else 0
        tokens[row, start : start + len(passage.tokens)] = passage.tokens
        mask[row, start : start + len(passage.tokens)] = 1
    return tokens, mask


def similar_lengths(lengths: Sequence[int], padding: float) -> list[list[int]]:
    """Divide rows into groups of similar length, the shortest first; a group needs at most ``padding`` more in all.

    >>> similar_lengths([5, 30, 6, 5], padding=12), similar_lengths([5, 30], padding=float("inf"))
    ([[0, 3, 2], [1]], [[0, 1]])
    """
    groups: list[list[int]] = []
    total = 0
    for row in sorted(range(len(lengths)), key=lengths.__getitem__):
        if not groups or (len(groups[-1]) * lengths[row] - total) > padding:
            groups.append([])
            total = 0
        groups[-1].append(row)
        total += lengths[row]
    return groups


def _groups(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Divide texts into groups of at most ``AT_ONCE`` characters, or of one text.

    >>> [len(group) for group in _groups(["a" * 100, "b" * AT_ONCE, "c", "d"])]
    [1, 1, 2]
    """
    first = characters = 0
    for row, text in enumerate(texts):
        if row > first and characters + len(text) > AT_ONCE:
            yield texts[first:row]
            first, characters = row, 0
        characters += len(text)
    if first < len(texts):
        yield texts[first:]


def _spans_of(text: str) -> Iterator[tuple[int, int]]:
    """Split a text into spans that can be tokenized one by one.

    >>> list(_spans_of("one text"))
    [(0, 8)]
    """
    start = 0
    while len(text) - start > AT_ONCE:
        last = None
        for boundary in BOUNDARY.finditer(text, start + AT_ONCE // 2, start + AT_ONCE):
            last = boundary.start()
        end = last or start + AT_ONCE
        yield start, end
        start = end
    yield start, len(text)


def _arrays(encoding: Encoding, start: int) -> Tokens:
    ids = np.array(encoding.ids, dtype=np.int32)
    spans = np.array(encoding.offsets, dtype=np.int32).reshape(-1, 2) + np.int32(start)
    words = np.fromiter(
        (-1 - at if word is None else word for at, word in enumerate(encoding.word_ids)), np.int32, len(ids)
    )
    return Tokens(ids, spans[:, 0], spans[:, 1], words)


def _joined(spans: Sequence[Tokens]) -> Tokens:
    """Join the tokens of spans; words of different spans get different numbers."""
    if len(spans) == 1:
        return spans[0]
    words, before, alone = [], 0, 0
    for span in spans:
        own = span.words < 0
        words.append(np.where(own, span.words - alone, span.words + before))
        before += int(span.words.max(initial=-1)) + 1
        alone += len(span.words)
    columns = zip(*spans, strict=True)
    ids, starts, ends, _ = (np.concatenate(column) for column in columns)
    return Tokens(ids, starts, ends, np.concatenate(words))


def _end(words: NDArray[np.int32], start: int, n: int, room: int) -> int:
    """Divide the rest evenly among as few passages as possible, and step back to the start of a word."""
    left = n - start
    if left <= room:
        return n
    parts = -(-left // room)
    end = start + -(-left // parts)
    while end > start and words[end] == words[end - 1]:
        end -= 1
    return end if end > start else start + room


def _frame(tokenizer: Tokenizer, name: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    for probe in ("a", "1", *sorted(tokenizer.get_vocab())[:PROBES]):
        bare = tokenizer.encode(probe, add_special_tokens=False).ids
        framed = tokenizer.encode(probe).ids
        for at in range(len(framed) - len(bare) + 1) if bare else ():
            if framed[at : at + len(bare)] == bare:
                return tuple(framed[:at]), tuple(framed[at + len(bare) :])
    raise BadFile(f"{name} finds no token in any word of its own vocabulary. It is damaged or not a tokenizer of text.")
