"""Answer questions about a folder of notes and photos: isthmus finds, a language model of LangChain answers.

python examples/rag_langchain.py "How long does the sourdough rise?"

The model here is LangChain's own fake, which returns what it was shown first: no key and no network are needed. Put any
chat model in its place, as ``ChatAnthropic(model="…")``; one that sees is shown the pictures as well.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.runnables import RunnableLambda, RunnablePassthrough

from isthmus import Collection, samples
from isthmus.integrations.langchain import IsthmusRetriever
from isthmus.integrations.shared import PICTURE, RetrieverOptions

RULES = "Answer from the documents alone, and name the document that you used. Say so if none has the answer."


def messages(asked: dict[str, Any]) -> list[Any]:
    """Return what the model is shown: the rules, then the documents with their pictures, then the question."""
    parts: list[dict[str, Any]] = []
    for document in asked["documents"]:
        parts.append({"type": "text", "text": f"Document {document.id}:\n{document.page_content}"})
        if PICTURE in document.metadata:
            parts.append({"type": "image_url", "image_url": {"url": document.metadata[PICTURE]}})
    parts.append({"type": "text", "text": f"Question: {asked['question']}"})
    return [SystemMessage(RULES), HumanMessage(parts)]


def first_document(documents: Sequence[Document]) -> str:
    """Return the answer of the fake model: the beginning of what was found first."""
    return f"{documents[0].id}: {documents[0].page_content[:200]}" if documents else "None of them."


def chain(things: Collection) -> Any:
    """Return a chain from a question to an answer."""
    options = RetrieverOptions(k=3, picture_size=256, min_probability=0.05)
    retriever = IsthmusRetriever(things=things, options=options)

    def answered(asked: dict[str, Any]) -> str:
        model = FakeListChatModel(responses=[first_document(asked["documents"])])
        return str(model.invoke(messages(asked)).content)

    return {"documents": retriever, "question": RunnablePassthrough()} | RunnableLambda(answered)


def main(question: str) -> None:
    with Collection.open(":memory:", calibration="center+standardize") as things:
        things.index(samples.folder(), ocr="never")
        print(chain(things).invoke(question))


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]) or "How long does the sourdough rise?")
