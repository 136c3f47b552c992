"""Haystack's own tests of document stores, and what is ours: pictures, a retriever in a pipeline, a RAG pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from haystack import Document, Pipeline, component
from haystack.components.builders import PromptBuilder
from haystack.dataclasses import ByteStream
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.document_stores.types import DocumentStore, DuplicatePolicy
from haystack.errors import FilterError
from haystack.testing.document_store import DocumentStoreBaseTests

import isthmus
from isthmus import Collection, connect, encoders
from isthmus.encoders import Encoder
from isthmus.errors import BadInput
from isthmus.integrations.haystack import IsthmusDocumentStore, IsthmusHaystackRetriever
from serving import address_of, png


class StoreTests(DocumentStoreBaseTests):  # type: ignore[misc]
    """Haystack's tests, but for embeddings, which a collection does not keep: it has its own."""

    @staticmethod
    def assert_documents_are_equal(received: list[Document], expected: list[Document]) -> None:
        assert received == [replace(one, embedding=None) for one in expected]

    def test_write_documents(self, document_store: IsthmusDocumentStore) -> None:
        documents = [Document(content="a cat"), Document(content="a dog")]
        assert document_store.write_documents(documents) == 2
        with pytest.raises(DuplicateDocumentError):
            document_store.write_documents(documents)


@pytest.fixture(scope="module")
def mini() -> Encoder:
    return encoders.load("mini")


def test_a_document_whose_picture_is_gone_is_found_without_it(mini: Encoder, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png(1))
    with Collection.open(tmp_path / "things.isthmus", mini) as things:
        things.add([isthmus.Document("gone", image=tmp_path / "a.png")])
        (tmp_path / "a.png").unlink()
        (found,) = IsthmusDocumentStore(things).search("a picture")
    assert (found.id, found.content, found.blob) == ("gone", "[image: gone]", None)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with address_of(tmp_path_factory.mktemp("served")) as address:
        yield address


class TestHere(StoreTests):
    @pytest.fixture
    def document_store(self, mini: Encoder) -> Iterator[IsthmusDocumentStore]:
        with Collection.open(":memory:", mini) as things:
            yield IsthmusDocumentStore(things)


class TestOnAServer(StoreTests):
    @pytest.fixture
    def document_store(self, address: str) -> Iterator[IsthmusDocumentStore]:
        with connect(address, "things", create=True) as things:
            things.delete(things.ids())
            yield IsthmusDocumentStore(things)


@pytest.fixture
def store() -> Iterator[IsthmusDocumentStore]:
    with Collection.open(":memory:") as things:
        store = IsthmusDocumentStore(things)
        notes = {"cat": "a red cat on a sofa", "bread": "how to bake sourdough bread", "rings": "the rings of saturn"}
        store.write_documents([Document(id=name, content=text, meta={"name": name}) for name, text in notes.items()])
        yield store


def test_it_is_a_document_store_that_a_pipeline_can_write_down(tmp_path: Path) -> None:
    store = IsthmusDocumentStore(tmp_path / "things.isthmus")
    methods = [name for name in vars(DocumentStore) if not name.startswith("_")]
    assert all(callable(getattr(store, name)) for name in methods)
    store.write_documents([Document(content="a cat")])
    retriever = IsthmusHaystackRetriever.from_dict(IsthmusHaystackRetriever(store, top_k=3).to_dict())
    assert (retriever.top_k, retriever.document_store.count_documents()) == (3, 1)


def test_a_pipeline_is_written_down_with_the_url_of_a_collection(tmp_path: Path) -> None:
    with address_of(tmp_path) as address, connect(address, "things", create=True) as things:
        form = IsthmusDocumentStore(things).to_dict()
        assert form["init_parameters"] == {"things": f"{address}/v1/collections/things"}
        assert IsthmusDocumentStore.from_dict(form).count_documents() == 0


def test_pictures_are_blobs(store: IsthmusDocumentStore) -> None:
    picture = Document(id="p", blob=ByteStream(png(1), mime_type="image/png"))
    store.write_documents([picture], DuplicatePolicy.OVERWRITE)
    (back,) = store.filter_documents({"field": "id", "operator": "==", "value": "p"})
    assert back.blob is not None
    assert (back.blob.data, back.blob.mime_type, back.content) == (png(1), "image/png", None)
    with pytest.raises(BadInput, match="1 document could not be added"):
        store.write_documents([Document(id="bad", blob=ByteStream(b"no picture", mime_type="image/png"))])


def test_a_retriever_takes_filters(store: IsthmusDocumentStore) -> None:
    retriever = IsthmusHaystackRetriever(store, top_k=1)
    (best,) = retriever.run("a sleeping cat")["documents"]
    assert (best.id, isinstance(best.score, float)) == ("cat", True)
    only = {"field": "meta.name", "operator": "!=", "value": "cat"}
    assert retriever.run("a sleeping cat", filters=only)["documents"][0].id != "cat"
    with pytest.raises(FilterError, match="unknown"):
        retriever.run("a cat", filters={"field": "meta.name", "operator": "like", "value": "c"})


@component
class Echo:
    """A fake model: it repeats what it was shown."""

    @component.output_types(replies=list[str])  # type: ignore[untyped-decorator]
    def run(self, prompt: str) -> dict[str, list[str]]:
        return {"replies": [prompt]}


def test_a_pipeline_answers_from_what_was_found(store: IsthmusDocumentStore) -> None:
    pipeline = Pipeline()
    pipeline.add_component("retriever", IsthmusHaystackRetriever(store, top_k=1))
    template = "{% for one in documents %}{{ one.content }}{% endfor %}? {{ question }}"
    pipeline.add_component("prompt", PromptBuilder(template, required_variables="*"))
    pipeline.add_component("model", Echo())
    pipeline.connect("retriever.documents", "prompt.documents")
    pipeline.connect("prompt.prompt", "model.prompt")
    question = "what is around saturn"
    done = pipeline.run({"retriever": {"query": question}, "prompt": {"question": question}})
    assert done["model"]["replies"] == [f"the rings of saturn? {question}"]
