"""Answer questions about a folder of notes and photos: isthmus finds, a language model of Haystack answers.

python examples/rag_haystack.py "How long does the sourdough rise?"

The model here is Haystack's own fake, which repeats the first document it was shown: no key and no network are needed.
Put any chat generator in its place, as ``OpenAIChatGenerator()``; one that sees is shown the pictures as well.
"""

from __future__ import annotations

import sys
from base64 import b64encode

from haystack import Document, Pipeline, component
from haystack.components.generators.chat import MockChatGenerator
from haystack.dataclasses import ChatMessage, ImageContent, TextContent

from isthmus import Collection, samples
from isthmus.integrations.haystack import IsthmusDocumentStore, IsthmusHaystackRetriever

RULES = "Answer from the documents alone, and name the document that you used. Say so if none has the answer."


@component
class Messages:
    """Writes what the model is shown: the rules, then the documents with their pictures, then the question."""

    @component.output_types(messages=list[ChatMessage])  # type: ignore[untyped-decorator]
    def run(self, question: str, documents: list[Document]) -> dict[str, list[ChatMessage]]:
        """Return the messages."""
        parts: list[TextContent | ImageContent] = []
        for document in documents:
            parts.append(TextContent(f"Document {document.id}:\n{document.content or ''}"))
            if document.blob is not None:
                data = b64encode(document.blob.data).decode()
                parts.append(ImageContent(data, mime_type=document.blob.mime_type))
        parts.append(TextContent(f"Question: {question}"))
        return {"messages": [ChatMessage.from_system(RULES), ChatMessage.from_user(content_parts=parts)]}


def first_document(messages: list[ChatMessage]) -> str:
    """Return the answer of the fake model: the beginning of what was found first."""
    return str(messages[-1].texts[0]).removeprefix("Document ")[:200]


def pipeline(things: Collection) -> Pipeline:
    """Return a pipeline from a question to an answer."""
    made = Pipeline()
    made.add_component("retriever", IsthmusHaystackRetriever(IsthmusDocumentStore(things), top_k=3))
    made.add_component("messages", Messages())
    made.add_component("model", MockChatGenerator(response_fn=first_document))
    made.connect("retriever.documents", "messages.documents")
    made.connect("messages.messages", "model.messages")
    return made


def answered(things: Collection, question: str) -> str:
    """Return the answer to a question."""
    done = pipeline(things).run({"retriever": {"query": question}, "messages": {"question": question}})
    return str(done["model"]["replies"][0].text)


def main(question: str) -> None:
    with Collection.open(":memory:", calibration="center+standardize") as things:
        things.index(samples.folder(), ocr="never")
        print(answered(things, question))


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]) or "How long does the sourdough rise?")
