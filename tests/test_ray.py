"""On a real Ray cluster of three nodes on this machine: the same result as one process, whatever is killed.

Run by ``make test-all``: Ray is not part of the extra ``test``. Everything here shares one cluster.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isthmus import Collection, Document, Vectors, bulk, calibration
from isthmus.bulk.encoder import PIECE
from isthmus.errors import BadInput, CannotReach
from test_shards import QUERIES, same, shards, stock, vectors

pytestmark = [pytest.mark.install, pytest.mark.filterwarnings("ignore")]  # Ray leaves files and sockets open
ray = pytest.importorskip("ray")

__all__ = ["stock"]  # a fixture


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    """Start a head and two more nodes, one core each."""
    from ray.cluster_utils import Cluster

    os.environ["RAY_DISABLE_MEMORY_MONITOR"] = "1"
    path = os.pathsep.join([*(str(Path(name)) for name in sys.path if name)])
    os.environ["PYTHONPATH"] = path  # workers import what this process imports
    started = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 1, "include_dashboard": False, "object_store_memory": 100_000_000},
    )
    for _ in range(2):
        started.add_node(num_cpus=1, object_store_memory=100_000_000)
    yield started
    ray.shutdown()
    started.shutdown()  # type: ignore[no-untyped-call, unused-ignore]


@pytest.fixture(scope="module")
def cluster(nodes: Any) -> Iterator[bulk.Cluster]:
    with bulk.Cluster(nodes.address) as connected:
        yield connected


def killed_once(shard: partial[Vectors], marker: str) -> Vectors:
    """Read a shard; the first process that does is killed."""
    try:
        Path(marker).touch(exist_ok=False)
    except FileExistsError:
        return shard()
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("this process was killed")


def refused(_: object) -> None:
    raise BadInput("this shard cannot be read. Make it again.")


def test_work_runs_on_three_nodes_and_comes_back_in_order(cluster: bulk.Cluster) -> None:
    assert cluster.width == 3
    assert list(cluster.map(partial(pow, 2), range(20))) == [2**n for n in range(20)]


def test_an_error_of_the_work_is_raised_as_it_is(cluster: bulk.Cluster) -> None:
    with pytest.raises(BadInput, match="this shard cannot be read"):
        list(cluster.map(refused, [1]))


def test_a_fit_on_the_cluster_is_that_of_one_process_though_a_worker_is_killed(
    cluster: bulk.Cluster, tmp_path: Path
) -> None:
    spec = "center+nnn(k=16)+standardize"
    documents = Vectors.concat([shard() for shard in shards()])
    first, *rest = shards()
    there = [partial(killed_once, first, str(tmp_path / "killed")), *rest]
    fitted = calibration.fit_shards(spec, there, QUERIES, mapped=cluster.map)
    assert (tmp_path / "killed").exists()
    whole = calibration.fit(spec, documents, QUERIES)
    np.testing.assert_allclose(fitted.scores(QUERIES, documents), whole.scores(QUERIES, documents), atol=1e-6)


def test_an_index_made_on_the_cluster_is_that_of_one_process(
    cluster: bulk.Cluster, stock: Path, tmp_path: Path
) -> None:
    name = f"onnx:{tmp_path}/tiny"
    with Collection.open(tmp_path / "here", name, follow=False) as here:
        here.index(stock)
        with Collection.open(tmp_path / "there", name, follow=False) as there:
            report = there.index(stock, workers=cluster)
            assert report.added == 100
            same(vectors(here), vectors(there))
            assert there.ids() == here.ids()


class KillsOnce:
    """An encoder of two numbers whose first process is killed in the middle of its work."""

    name, identity, dim, modalities = "kills-once", "kills-once-1", 2, ("text",)

    def __init__(self, marker: str, owner: int) -> None:
        self.marker, self.owner = marker, owner

    def encode_queries(self, queries: Any) -> Vectors:
        return Vectors.of(np.array([[len(str(query)), 1.0] for query in queries], np.float32), "text")

    def encode_documents(self, documents: Any) -> Vectors:
        return self.encode_queries([document.text for document in documents])

    def encode_passages(self, documents: Any, *, skip: Any = None) -> tuple[Vectors, Any]:
        if os.getpid() != self.owner:
            killed_once(partial(Vectors.of, np.ones((1, 2)), "text"), self.marker)
        return self.encode_documents(documents), np.arange(len(documents))

    def split(self, text: str) -> list[tuple[int, int]]:
        return [(0, len(text))]


def test_an_index_survives_the_death_of_a_worker(cluster: bulk.Cluster, stock: Path, tmp_path: Path) -> None:
    encoder = KillsOnce(str(tmp_path / "killed"), os.getpid())
    for picture in stock.glob("*.png"):
        picture.unlink()
    with (
        Collection.open(tmp_path / "here", encoder, follow=False) as here,
        Collection.open(tmp_path / "there", encoder, follow=False) as there,
    ):
        here.index(stock)
        assert there.index(stock, workers=cluster).added == 100
        assert (tmp_path / "killed").exists()
        same(vectors(here), vectors(there))


def test_the_command_line_indexes_on_a_cluster(nodes: Any, stock: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "isthmus.cli", "index", str(stock), "--into", str(tmp_path / "things")]
    command += ["--encoder", f"onnx:{tmp_path}/tiny", "--calibration", "none", "--ray", nodes.address]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 3, done.stderr  # a picture is broken
    assert "100 added" in done.stdout
    assert "indexing" in done.stderr


class WaitsOnItsNode:
    """An encoder of two numbers: each piece of work says on which node it runs, and waits for a lock."""

    name, identity, dim, modalities = "waits", "waits-1", 2, ("text",)

    def __init__(self, folder: Path, owner: int) -> None:
        self.folder, self.owner = str(folder), owner

    def encode_queries(self, queries: Any) -> Vectors:
        return Vectors.of(np.array([[len(str(query)), 1.0] for query in queries], np.float32), "text")

    def encode_documents(self, documents: Any) -> Vectors:
        return self.encode_queries([document.text for document in documents])

    def encode_passages(self, documents: Any, *, skip: Any = None) -> tuple[Vectors, Any]:
        if os.getpid() != self.owner:
            with Path(self.folder, "nodes").open("a") as nodes, Path(self.folder, "gate").open() as gate:
                nodes.write(f"{ray.get_runtime_context().get_node_id()}\n")
                nodes.flush()
                fcntl.flock(gate, fcntl.LOCK_SH)
        return self.encode_documents(documents), np.arange(len(documents))

    def split(self, text: str) -> list[tuple[int, int]]:
        return [(0, len(text))]


def test_an_index_survives_the_loss_of_a_node_in_the_middle_of_its_work(
    cluster: bulk.Cluster, nodes: Any, tmp_path: Path
) -> None:
    """A raylet is killed while its node encodes: what ran there runs again on the others."""
    (tmp_path / "texts").mkdir()
    for number in range(8 * PIECE):
        (tmp_path / "texts" / f"{number}.txt").write_text("word " * number + "end")
    (tmp_path / "gate").touch()
    os.mkfifo(tmp_path / "nodes")
    encoder = WaitsOnItsNode(tmp_path, os.getpid())
    doomed = nodes.add_node(num_cpus=1, object_store_memory=100_000_000)
    with (
        Collection.open(tmp_path / "here", encoder, follow=False) as here,
        Collection.open(tmp_path / "there", encoder, follow=False) as there,
        (tmp_path / "gate").open() as gate,
        os.fdopen(os.open(tmp_path / "nodes", os.O_RDWR)) as working,  # as a writer, too: it never ends
        ThreadPoolExecutor(1) as pool,
    ):
        here.index(tmp_path / "texts")
        fcntl.flock(gate, fcntl.LOCK_EX)
        indexing = pool.submit(there.index, tmp_path / "texts", workers=cluster)
        try:
            while working.readline().strip() != doomed.node_id:  # until it works
                assert not indexing.done()
            nodes.remove_node(doomed, allow_graceful=False)
            assert not doomed.any_processes_alive()
        finally:
            fcntl.flock(gate, fcntl.LOCK_UN)
        assert indexing.result().added == 8 * PIECE
        same(vectors(here), vectors(there))


def test_an_address_without_a_cluster_is_refused() -> None:
    code = "from isthmus import bulk; bulk.Cluster('127.0.0.1:1').__enter__()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert CannotReach.__name__ in done.stderr
    assert "No Ray cluster answers at '127.0.0.1:1'" in done.stderr


def test_documents_that_are_their_own_source_need_no_cluster(cluster: bulk.Cluster, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"id": "a", "text": "words", "vector": [1, 0]}\n')
    with Collection.open(tmp_path / "things", "none", follow=False) as things:
        things.add([Document("b", vectors={"text": np.array([1.0, 0.0])})])
        assert things.index(tmp_path / "rows.jsonl", workers=cluster).files >= 1
