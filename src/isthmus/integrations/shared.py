"""What the integrations share: how a hit is told to a framework that knows texts, metadata and picture URLs."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from isthmus.documents import Document
from isthmus.errors import BadInput, counted
from isthmus.kinds import IMAGE
from isthmus.search import Added, Hit, SearchInterface, SearchRequest
from isthmus.serve.media import PartBytes
from isthmus.serve.pictures import PartSender

PICTURE = "image_url"  # the metadata that has a document's first picture
SENDER = PartSender()


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrieverOptions:
    """The options of every search of a retriever; see ``SearchRequest``.

    ``picture_size``: pictures are returned, at most so many pixels a side; None: they are not.
    """

    k: int = 4
    where: Mapping[str, Any] | None = None
    modalities: Sequence[str] | None = None
    hybrid: bool = False
    align: str | None = None
    rerank: str | None = None
    min_probability: float | None = None
    picture_size: int | None = None

    def search(self, things: SearchInterface, query: str, k: int | None = None) -> list[Hit]:
        """Search a collection by words."""
        request = SearchRequest(
            query,
            k=self.k if k is None else k,
            where=self.where,
            modalities=self.modalities,
            hybrid=self.hybrid,
            align=self.align,
            rerank=self.rerank,
            min_probability=self.min_probability,
        )
        return things.search(request)

    def metadata(self, document: Document) -> dict[str, Any]:
        """Return the metadata of a document, with its first picture as a data: URL if pictures are wanted."""
        picture = None if self.picture_size is None else picture_url(document, self.picture_size)
        return {**document.metadata, **({} if picture is None else {PICTURE: picture})}


def words_of(document: Document) -> str:
    """Return the text of a document; of a picture without words, its id, so that a language model can name it."""
    return document.text or f"[{document.modality}: {document.id}]"


def first_picture(document: Document, size: int | None) -> PartBytes | None:
    """Return the first picture of a document that can be read, at most ``size`` pixels a side; None without one."""
    for part in document.parts:
        if part.kind == IMAGE:
            with suppress(BadInput):  # a file that is gone: the document was found all the same
                return SENDER.part(part, size)
    return None


def picture_url(document: Document, size: int) -> str | None:
    """Return the first picture of a document as a data: URL, at most ``size`` pixels a side; None without one."""
    sent = first_picture(document, size)
    return None if sent is None else f"data:{sent.media_type};base64,{b64encode(sent.data).decode()}"


def chance(hit: Hit) -> float:
    """Return P(match); without one, the cosine brought to 0 … 1."""
    return (1 + hit.similarity) / 2 if hit.probability is None else hit.probability


def check_added(report: Added) -> None:
    """Raise an error for documents that were not added: frameworks return no reasons."""
    if report.skipped:
        first = report.skipped[0]
        raise BadInput(f"{counted(len(report.skipped), 'document')} could not be added; {first.id}: {first.why}")
