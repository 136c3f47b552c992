"""One battery over every kind of index: what a collection relies on, whichever it has."""

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from isthmus import checksums, index
from isthmus.errors import BadFile, BadInput, BadVectors, MissingExtra, UnknownName
from isthmus.index import exact, select
from isthmus.types import Mask, Matrix, Rows

KINDS = sorted(index.KINDS)
ALPHA = 0.75


def folded(n: int, width: int = 64, seed: int = 0) -> tuple[Matrix, Matrix, Rows]:
    """Return clustered unit rows with two bias columns, queries that use the first, and each row's cluster."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((25, width)) @ np.diag(1 / np.arange(1, width + 1) ** 0.5)

    def near(cluster: Rows) -> Matrix:
        rows = centres[cluster] + 0.6 * rng.standard_normal((len(cluster), 12)) @ rng.standard_normal((12, width)) / 6
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))

    cluster = rng.integers(0, 25, n)
    bias = rng.uniform(0.1, 0.5, (n, 2))
    queries = near(rng.integers(0, 25, 40))
    return (
        np.hstack([near(cluster), bias]).astype(np.float32),
        np.hstack([queries, np.full((40, 1), -ALPHA), np.zeros((40, 1))]).astype(np.float32),
        cluster,
    )


VECTORS, QUERIES, CLUSTER = folded(8_000)
BUILT = {kind: index.build(VECTORS, kind) for kind in KINDS}


def dense(vectors: Matrix, queries: Matrix, k: int, allowed: Mask | None = None) -> tuple[Matrix, Rows]:
    """Return what a search must find: every inner product, a stable sort, −inf and −1 where there is nothing."""
    scores = queries.astype(np.float64) @ vectors.T.astype(np.float64)
    if allowed is not None:
        scores[:, ~allowed] = -np.inf
    scores = np.hstack([scores, np.full((len(queries), k), -np.inf)])
    rows = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    scores = np.take_along_axis(scores, rows, axis=1)
    return scores, np.where(np.isneginf(scores), -1, rows)


def recall(found: Rows, wanted: Rows) -> float:
    there = [set(row[row >= 0]) for row in wanted]
    return float(np.mean([len(w & set(f)) / len(w) for f, w in zip(found, there, strict=True)]))


def masks() -> dict[str, NDArray[np.bool_]]:
    """Random ones at four shares, only one cluster, and all but the cluster where the first query's best row is."""
    rng = np.random.default_rng(5)
    best = CLUSTER[dense(VECTORS, QUERIES[:1], 1)[1][0, 0]]
    shares = {f"{share:.1%}": rng.random(len(VECTORS)) < share for share in (0.001, 0.01, 0.1, 0.5)}
    return {**shares, "one cluster": best == CLUSTER, "nearest forbidden": best != CLUSTER}


@pytest.fixture(scope="module", autouse=True)
def products() -> Iterator[None]:
    """Let many queries be a matrix product here, too, where there are few rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "SMALL", 0)
        yield


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_search_finds_what_looking_at_everything_finds(kind: str) -> None:
    scores, rows = BUILT[kind].search(QUERIES, 10)
    wanted_scores, wanted = dense(VECTORS, QUERIES, 10)
    assert rows.shape == scores.shape == (40, 10)
    assert rows.dtype == np.intp and scores.dtype == np.float32
    assert (np.diff(scores, axis=1) <= 0).all()
    if kind == "exact":
        np.testing.assert_array_equal(rows, wanted)
        np.testing.assert_allclose(scores, wanted_scores, atol=1e-6)
    assert recall(rows, wanted) >= 0.97


def test_a_hit_has_the_same_score_in_every_kind_alone_and_in_a_batch(kind: str) -> None:
    scores, rows = BUILT[kind].search(QUERIES, 10)
    exactly = np.array([np.vecdot(VECTORS[r], q) for r, q in zip(rows, QUERIES, strict=True)])
    np.testing.assert_array_equal(scores, exactly)
    alone = BUILT[kind].search(QUERIES[3:4], 10)
    np.testing.assert_array_equal(alone[0], scores[3:4])
    np.testing.assert_array_equal(alone[1], rows[3:4])


@pytest.mark.parametrize("name", masks())
def test_only_allowed_rows_are_found_and_the_best_of_them(kind: str, name: str) -> None:
    allowed = masks()[name]
    scores, rows = BUILT[kind].search(QUERIES, 10, allowed)
    wanted = dense(VECTORS, QUERIES, 10, allowed)[1]
    assert allowed[rows[rows >= 0]].all()
    np.testing.assert_array_equal((rows >= 0).sum(axis=1), min(10, allowed.sum()))
    assert recall(rows, wanted) >= (1 if kind == "exact" else 0.97)
    assert np.isneginf(scores[rows < 0]).all()


@pytest.mark.parametrize("approximate", [k for k in KINDS if k != "exact"])
@pytest.mark.parametrize("name", ["10.0%", "50.0%", "one cluster", "nearest forbidden"])
def test_an_index_finds_its_own_way_through_a_filter(
    approximate: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf: Any = BUILT[approximate]
    allowed = masks()[name]
    monkeypatch.setattr(type(shelf), "cost", lambda _, effort: effort / 1e3)  # so few rows would rather be scanned
    most, least = int(allowed.sum()) // 2, type(shelf).quota
    monkeypatch.setattr(type(shelf), "quota", lambda *given: min(least(*given), most))  # or the mask leaves too few
    monkeypatch.setattr("isthmus.index.approximate.scan", None)
    rows = shelf.search(QUERIES, 10, allowed)[1]
    assert allowed[rows].all()
    assert recall(rows, dense(VECTORS, QUERIES, 10, allowed)[1]) >= 0.97


def test_fewer_rows_than_k_are_all_found_and_the_rest_is_minus_infinity(kind: str) -> None:
    allowed = np.zeros(len(VECTORS), dtype=bool)
    allowed[[7, 5_000, 7_999]] = True
    scores, rows = BUILT[kind].search(QUERIES[:2], 5, allowed)
    assert sorted(rows[0]) == [-1, -1, 7, 5_000, 7_999]
    assert np.isneginf(scores[:, 3:]).all() and np.isfinite(scores[:, :3]).all()
    nothing = BUILT[kind].search(QUERIES[:2], 5, np.zeros(len(VECTORS), dtype=bool))
    assert (nothing[1] == -1).all() and np.isneginf(nothing[0]).all()


def test_k_may_exceed_the_rows_there_are(kind: str) -> None:
    small = index.build(VECTORS[:30], kind)
    scores, rows = small.search(QUERIES, 50)
    assert rows.shape == (40, 50)
    np.testing.assert_array_equal(rows, dense(VECTORS[:30], QUERIES, 50)[1])
    assert np.isneginf(scores[:, 30:]).all()


def test_an_empty_index_and_zero_queries_have_empty_answers(kind: str) -> None:
    empty = index.build(VECTORS[:0], kind)
    assert len(empty) == 0
    assert (empty.search(QUERIES, 3)[1] == -1).all()
    assert BUILT[kind].search(QUERIES[:0], 3)[0].shape == (0, 3)


@pytest.mark.parametrize("k", [0, -1, 2.5, True])
def test_no_hits_cannot_be_asked_for(kind: str, k: int) -> None:
    with pytest.raises(BadInput, match="Use 1 or more"):
        BUILT[kind].search(QUERIES, k)


def test_queries_that_cannot_be_asked_are_refused_with_the_reason(kind: str) -> None:
    broken = QUERIES.copy()
    broken[2, 5] = np.nan
    with pytest.raises(BadVectors, match="query 2 holds NaN"):
        BUILT[kind].search(broken, 3)
    with pytest.raises(BadVectors, match="queries have 65 dimensions but the index has 66"):
        BUILT[kind].search(QUERIES[:, :-1], 3)
    with pytest.raises(BadVectors, match="must be \\(queries, dimensions\\)"):
        BUILT[kind].search(QUERIES[0], 3)
    with pytest.raises(BadInput, match="must be 8000 booleans"):
        BUILT[kind].search(QUERIES, 3, np.ones(5, dtype=bool))


def test_rows_and_queries_of_zero_length_and_equal_rows_are_fine(kind: str) -> None:
    vectors = np.concatenate([np.zeros((50, 66)), VECTORS[:2_000], VECTORS[:2_000]]).astype(np.float32)
    made = index.build(vectors, kind)
    assert recall(made.search(QUERIES, 10)[1], dense(vectors, QUERIES, 10)[1]) >= 0.9  # equal rows may stand in
    scores, rows = made.search(np.zeros((1, 66)), 10)
    assert (scores == 0).all() and len(set(rows[0])) == 10


def test_float64_and_strided_vectors_and_queries_are_taken(kind: str) -> None:
    strided = np.asfortranarray(VECTORS[:3_000].astype(np.float64))
    made = index.build(strided, kind)
    rows = made.search(np.asfortranarray(QUERIES.astype(np.float64)), 10)[1]
    assert recall(rows, dense(VECTORS[:3_000], QUERIES, 10)[1]) >= 0.97


def test_what_was_saved_answers_the_same_over_a_read_only_map(kind: str, tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", VECTORS)
    mapped = np.load(tmp_path / "v.npy", mmap_mode="r")
    written = BUILT[kind].save(tmp_path, "text")
    assert all(path.exists() and path.name.startswith("text") for path in written)
    assert (written == []) == (kind == "exact")
    again = index.load(kind, mapped, tmp_path, "text")
    assert again.kind == kind and len(again) == len(VECTORS)
    for allowed in (None, masks()["1.0%"], masks()["50.0%"]):
        for one, other in zip(
            again.search(QUERIES, 10, allowed), BUILT[kind].search(QUERIES, 10, allowed), strict=True
        ):
            np.testing.assert_array_equal(one, other)
    built = index.build(mapped, kind)
    assert recall(built.search(QUERIES, 10)[1], dense(VECTORS, QUERIES, 10)[1]) >= 0.97


@pytest.mark.parametrize("approximate", [k for k in KINDS if k != "exact"])
@pytest.mark.parametrize("harm", ["truncated", "flipped", "empty", "gone", "no note", "another format"])
def test_a_damaged_file_is_refused(approximate: str, harm: str, tmp_path: Path) -> None:
    file, note = index.build(VECTORS[:500], approximate).save(tmp_path, "text")
    data = bytearray(file.read_bytes())
    if harm == "truncated":
        file.write_bytes(data[: len(data) // 2])
    elif harm == "flipped":
        data[len(data) // 2] ^= 0xFF
        file.write_bytes(data)
    elif harm == "empty":
        file.write_bytes(b"")
    elif harm == "gone":
        file.unlink()
    elif harm == "no note":
        note.unlink()
    else:
        file.write_bytes(b"hello")
        note.write_text(json.dumps({"bytes": 5, "xxh3": checksums.of_file(file)}))
    with pytest.raises(BadFile, match=r"[Bb]uild .* again"):
        index.load(approximate, VECTORS[:500], tmp_path, "text")


@pytest.mark.parametrize("approximate", [k for k in KINDS if k != "exact"])
def test_the_index_of_other_vectors_is_refused(approximate: str, tmp_path: Path) -> None:
    index.build(VECTORS[:500], approximate).save(tmp_path, "text")
    with pytest.raises(BadFile, match=r"500 rows of .* but the vectors are 499"):
        index.load(approximate, VECTORS[:499], tmp_path, "text")


def test_several_threads_may_search_one_index_at_once(kind: str) -> None:
    alone = BUILT[kind].search(QUERIES, 10)[1]
    with ThreadPoolExecutor(8) as pool:
        for rows in pool.map(lambda _: BUILT[kind].search(QUERIES, 10)[1], range(16)):
            np.testing.assert_array_equal(rows, alone)


def test_a_bound_on_threads_changes_no_answer_and_stays_where_it_was_set(kind: str) -> None:
    import faiss

    before = faiss.omp_get_max_threads()
    seen: list[tuple[int, int]] = []
    bound = index.build(VECTORS, kind, threads=1, progress=lambda done, total: seen.append((done, total)))
    assert recall(bound.search(QUERIES, 10)[1], dense(VECTORS, QUERIES, 10)[1]) >= 0.97
    assert faiss.omp_get_max_threads() == before
    assert kind == "exact" or seen[-1] == (8_000, 8_000)


def test_an_unknown_kind_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'hnsw'"):
        index.build(VECTORS, "hsnw")


@pytest.mark.parametrize("bad", [np.zeros(3), np.zeros((3, 0)), np.array([["a"]])])
def test_vectors_that_are_no_matrix_of_numbers_are_refused(bad: Matrix) -> None:
    with pytest.raises(BadVectors, match="vectors to index"):
        index.build(bad)


def test_small_ones_are_exact_and_larger_ones_cells() -> None:
    assert [index.choose(n, 513) for n in (0, 40_000, 100_000)] == ["exact", "exact", "ivf-sq8"]


def test_without_faiss_everything_is_exact_and_a_graph_names_its_extra() -> None:
    code = """if True:
        import sys
        import numpy as np
        import isthmus.index as index
        assert "faiss" not in sys.modules
        sys.modules["faiss"] = None
        from isthmus.index import choice
        choice.find_spec = lambda name: None
        assert index.choose(10**7, 512) == "exact"
        assert index.build(np.eye(4, dtype=np.float32)).search(np.eye(4), 1)[1].tolist() == [[0], [1], [2], [3]]
        try:
            index.build(np.eye(4, dtype=np.float32), "hnsw")
        except ImportError as error:
            print(type(error).__name__, error)
    """
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.startswith(MissingExtra.__name__) and "isthmus[ann]" in told


@st.composite
def questions(draw: st.DrawFn) -> tuple[Matrix, Matrix, int, Mask | None]:
    """Draw small whole numbers, whose products are exact and often equal."""
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    n, width = draw(st.integers(0, 400)), draw(st.integers(1, 6))
    m, k = draw(st.integers(0, 20)), draw(st.integers(1, 40))
    allowed = rng.random(n) < draw(st.floats(0, 1)) if draw(st.booleans()) else None
    vectors, queries = rng.integers(-2, 3, (n, width)), rng.integers(-2, 3, (m, width))
    return vectors.astype(np.float32), queries.astype(np.float32), k, allowed


@given(questions())
def test_exact_search_equals_a_stable_sort_ties_included(question: tuple[Matrix, Matrix, int, Mask | None]) -> None:
    vectors, queries, k, allowed = question
    scores, rows = index.build(vectors, "exact").search(queries, k, allowed)
    wanted_scores, wanted = dense(vectors, queries, k, allowed)
    np.testing.assert_array_equal(scores, wanted_scores)
    np.testing.assert_array_equal(rows, wanted)


@given(questions())
def test_exact_search_is_the_same_by_rows_and_by_a_matrix_product(
    question: tuple[Matrix, Matrix, int, Mask | None],
) -> None:
    vectors, queries, k, allowed = question
    product = index.build(vectors, "exact").search(queries, k, allowed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "SMALL", 1 << 25)
        rows = index.build(vectors, "exact").search(queries, k, allowed)
    np.testing.assert_array_equal(product[0], rows[0])
    np.testing.assert_array_equal(product[1], rows[1])


@given(questions())
def test_exact_search_is_the_same_however_it_is_cut_into_blocks(
    question: tuple[Matrix, Matrix, int, Mask | None],
) -> None:
    vectors, queries, k, allowed = question
    whole = index.build(vectors, "exact").search(queries, k, allowed)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"SCRATCH": 64, "BLOCK": 7, "GATHERED": 5, "BATCH": 11}.items():
            patch.setattr(exact, name, value)
        cut = index.build(vectors, "exact", threads=2).search(queries, k, allowed)
    np.testing.assert_array_equal(whole[0], cut[0])
    np.testing.assert_array_equal(whole[1], cut[1])


@given(st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=300), st.integers(1, 300))
def test_a_key_sorts_like_score_then_place_and_gives_both_back(values: list[float], k: int) -> None:
    scores = np.array([values], dtype=np.float32)
    found, places = select.ordered(select.top(scores, k))
    wanted = np.argsort(-(scores + 0), axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(places, wanted)
    np.testing.assert_array_equal(found, np.take_along_axis(scores, wanted, axis=1))
