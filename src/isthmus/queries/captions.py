"""Image-related queries: a caption without proper names, which a picture does not show."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from isthmus.documents import Document
from isthmus.errors import BadInput
from isthmus.queries.parse import Parser, Word

Captions: TypeAlias = (
    "Mapping[str, str | Sequence[str]] | Callable[[Document], str | Sequence[str] | None]"  # by id, or a captioner
)
LEADS = frozenset({"ADP", "DET", "CCONJ", "PART", "SCONJ", "PUNCT"})  # lead to what comes after them
BELONGS = frozenset({"NOUN", "ADJ", "NUM", "PART"})  # after a name, take its place: *a Boston street*


def caption_of(document: Document, captions: Captions | None, rng: np.random.Generator) -> str | None:
    """Return a caption of the document's image, a random one of several; None if there is no image."""
    if captions is None or "image" not in document.modality.split("+"):
        return None
    found = captions.get(document.id) if isinstance(captions, Mapping) else captions(document)
    if found is None or isinstance(found, str):
        return found or None
    if not all(isinstance(one, str) for one in found):
        raise BadInput(f"The captions of {document.id!r} must be strings.")
    several = [one for one in found if one.strip()]
    return several[int(rng.integers(len(several)))] if several else None


def nameless(caption: str, parser: Parser) -> str:
    """Return a caption without proper names, without the words that introduce them, and without a final full stop.

    >>> from isthmus.queries.parse import Embedded
    >>> nameless("A smiling man in a suit with Barack Obama in Berlin.", Embedded())
    'A smiling man in a suit'
    """
    whole = " ".join(caption.split())
    if not parser.reads(whole):
        return whole
    words = list(parser.sentence(whole).words)
    kept: list[Word] = []
    for at, word in enumerate(words):
        before = words[at - 1].tag if at else ""
        if word.tag == "PROPN" or (word.text in ("'s", "’s") and before == "PROPN"):
            continue
        if before == "PROPN" and word.tag not in BELONGS:
            _drop_leads(kept)
        kept.append(word)
    _drop_leads(kept)
    return _joined(whole, kept)


def _drop_leads(kept: list[Word]) -> None:
    """Remove words at the end that introduced a removed name."""
    while kept and kept[-1].tag in LEADS:
        kept.pop()


def _joined(whole: str, words: Sequence[Word]) -> str:
    """Join words with their original spacing."""
    out = ""
    for at, word in enumerate(words):
        apart = at and (words[at - 1].end < word.start) and word.tag != "PUNCT"
        out += (" " if apart else "") + whole[word.start : word.end]
    return out.strip()
