"""LangChain's own standard tests of vector stores and retrievers, and what is ours. ``make test-all`` installs it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document as LangChainDocument
from langchain_tests.integration_tests import RetrieversIntegrationTests, VectorStoreIntegrationTests

from isthmus import Collection, Document, connect
from isthmus.errors import BadInput
from isthmus.integrations.langchain import IsthmusRetriever, IsthmusVectorStore
from isthmus.integrations.shared import RetrieverOptions
from isthmus.search import SearchInterface
from serving import address_of, png

NOTES = ["a red cat on a sofa", "how to bake sourdough bread", "the rings of saturn"]


class TestOwnEncoder(VectorStoreIntegrationTests):  # type: ignore[misc]
    @pytest.fixture
    def vectorstore(self) -> Iterator[IsthmusVectorStore]:
        with Collection.open(":memory:") as things:
            yield IsthmusVectorStore(things)


class TestEmbeddingsOfLangChain(VectorStoreIntegrationTests):  # type: ignore[misc]
    @pytest.fixture
    def vectorstore(self) -> Iterator[IsthmusVectorStore]:
        with Collection.open(":memory:", "none") as things:
            yield IsthmusVectorStore(things, self.get_embeddings())


class TestOnAServer(VectorStoreIntegrationTests):  # type: ignore[misc]
    @pytest.fixture
    def vectorstore(self, tmp_path: Path) -> Iterator[IsthmusVectorStore]:
        with address_of(tmp_path) as address, connect(address, "things", create=True) as things:
            yield IsthmusVectorStore(things)


class TestRetriever(RetrieversIntegrationTests):  # type: ignore[misc]
    @property
    def retriever_constructor(self) -> type[IsthmusRetriever]:
        return IsthmusRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        things = Collection.open(":memory:")
        things.add([Document(f"n{number}", text) for number, text in enumerate([*NOTES, "a dog"])])
        return {"things": things}

    @property
    def retriever_query_example(self) -> str:
        return "a sleeping cat"


@pytest.fixture
def things() -> Iterator[SearchInterface]:
    with Collection.open(":memory:") as opened:
        opened.add([Document(f"n{number}", text, metadata={"n": number}) for number, text in enumerate(NOTES)])
        opened.add([Document("p", image=png(1))])
        yield opened


def test_searches_take_filters_and_modalities(things: SearchInterface) -> None:
    store = IsthmusVectorStore(things, picture_size=64)
    assert [one.id for one in store.similarity_search("a cat", where={"n": {"gte": 1}}, k=1)] != ["n0"]
    (picture,) = store.similarity_search("a cat", modalities=["image"])
    assert (picture.id, picture.page_content) == ("p", "[image: p]")
    assert picture.metadata["image_url"].startswith("data:image/jpeg;base64,")
    retriever = store.as_retriever(search_kwargs={"k": 1, "where": {"n": 2}})
    assert [one.id for one in retriever.invoke("a cat")] == ["n2"]


def test_a_document_whose_picture_is_gone_is_found_without_it(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png(1))
    with Collection.open(tmp_path / "things.isthmus") as things:
        things.add([Document("gone", image=tmp_path / "a.png")])
        (tmp_path / "a.png").unlink()
        (found,) = IsthmusVectorStore(things, picture_size=64).similarity_search("a picture")
    assert (found.id, "image_url" in found.metadata) == ("gone", False)


def test_scores_are_better_when_higher_and_relevance_is_the_chance_of_a_match(things: SearchInterface) -> None:
    store = IsthmusVectorStore(things)
    found = store.similarity_search_with_score("a red cat", k=3)
    assert found[0][0].id == "n0"
    assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)
    assert all(0 <= chance <= 1 for _, chance in store.similarity_search_with_relevance_scores("a red cat", k=4))


def test_a_retriever_tells_the_score_and_the_modality(things: SearchInterface) -> None:
    retriever = IsthmusRetriever(things=things, options=RetrieverOptions(k=2, hybrid=True, picture_size=64))
    first, _ = retriever.invoke("saturn rings")
    assert (first.id, first.metadata["modality"]) == ("n2", "text")
    assert 0 <= first.metadata["probability"] <= 1


def test_texts_make_a_store_of_their_own() -> None:
    store = IsthmusVectorStore.from_texts(NOTES, None, [{"n": 1}] * 3, ids=["a", "b", "c"])
    assert store.similarity_search("bread", 1) == [LangChainDocument(id="b", page_content=NOTES[1], metadata={"n": 1})]
    with pytest.raises(BadInput, match="as many of each"):
        store.add_texts(NOTES, ids=["a"])
    with pytest.raises(BadInput, match="neither text nor image"):
        store.add_texts([" "])
    with pytest.raises(BadInput, match="ids"):
        store.delete()
