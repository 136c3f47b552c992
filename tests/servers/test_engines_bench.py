"""The benchmark of engines runs at a tiny scale on servers of vectors, beside other stores."""

from __future__ import annotations

import pytest

from test_bench_engines import measured
from vector_servers import RUNNING, is_alone


def test_the_benchmark_measures_servers_and_other_stores(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_alone():  # the server that is running: two at once are more than two cores can start
        monkeypatch.setenv(RUNNING, request.getfixturevalue("milvus").url)
    rows, said = measured("embedded", "qdrant", "milvus")
    assert [value for name, value, _ in rows if name.startswith("recall@10")] == ["1"] * (10 if is_alone() else 5)
    assert "| Chroma | " in said and "| LanceDB | " in said
    assert ("Milvus: not measured" in said) is not is_alone()
