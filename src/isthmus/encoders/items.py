"""The items of one call of an encoder: split into passages and checked; items that cannot be read are left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from isthmus.budget import too_long
from isthmus.documents import Document, Part, Query
from isthmus.encoders.base import Encoder
from isthmus.encoders.texts import TextPassage
from isthmus.errors import BadInput
from isthmus.kinds import TEXT
from isthmus.types import Mask

Items: TypeAlias = Sequence[Document | Query]
Refuse: TypeAlias = Callable[[int, BadInput], None]


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """The items of one call; those that cannot be encoded are reported and left out."""

    items: Items
    passages: list[list[TextPassage]]  # of each item; empty where it is left out
    kept: Mask  # (n,): which items could be encoded so far
    names: Sequence[str]
    refuse: Refuse

    @classmethod
    def of(cls, items: Items, passages: Sequence[list[TextPassage]], names: Sequence[str], refuse: Refuse) -> Given:
        """Take items with their passages, unchecked."""
        return cls(items, list(passages), np.ones(len(items), dtype=bool), names, refuse)

    def check(self, encoder: str, modalities: Sequence[str]) -> Given:
        """Leave out the items that an encoder with these modalities does not read."""
        kinds = _kinds(modalities)
        for row, item in enumerate(self.items):
            plain = len(item.parts) == 1 and item.parts[0].kind == TEXT and not item.vectors
            if plain and self.passages[row] and TEXT in kinds:
                continue  # most of them: words that were split, so they are not too long
            wrong = _problem(item, self.passages[row], encoder, modalities)
            if wrong is not None:
                self.leave_out(row, wrong)
        return self

    def leave_out(self, row: int, problem: BadInput) -> None:
        """Report that an item cannot be encoded."""
        self.kept[row] = False
        self.passages[row] = []
        self.refuse(row, type(problem)(f"{self.names[row]}: {problem}"))


def _problem(
    item: Document | Query, passages: Sequence[TextPassage], encoder: str, modalities: Sequence[str]
) -> BadInput | None:
    problem = too_long(item.text)
    if problem is not None:
        return BadInput(f"it {problem}.")
    other = _unread(encoder, modalities, item.modality.split("+"))
    if other is not None:
        return BadInput(other)
    several = next((kind for kind, count in Counter(part.kind for part in item.parts).items() if count > 1), None)
    if several not in (None, TEXT):
        return BadInput(f"it has several parts of kind {several!r}, and an encoder takes one. A collection takes them.")
    if item.image is None and not passages:
        return BadInput(
            f"the encoder {encoder} finds no words in its text (it may hold only control characters). Leave it out."
        )
    return None


def unread(encoder: Encoder, parts: Iterable[Part]) -> str | None:
    """Say which part an encoder does not read; None where it reads all."""
    return _unread(encoder.name, encoder.modalities, [part.kind for part in parts])


def _unread(encoder: str, modalities: Sequence[str], kinds: Sequence[str]) -> str | None:
    read = _kinds(modalities)
    other = next((kind for kind in kinds if kind not in read), None)
    if other is None:
        return None
    return (
        f"it has the part {other!r}, and the encoder {encoder} reads {reads(modalities)} only. Leave that part "
        "out, or use an encoder that reads it."
    )


def _kinds(modalities: Sequence[str]) -> set[str]:
    return {kind for modality in modalities for kind in modality.split("+")}


def reads(modalities: Sequence[str]) -> str:
    """Say which modalities an encoder reads; of many, the kinds.

    >>> reads(["image", "image+text", "text"])
    'image and image+text and text'
    """
    if len(modalities) <= 3:
        return " and ".join(modalities)
    return ", ".join(sorted(_kinds(modalities)))


def texts_of(items: Iterable[Document | Query]) -> list[str]:
    """Return the text of each item, as a tokenizer can read it; empty where it is too long for one document."""
    texts = (item.text for item in items)
    return [readable(text) if text and too_long(text) is None else "" for text in texts]


def readable(text: str) -> str:
    """Replace each half of a surrogate pair by a question mark: UTF-8 cannot encode it, tokenizers cannot read it."""
    return text.encode("utf-8", "replace").decode()


def stop(_: int, problem: BadInput) -> None:
    """Reject an item by raising its problem."""
    raise problem


def named_queries(queries: Sequence[Query | str]) -> tuple[list[Query], list[str]]:
    """Return the queries (strings as queries of words) and the name of each in error messages."""
    names = ["the query"] if len(queries) == 1 else [f"query {row}" for row in range(len(queries))]
    return [Query.of(query) for query in queries], names


def names_of(documents: Sequence[Document]) -> list[str]:
    """Return the name of each document in error messages."""
    for row, document in enumerate(documents):
        if not isinstance(document, Document):
            kind = type(document).__name__
            raise BadInput(f"row {row} is a {kind}, not a Document. Write Document(id='a', text='…'), or image=.")
    return [f"document {document.id!r}" for document in documents]
