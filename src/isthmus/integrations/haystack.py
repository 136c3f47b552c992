"""Haystack: a document store and a retriever over a collection (extra ``haystack``).

    store = IsthmusDocumentStore("things.isthmus")                  # or a URL, or a collection that is open
    store.write_documents([Document(content="The cat sleeps on the sofa.", meta={"lang": "en"})])
    pipeline.add_component("retriever", IsthmusHaystackRetriever(store, top_k=3))

The collection encodes by itself, texts and pictures (``blob``): embeddings of Haystack's documents are neither needed
nor kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from haystack import Document as HaystackDocument
from haystack import component, default_from_dict, default_to_dict
from haystack.dataclasses import ByteStream
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.document_stores.types import DuplicatePolicy

from isthmus.client import connect
from isthmus.client.remote import RemoteCollection
from isthmus.documents import Document
from isthmus.errors import BadInput
from isthmus.integrations.haystack_filters import where_of
from isthmus.integrations.shared import check_added, first_picture, words_of
from isthmus.search import Collection, Hit, SearchInterface, SearchRequest
from isthmus.service import read_key

KEY = "ISTHMUS_KEY"  # the environment variable that has the key of a server


class IsthmusDocumentStore:
    """A Haystack document store over a collection: its folder, its URL, or the collection itself.

    The key of a server is read from the environment variable ``ISTHMUS_KEY``.
    """

    def __init__(self, things: SearchInterface | str | Path) -> None:
        self.things = _opened(things) if isinstance(things, str | Path) else things

    def to_dict(self) -> dict[str, Any]:
        """Return what a pipeline writes down: where the collection is."""
        things = self.things
        if isinstance(things, RemoteCollection):
            place = f"{things.url}/v1/collections/{things.name}"
        elif isinstance(things, Collection):
            place = str(things.path)
        else:
            raise BadInput("Only a collection in a folder or on a server can be written down.")
        return cast("dict[str, Any]", default_to_dict(self, things=place))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> IsthmusDocumentStore:
        """Open the collection that a pipeline has written down."""
        return cast("IsthmusDocumentStore", default_from_dict(cls, data))

    def count_documents(self) -> int:
        """Return how many documents there are."""
        return len(self.things)

    def filter_documents(self, filters: dict[str, Any] | None = None) -> list[HaystackDocument]:
        """Return the documents that pass a filter, in the order they were added."""
        if not filters:
            return [told(document) for document in self.things]
        return [told(self.things.get(name)) for name in self.things.ids(where_of(filters))]

    def write_documents(self, documents: list[HaystackDocument], policy: DuplicatePolicy = DuplicatePolicy.NONE) -> int:
        """Add documents; return how many were written. Without a policy, an id that is known is an error."""
        if not isinstance(documents, Sequence) or not all(isinstance(one, HaystackDocument) for one in documents):
            raise BadInput("write_documents takes a list of Haystack's documents.")
        if policy == DuplicatePolicy.OVERWRITE:
            return self._write(documents)
        known = {one.id for one in documents if one.id in self.things}
        if known and policy != DuplicatePolicy.SKIP:
            raise DuplicateDocumentError(f"There is a document with the id {min(known)!r} already.")
        return self._write([one for one in documents if one.id not in known])

    def _write(self, documents: Sequence[HaystackDocument]) -> int:
        check_added(self.things.add([read(one) for one in documents]))
        return len(documents)

    def delete_documents(self, document_ids: list[str]) -> None:
        """Delete documents by their ids; those that are not there are ignored."""
        self.things.delete(document_ids)

    def search(self, query: str, top_k: int = 10, filters: dict[str, Any] | None = None) -> list[HaystackDocument]:
        """Return the best documents for words, texts and pictures in one list; their score is calibrated."""
        request = SearchRequest(query, k=top_k, where=where_of(filters) if filters else None)
        return [_hit(hit) for hit in self.things.search(request)]


@component
class IsthmusHaystackRetriever:
    """A component of a pipeline that finds documents by words."""

    def __init__(
        self, document_store: IsthmusDocumentStore, filters: dict[str, Any] | None = None, top_k: int = 10
    ) -> None:
        self.document_store, self.filters, self.top_k = document_store, filters, top_k

    def to_dict(self) -> dict[str, Any]:
        """Return what a pipeline writes down."""
        store = self.document_store.to_dict()
        form = default_to_dict(self, document_store=store, filters=self.filters, top_k=self.top_k)
        return cast("dict[str, Any]", form)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> IsthmusHaystackRetriever:
        """Read what a pipeline has written down."""
        settings = data["init_parameters"]
        store = IsthmusDocumentStore.from_dict(settings["document_store"])
        return cls(store, settings["filters"], settings["top_k"])

    @component.output_types(documents=list[HaystackDocument])  # type: ignore[untyped-decorator]
    def run(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, list[HaystackDocument]]:
        """Find documents; ``filters`` and ``top_k`` replace those of the component."""
        found = self.document_store.search(query, top_k or self.top_k, filters or self.filters)
        return {"documents": found}


def read(document: HaystackDocument) -> Document:
    """Return a document of Haystack as one of a collection."""
    return Document(document.id, document.content, document.blob and document.blob.data, document.meta)


def told(document: Document) -> HaystackDocument:
    """Return a document as Haystack has it; its first picture is the blob."""
    sent = first_picture(document, None)
    blob = None if sent is None else ByteStream(data=sent.data, mime_type=sent.media_type)
    content = document.text if blob is not None else words_of(document)
    return HaystackDocument(id=document.id, content=content, blob=blob, meta=dict(document.metadata))


def _hit(hit: Hit) -> HaystackDocument:
    return replace(told(hit.document), score=hit.score)


def _opened(place: str | Path) -> SearchInterface:
    if str(place).startswith(("http://", "https://")):
        return connect(str(place), key=read_key([KEY]))
    return Collection.open(place)
