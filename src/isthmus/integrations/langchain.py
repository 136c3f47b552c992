"""LangChain: a vector store and a retriever over a collection (extra ``langchain``).

    store = IsthmusVectorStore(Collection.open("things.isthmus"))
    store.add_texts(["The cat sleeps on the sofa."], [{"lang": "en"}])
    store.as_retriever(search_kwargs={"k": 3, "where": {"lang": "en"}}).invoke("a sleeping cat")

The collection encodes by itself. With ``embedding``, LangChain's model does: the collection then keeps its vectors
(``Collection.open(path, "none")``), and finds texts alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import uuid4

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document as LangChainDocument
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStore
from pydantic import ConfigDict

from isthmus.documents import NOTHING, Document, Query
from isthmus.errors import BadInput
from isthmus.integrations.shared import RetrieverOptions, chance, check_added, words_of
from isthmus.kinds import TEXT
from isthmus.search import Collection, Hit, SearchInterface, SearchRequest

USUAL = RetrieverOptions()


class IsthmusVectorStore(VectorStore):  # type: ignore[misc]  # untyped where it is not installed
    """A LangChain vector store over a collection, here or on a server.

    ``picture_size``: documents with a picture have it in ``metadata["image_url"]``, at most so many pixels a side.
    """

    def __init__(
        self, things: SearchInterface, embedding: Embeddings | None = None, *, picture_size: int | None = None
    ) -> None:
        self.things, self._embedding = things, embedding
        self.options = RetrieverOptions(picture_size=picture_size)

    @property
    def embeddings(self) -> Embeddings | None:
        """LangChain's model; None if the collection encodes by itself."""
        return self._embedding

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: Sequence[Mapping[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
    ) -> list[str]:
        """Add texts; those whose id is known replace the documents that have it. Return the ids."""
        several = list(texts)
        facts = [{}] * len(several) if metadatas is None else metadatas
        given = [None] * len(several) if ids is None else ids
        if not len(several) == len(facts) == len(given):
            raise BadInput(
                f"There are {len(several)} texts, {len(facts)} metadatas and {len(given)} ids. Give as many of each."
            )
        names = [name or str(uuid4()) for name in given]
        vectors = [None] * len(several) if self._embedding is None else self._embedding.embed_documents(several)
        documents = [
            Document(name, text, metadata=metadata, vectors={} if vector is None else {TEXT: vector})
            for name, text, metadata, vector in zip(names, several, facts, vectors, strict=True)
        ]
        check_added(self.things.add(documents))
        return names

    def delete(self, ids: list[str] | None = None) -> bool:
        """Delete documents by their ids; those that are not there are ignored."""
        if ids is None:
            raise BadInput("Give the ids of the documents to delete.")
        self.things.delete(ids)
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[LangChainDocument]:
        """Return those of these documents that exist."""
        return [self._told(self.things.get(name)) for name in ids if name in self.things]

    def similarity_search(
        self,
        query: str,
        k: int = 4,
        *,
        where: Mapping[str, Any] | None = None,
        modalities: Sequence[str] | None = None,
        hybrid: bool = False,
        min_probability: float | None = None,
    ) -> list[LangChainDocument]:
        """Return the best documents; the options are those of ``SearchRequest``."""
        hits = self._hits(query, k, where=where, modalities=modalities, hybrid=hybrid, min_probability=min_probability)
        return [self._told(hit.document) for hit in hits]

    def similarity_search_with_score(
        self, query: str, k: int = 4, *, where: Mapping[str, Any] | None = None, modalities: Sequence[str] | None = None
    ) -> list[tuple[LangChainDocument, float]]:
        """Return the best documents with their calibrated scores; higher is better."""
        hits = self._hits(query, k, where=where, modalities=modalities)
        return [(self._told(hit.document), hit.score) for hit in hits]

    def _similarity_search_with_relevance_scores(
        self, query: str, k: int = 4, *, where: Mapping[str, Any] | None = None, modalities: Sequence[str] | None = None
    ) -> list[tuple[LangChainDocument, float]]:
        """Return the best documents with P(match), which ``score_threshold`` is compared with."""
        hits = self._hits(query, k, where=where, modalities=modalities)
        return [(self._told(hit.document), chance(hit)) for hit in hits]

    def similarity_search_by_vector(
        self, embedding: list[float], k: int = 4, *, where: Mapping[str, Any] | None = None
    ) -> list[LangChainDocument]:
        """Return the documents nearest to a vector of the collection's own encoder."""
        request = SearchRequest(Query(vectors={TEXT: embedding}), k=k, where=where)  # type: ignore[dict-item]
        return [self._told(hit.document) for hit in self.things.search(request)]

    def _hits(
        self,
        query: str,
        k: int,
        *,
        where: Mapping[str, Any] | None = None,
        modalities: Sequence[str] | None = None,
        hybrid: bool = False,
        min_probability: float | None = None,
    ) -> list[Hit]:
        asked = Query(query) if self._embedding is None else Query(vectors={TEXT: self._embedding.embed_query(query)})
        request = SearchRequest(
            asked, k=k, where=where, modalities=modalities, hybrid=hybrid, min_probability=min_probability
        )
        return self.things.search(request)

    def _told(self, document: Document) -> LangChainDocument:
        return told(document, self.options)

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings | None = None,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        things: SearchInterface | None = None,
    ) -> IsthmusVectorStore:
        """Make a store of texts: in ``things``, else in a new collection in memory."""
        if things is None:
            things = Collection.open(":memory:", "none" if embedding is not None else None)
        store = cls(things, embedding)
        store.add_texts(texts, metadatas, ids=ids)
        return store


class IsthmusRetriever(BaseRetriever):  # type: ignore[misc]  # untyped where it is not installed
    """A LangChain retriever with every option of a search, such as ``hybrid``, ``align`` and ``rerank``.

    The metadata of what it finds have ``score``, ``probability`` and ``modality`` as well.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)
    things: SearchInterface
    options: RetrieverOptions = USUAL
    k: int | None = None

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun | None = None,  # noqa: ARG002 - LangChain gives it by name
        k: int | None = None,
    ) -> list[LangChainDocument]:
        hits = self.options.search(self.things, query, k or self.k)
        return [
            told(
                hit.document, self.options, {name: getattr(hit, name) for name in ("score", "probability", "modality")}
            )
            for hit in hits
        ]


def told(document: Document, options: RetrieverOptions, facts: Mapping[str, Any] = NOTHING) -> LangChainDocument:
    """Return a document as LangChain has it, with more facts in its metadata."""
    metadata = {**options.metadata(document), **facts}
    return LangChainDocument(id=document.id, page_content=words_of(document), metadata=metadata)
