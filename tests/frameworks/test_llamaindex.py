"""A retriever of LlamaIndex over a collection, alone and in a query engine with LlamaIndex's own fake model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import ResponseMode
from llama_index.core.schema import ImageNode, TextNode

from isthmus import Collection, Document, connect
from isthmus.integrations.llamaindex import IsthmusIndexRetriever
from isthmus.integrations.shared import RetrieverOptions
from isthmus.search import SearchInterface
from serving import address_of, png


@pytest.fixture(params=["here", "on a server"])
def things(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SearchInterface]:
    documents = [
        Document("cat", "a red cat on a sofa", metadata={"lang": "en"}),
        Document("bread", "how to bake sourdough bread", metadata={"lang": "de"}),
        Document("picture", image=png(1)),
    ]
    if request.param == "here":
        with Collection.open(":memory:") as opened:
            opened.add(documents)
            yield opened
    else:
        with address_of(tmp_path) as address, connect(address, "things", create=True) as connected:
            connected.add(documents)
            yield connected


def test_nodes_have_the_text_the_metadata_and_the_chance_of_a_match(things: SearchInterface) -> None:
    first, *others = IsthmusIndexRetriever(things, RetrieverOptions(k=2)).retrieve("a sleeping cat")
    assert (first.node.node_id, first.text, first.metadata) == ("cat", "a red cat on a sofa", {"lang": "en"})
    assert all(0 <= (one.score or 0) <= 1 for one in (first, *others))
    assert isinstance(first.node, TextNode)


def test_options_filter_and_pictures_are_image_nodes(things: SearchInterface) -> None:
    german = IsthmusIndexRetriever(things, RetrieverOptions(where={"lang": "de"}))
    assert [one.node.node_id for one in german.retrieve("a cat")] == ["bread"]
    options = RetrieverOptions(modalities=["image"], picture_size=64)
    (picture,) = IsthmusIndexRetriever(things, options).retrieve("a cat")
    assert isinstance(picture.node, ImageNode)
    assert picture.node.resolve_image().read(3) == b"\xff\xd8\xff"


async def test_it_can_be_awaited(things: SearchInterface) -> None:
    assert len(await IsthmusIndexRetriever(things, RetrieverOptions(k=1)).aretrieve("a cat")) == 1


def test_a_query_engine_answers_from_what_was_found(things: SearchInterface) -> None:
    retriever = IsthmusIndexRetriever(things, RetrieverOptions(k=1))
    engine = RetrieverQueryEngine.from_args(retriever, llm=MockLLM(), response_mode=ResponseMode.COMPACT)
    answer = engine.query("a sleeping cat")
    assert "a red cat on a sofa" in str(answer)  # the fake model repeats what it was shown
    assert [one.node.node_id for one in answer.source_nodes] == ["cat"]
