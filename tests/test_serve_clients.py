"""The clients of OpenAI and Cohere work with the server. ``make test-all`` installs them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from isthmus import encoders
from serving import address_of, fill

pytestmark = pytest.mark.install


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, tiny: str) -> Iterator[str]:
    root = tmp_path_factory.mktemp("clients")
    fill(root, tiny, count=3)
    with address_of(root, models=(tiny,)) as address:
        yield address


def test_openais_client_gets_embeddings(address: str, tiny: str) -> None:
    from openai import OpenAI

    with OpenAI(api_key="none", base_url=f"{address}/v1", max_retries=0) as client:
        made = client.embeddings.create(model=tiny, input=["a cat", "a dog"])
        assert [one.id for one in client.models.list()][-1] == tiny
    right = encoders.load(tiny).encode_queries(["a cat", "a dog"]).parts["text"]
    np.testing.assert_allclose([one.embedding for one in made.data], right, atol=1e-6)


def test_openais_client_raises_its_own_errors(address: str) -> None:
    from openai import BadRequestError, OpenAI

    with (
        OpenAI(api_key="none", base_url=f"{address}/v1", max_retries=0) as client,
        pytest.raises(BadRequestError, match="model of this server"),
    ):
        client.embeddings.create(model="text-embedding-3-small", input="a cat")


@pytest.mark.parametrize("version", ["Client", "ClientV2"])
def test_coheres_clients_rerank(address: str, tiny: str, version: str) -> None:
    import cohere
    import httpx

    with httpx.Client() as http:  # it does not close one of its own
        client = getattr(cohere, version)(api_key="none", base_url=address, httpx_client=http)
        found = client.rerank(model=tiny, query="red cat", documents=["a dog runs", "a red cat"], top_n=1)
    assert [one.index for one in found.results] == [1]
    assert 0.5 < found.results[0].relevance_score <= 1
