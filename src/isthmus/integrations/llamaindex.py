"""LlamaIndex: a retriever over a collection (extra ``llamaindex``).

    retriever = IsthmusIndexRetriever(Collection.open("things.isthmus"), RetrieverOptions(k=3))
    engine = RetrieverQueryEngine.from_args(retriever, llm=llm)
    engine.query("What does the note say about sourdough?")

Documents with a picture become image nodes: LlamaIndex's own way to show them to a model that sees.
"""

from __future__ import annotations

from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import ImageNode, NodeWithScore, QueryBundle, TextNode

from isthmus.documents import Document
from isthmus.integrations.shared import PICTURE, RetrieverOptions, chance, words_of
from isthmus.search import SearchInterface

USUAL = RetrieverOptions()


class IsthmusIndexRetriever(BaseRetriever):  # type: ignore[misc]  # untyped where it is not installed
    """A LlamaIndex retriever; the score of a node is P(match)."""

    def __init__(self, things: SearchInterface, options: RetrieverOptions = USUAL) -> None:
        self.things, self.options = things, options
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        hits = self.options.search(self.things, query_bundle.query_str)
        return [NodeWithScore(node=node(hit.document, self.options), score=chance(hit)) for hit in hits]


def node(document: Document, options: RetrieverOptions) -> TextNode:
    """Return a document as a node of LlamaIndex, with its picture if the options want pictures."""
    metadata = options.metadata(document)
    picture = metadata.pop(PICTURE, None)
    if picture is None:
        return TextNode(id_=document.id, text=words_of(document), metadata=metadata)
    _, _, data = picture.partition(",")
    return ImageNode(id_=document.id, text=words_of(document), metadata=metadata, image=data)
