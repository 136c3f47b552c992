"""Exact search and biases by torch: the same results as NumPy's, whatever the tiles, the precision and the memory."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from isthmus import Collection, Document, Query, calibration, index
from isthmus.calibration.bank import ExactSearch, best_by_modality, nearest_mean
from isthmus.calibration.largest import mean_of_largest
from isthmus.calibration.pairs import Pairs
from isthmus.calibration.passages import Passages
from isthmus.errors import BadInput
from isthmus.index import DeviceNeighbours
from isthmus.index.device import DeviceExact, DeviceProducts, Slab, Tile
from isthmus.index.tiles import decoded, largest_products
from isthmus.search.handle import Handle
from isthmus.storage.memory.published import MemoryVectors
from isthmus.types import Matrix, Vectors

PRECISIONS = ["full", "half"]


def unit(n: int, dim: int = 32, seed: int = 0) -> Matrix:
    rows = np.random.default_rng(seed).standard_normal((n, dim)).astype(np.float32)
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


ROWS, QUERIES = unit(5_000), unit(70, seed=1)
EXACT = index.build(ROWS, "exact")


@pytest.fixture(params=PRECISIONS)
def precision(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def small(precision: str, rows: int = 32, columns: int = 1024) -> DeviceExact:
    """An index whose tiles are smaller than the test's arrays."""
    shelf = DeviceExact(ROWS, device="cpu", precision=precision)
    shelf.products.tile = Tile(rows, columns)
    return shelf


@pytest.mark.parametrize("k", [1, 10, 200])
def test_a_device_finds_what_the_processor_finds(precision: str, k: int) -> None:
    scores, rows = small(precision).search(QUERIES, k)
    wanted, places = EXACT.search(QUERIES, k)
    np.testing.assert_allclose(scores, wanted, atol=1e-6)
    np.testing.assert_array_equal(rows, places)
    assert scores.dtype == np.float32 and rows.dtype == np.intp


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3])
def test_a_filter_hides_rows_and_fewer_than_k_are_filled(precision: str, share: float) -> None:
    allowed = np.random.default_rng(3).random(len(ROWS)) < share
    scores, rows = small(precision).search(QUERIES, 20, allowed)
    wanted, places = EXACT.search(QUERIES, 20, allowed)
    np.testing.assert_array_equal(rows, places)
    np.testing.assert_allclose(scores, wanted, atol=1e-6)


def test_equal_rows_tie_and_the_first_come_first(precision: str) -> None:
    shelf = DeviceExact(np.tile(ROWS[:1], (3_000, 1)), device="cpu", precision=precision)
    shelf.products.tile = Tile(32, 512)
    assert shelf.search(ROWS[:1], 5)[1].tolist() == [[0, 1, 2, 3, 4]]


def test_vectors_of_any_length_are_searched_in_half_precision() -> None:
    stretched = ROWS * np.geomspace(1e-3, 1e6, len(ROWS), dtype=np.float32)[:, None]
    asked = QUERIES * np.float32(1e5)  # products overflow float16 unless they are scaled
    found = DeviceExact(stretched, device="cpu", precision="half").search(asked, 10)
    wanted = index.build(stretched, "exact").search(asked, 10)
    np.testing.assert_array_equal(found[1], wanted[1])
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-5)


def test_rows_nearer_to_each_other_than_float16_can_tell_are_ranked_by_float32() -> None:
    rng = np.random.default_rng(0)
    close = ROWS[:1] + 1e-5 * rng.standard_normal((2_000, 32)).astype(np.float32)  # one cluster; float16 ties
    found = DeviceExact(close, device="cpu", precision="half").search(QUERIES[:5], 10)
    wanted = index.build(close, "exact").search(QUERIES[:5], 10)
    np.testing.assert_allclose(found[0], wanted[0], atol=1e-6)


def test_float16_alone_would_miss_some_of_them() -> None:
    rng = np.random.default_rng(0)
    close = torch.from_numpy(ROWS[:1] + 1e-5 * rng.standard_normal((2_000, 32)).astype(np.float32))
    asked = torch.from_numpy(QUERIES[:5])
    half = decoded(largest_products(asked.half(), close.half(), 10, 512))[1]
    full = decoded(largest_products(asked, close, 10, 512))[1]
    assert not torch.equal(half.sort().values, full.sort().values)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 300), st.integers(1, 40), st.integers(1, 350), st.integers(1, 64), st.integers(0, 2**32 - 1))
def test_tiles_of_any_shape_select_the_largest(n: int, m: int, columns: int, k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.integers(-3, 4, (n, 4)).astype(np.float32)  # many ties
    asked = rng.integers(-3, 4, (m, 4)).astype(np.float32)
    keys = largest_products(torch.from_numpy(asked), torch.from_numpy(rows), k, columns)
    scores, places = (one.numpy() for one in decoded(keys))
    products = asked @ rows.T
    order = np.argsort(-products, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(scores, np.take_along_axis(products, order, axis=1))


class Small(DeviceProducts):
    """A device with room for so many products at a time."""

    room = 0

    def block(self, queries: Any, slab: Slab, k: int, hidden: Any = None) -> Any:
        if len(queries) * self.tile.columns > self.room:
            raise torch.OutOfMemoryError("no room for this tile")
        return super().block(queries, slab, k, hidden)


def with_room(room: int, slab_rows: int | None = None) -> Small:
    products = Small("cpu", "full", Tile(1024, 8192), slab_rows)
    products.room = room
    return products


def test_a_block_that_does_not_fit_is_halved_until_it_does() -> None:
    shelf = DeviceExact(ROWS, device="cpu")
    shelf.products = with_room(32 * 4096)
    np.testing.assert_array_equal(shelf.search(QUERIES, 10)[1], EXACT.search(QUERIES, 10)[1])
    assert (shelf.products.tile.rows, shelf.products.tile.columns) == (32, 4096)


def test_a_device_without_room_for_the_smallest_block_is_refused() -> None:
    shelf = DeviceExact(ROWS, device="cpu")
    shelf.products = with_room(0)
    with pytest.raises(BadInput, match="A block of the smallest size does not fit into the memory of the device"):
        shelf.search(QUERIES, 10)


class NarrowSlabs(DeviceProducts):
    """A device with room for 700 rows of a bank."""

    def copied(self, first: int, rows: Matrix) -> Slab:
        if len(rows) > 700:
            raise torch.OutOfMemoryError("no room for these rows")
        return super().copied(first, rows)


def test_rows_that_do_not_fit_are_searched_slab_by_slab(precision: str) -> None:
    shelf = DeviceExact(ROWS, device="cpu", precision=precision)
    shelf.products, shelf._kept = NarrowSlabs("cpu", precision, Tile(64, 512), 1_000), None
    assert [len(slab.full) for slab in shelf.products.slabs(ROWS)] == [500] * 10
    allowed = np.arange(len(ROWS)) % 3 > 0
    for mask in (None, allowed):
        np.testing.assert_array_equal(shelf.search(QUERIES, 10, mask)[1], EXACT.search(QUERIES, 10, mask)[1])


def test_the_process_keeps_its_own_setting_of_tf32() -> None:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        DeviceExact(ROWS, device="cpu").search(QUERIES, 3)
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision(before)


def test_a_gpu_beyond_the_last_one_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(BadInput, match="torch has no device 'cuda:1': the last one is 'cuda:0'"):
        index.build(ROWS, device="cuda:1")


def test_an_index_on_a_device_is_built_like_any_other() -> None:
    shelf = index.build(ROWS, device="cpu")
    assert (shelf.kind, len(shelf)) == ("exact", len(ROWS))
    np.testing.assert_array_equal(shelf.search(QUERIES, 3)[1], EXACT.search(QUERIES, 3)[1])
    with pytest.raises(BadInput, match="An index on a device is exact, not hnsw"):
        index.build(ROWS, "hnsw", device="cpu")
    with pytest.raises(BadInput, match="torch has no device 'abacus'"):
        index.build(ROWS, device="abacus")
    with pytest.raises(BadInput, match="precision is 'quarter'"):
        index.build(ROWS, device="cpu", precision="quarter")


def test_a_mean_over_the_nearest_is_the_processors_to_four_digits(precision: str) -> None:
    search = DeviceNeighbours("cpu", precision)
    search.products.tile = Tile(500, 1024)
    found = nearest_mean(QUERIES, ROWS, 16, search)
    np.testing.assert_allclose(found, mean_of_largest(QUERIES @ ROWS.T, 16), atol=1e-6)
    with pytest.raises(BadInput, match="k = 5001 neighbours must be between 1 and 5000"):
        search(QUERIES, ROWS, 5001)


def test_a_bank_stays_on_the_device_for_the_next_block(monkeypatch: pytest.MonkeyPatch) -> None:
    search = DeviceNeighbours("cpu")
    search(QUERIES, ROWS, 3)
    monkeypatch.setattr(DeviceProducts, "copied", None)
    assert search(QUERIES, ROWS, 3)[1].shape == (70, 3)


def world(passages: bool) -> tuple[Vectors, Vectors, Any, Any]:
    rng = np.random.default_rng(5)
    documents = Vectors.of(rng.normal(size=(240, 16)) + 1, np.repeat(["text", "image"], 120))
    queries = Vectors.of(rng.normal(size=(90, 16)) + 1, np.repeat(["text", "image"], 45))
    owner = np.repeat(np.arange(120), 2) if passages else np.arange(240)
    return documents, queries, owner, rng.integers(-1, owner[-1] + 1, 90)


@pytest.mark.parametrize("passages", [False, True])
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(
    "spec", ["center+nnn(k=16)+standardize", "standardize+nnn(k=8)", "nnn", "center+blend(strength=0.5)"]
)
def test_a_calibration_fitted_and_folded_on_a_device_is_the_processors(
    spec: str, known: bool, passages: bool, precision: str
) -> None:
    documents, queries, owner, sources = world(passages)
    made_from = sources if known else None
    search = DeviceNeighbours("cpu", precision)
    here = calibration.fit(spec, documents, queries, sources=made_from, owner=owner)
    there = calibration.fit(spec, documents, queries, sources=made_from, owner=owner, neighbours=search)
    one = here.fold(documents, sources=made_from, owner=owner).vectors
    other = there.fold(documents, sources=made_from, owner=owner, neighbours=search).vectors
    np.testing.assert_allclose(other, one, atol=1e-5)
    inner = here.fold_queries(queries).vectors @ one.T
    finished = [fitted.finish(inner, queries.modality, documents.modality) for fitted in (here, there)]
    np.testing.assert_allclose(finished[1], finished[0], atol=1e-4)


@pytest.mark.parametrize("passages", [False, True])
def test_pseudo_positives_are_searched_for_exactly(passages: bool) -> None:
    documents, queries, owner, sources = world(passages)
    together = Passages.of(documents, owner)
    own = Pairs.of(sources, queries=90, documents=len(together))
    minus = np.random.default_rng(0).normal(size=len(together)).astype(np.float32)
    x, bank = (vectors.parts["text"] + vectors.parts["image"] for vectors in (documents, queries))
    search = DeviceNeighbours("cpu")
    assert isinstance(search, ExactSearch)
    found = best_by_modality(x.astype(np.float32), together, bank.astype(np.float32), minus, own, search)
    wanted = best_by_modality(x.astype(np.float32), together, bank.astype(np.float32), minus, own)
    np.testing.assert_allclose(found, wanted, atol=1e-4)


def test_an_approximate_search_leaves_statistics_exact() -> None:
    assert not isinstance(index.FaissNeighbours(), ExactSearch)


@pytest.mark.parametrize("server", [None, MemoryVectors])
def test_a_collection_folds_on_the_device_it_was_opened_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: type[MemoryVectors] | None
) -> None:
    seen: list[int] = []

    class Counting(DeviceNeighbours):
        def __call__(self, vectors: Matrix, bank: Matrix, k: int) -> Any:
            seen.append(len(vectors))
            return super().__call__(vectors, bank, k)

    def scores(name: str) -> list[tuple[str, float]]:
        with Collection.open(
            tmp_path / name, "none", follow=False, vectors=None if server is None else server()
        ) as things:
            things.add(Document(str(n), vectors={"text": row}) for n, row in enumerate(ROWS[:300]))
            things.calibrate("center+nnn(k=8)+standardize")
            return [(hit.id, hit.score) for hit in things.search(Query(vectors={"text": QUERIES[0]}), k=20)]

    here = scores("here")
    monkeypatch.setattr(Handle, "neighbours", lambda _: Counting("cpu"))
    there = scores("there")
    assert sum(seen) >= 300
    assert [name for name, _ in there] == [name for name, _ in here]
    np.testing.assert_allclose([score for _, score in there], [score for _, score in here], atol=1e-4)


def test_a_collection_on_a_device_that_torch_lacks_folds_on_the_processor() -> None:
    with Collection.open(":memory:", "none", device="cuda:7") as things:
        expected = not torch.cuda.is_available()
        assert (things._handle.neighbours() is None) == expected


def test_the_benchmark_of_devices_runs_on_a_processor() -> None:
    sizes = ["--documents", "600", "--references", "100", "300", "--dim", "16", "--k", "4", "--times", "1"]
    command = [sys.executable, "bench/device.py", "--device", "cpu", *sizes, "--sample", "20"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[1])
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith(("half", "full"))]
    assert [line[0] for line in lines] == ["half"] * 6 + ["full"] * 6
    assert all(float(line[-1]) < 1e-4 for line in lines)
    assert done.stdout.count("fold, ") == 2
