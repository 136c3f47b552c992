"""Stores that isthmus did not build: files. `tests/stores/` has the same for databases, with their clients."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import faiss
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from isthmus import stores
from isthmus.calibration import Statistics
from isthmus.cli import main
from isthmus.errors import BadFile, BadInput, BadSpec, CannotFit, CannotRead, CannotWrite, UnknownName
from isthmus.stores import StoreAddress, StoreDescription, StoreKind, sampling
from isthmus.stores.base import Batch, Id
from isthmus.types import Matrix, Vectors
from store_battery import (
    HALF,
    check_command_line,
    check_docs,
    check_rows,
    check_searches,
    check_store,
    check_updates,
    command_line,
    options,
    own_scores,
    world,
)
from store_clients import CLIENTS, Rows

ROOT = Path(__file__).parent.parent
FILES = ["parquet", "faiss", "clip-retrieval"]
Held = dict[int, tuple[Matrix, str]]  # vectors and kinds, by id


@dataclass
class Shelf:
    """A store in memory that takes adds, changes and deletes, as databases do."""

    places: dict[str, Held]
    name: str
    whole = False

    def describe(self) -> StoreDescription:
        return StoreDescription(len(self.places[self.name]), 24, ("kind",))

    def batches(self, size: int) -> Iterator[Batch]:
        rows = list(self.places[self.name].items())
        for start in range(0, len(rows), size):
            some = rows[start : start + size]
            kinds = [{"kind": kind} for _, (_, kind) in some]
            yield Batch([key for key, _ in some], np.stack([vector for _, (vector, _) in some]), kinds)

    def exists(self) -> bool:
        return self.name in self.places

    @contextmanager
    def writing(self, dim: int, metric: str, like: StoreDescription) -> Iterator[Callable[[Batch], None]]:
        held = self.places.setdefault(self.name, {})

        def write(batch: Batch) -> None:
            for key, vector, row in zip(batch.ids, batch.vectors, batch.metadata, strict=True):
                assert {len(vector)} == {len(other) for other, _ in held.values()} or not held  # as databases do
                held[int(key)] = (vector, row["kind"])

        yield write

    def ids(self) -> Iterator[Sequence[Id]]:
        yield list(self.places[self.name])

    def delete(self, ids: Sequence[Id]) -> None:
        for key in ids:
            del self.places[self.name][int(key)]

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch) -> dict[str, Held]:
    """Stores in memory by name; ``old`` has the rows of ``world``."""
    some = world().rows
    rows = zip(some.vectors, some.kinds.tolist(), strict=True)
    made: dict[str, Held] = {"old": dict(zip(some.ids, rows, strict=True))}
    kind = StoreKind(
        example="shelf:NAME",
        options=(),
        values={"inner": "inner", "cosine": "cosine"},
        source=lambda address: Shelf(made, address.place),
        target=lambda address, _: Shelf(made, address.place),
    )
    monkeypatch.setattr("isthmus.stores.kinds.KINDS", {**stores.KINDS, "shelf": kind})
    return made


OLD, NEW = "shelf:old?modality=kind", "shelf:new"


def check_new(places: dict[str, Held], fold: stores.Fold) -> None:
    """The new store has the rows of the old one, folded, and no others."""
    rows = places["old"]
    vectors, kinds = np.stack([vector for vector, _ in rows.values()]), np.array([kind for _, kind in rows.values()])
    assert sorted(places["new"]) == sorted(rows)
    expected = fold.rows(vectors, kinds, list(rows))
    assert np.allclose(np.stack([places["new"][key][0] for key in rows]), expected, atol=1e-5)


@pytest.mark.parametrize("name", FILES)
def test_a_calibrated_store_returns_what_isthmus_returns(name: str, tmp_path: Path) -> None:
    check_store(name, tmp_path)


@pytest.mark.parametrize("name", FILES)
def test_rows_of_the_store_can_stand_for_queries_and_do_not_meet_themselves(name: str, tmp_path: Path) -> None:
    check_store(name, tmp_path, sampled=True)


def test_every_metric_of_faiss_gives_the_same_order_and_scores(tmp_path: Path) -> None:
    some, client = world(), CLIENTS["faiss"]
    source = client.build(tmp_path, some.rows)
    for metric in ("inner", "l2"):
        target, file = f"faiss:{tmp_path}/{metric}.faiss", tmp_path / f"{metric}.fold"
        stores.calibrate(source, target, file, options(tmp_path, some.references, metric=metric))
        check_searches("faiss", target, stores.load(file), some, tolerance=1e-3 if metric == "l2" else 1e-4)


def test_folded_rows_have_one_length_so_that_cosine_and_distance_keep_the_order(tmp_path: Path) -> None:
    some, client = world(), CLIENTS["parquet"]
    source, target, file = client.build(tmp_path, some.rows), client.target(tmp_path), tmp_path / "a.fold"
    stores.calibrate(source, target, file, options(tmp_path, some.references))
    fold = stores.load(file)
    rows = fold.rows(some.rows.vectors, some.rows.kinds)
    assert np.allclose(np.linalg.norm(rows, axis=1), fold.radius, rtol=1e-5)
    expected = own_scores(fold, some)[0]
    query = fold.query(some.queries[0]).astype(np.float64)
    cosine = rows @ query / np.linalg.norm(query) / np.linalg.norm(rows, axis=1)
    distance = np.linalg.norm(rows - query, axis=1)
    assert np.allclose(fold.scores(cosine, query, metric="cosine"), expected, atol=1e-4)
    assert np.allclose(fold.scores(distance, query, metric="l2"), expected, atol=1e-3)
    assert np.array_equal(np.argsort(-cosine)[:10], np.argsort(-expected)[:10])
    assert np.array_equal(np.argsort(distance)[:10], np.argsort(-expected)[:10])
    with pytest.raises(BadInput, match="need the query"):
        fold.scores(cosine, metric="cosine")


def test_the_new_table_has_the_columns_and_the_rows_of_the_old_one(tmp_path: Path) -> None:
    some = world()
    extra = {"id": [f"r{n}" for n in some.rows.ids], "price": [1.5] * len(some.rows), "seen": [None] * len(some.rows)}
    table = pa.table({**extra, "vec": list(some.rows.vectors), "modality": some.rows.kinds.tolist()})
    pq.write_table(table, tmp_path / "old.parquet", row_group_size=7)
    before = (tmp_path / "old.parquet").read_bytes()
    stores.calibrate(
        f"parquet:{tmp_path}/old.parquet", f"parquet:{tmp_path}/new.parquet", tmp_path / "a.fold", options(tmp_path)
    )
    new = pq.read_table(tmp_path / "new.parquet")
    assert new.drop_columns(["vec"]).equals(table.drop_columns(["vec"]))
    assert new.schema.names == table.schema.names
    assert (tmp_path / "old.parquet").read_bytes() == before


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    some, client = world(), CLIENTS["parquet"]
    source, target, file = client.build(tmp_path, some.rows), client.target(tmp_path), tmp_path / "a.fold"
    chosen = options(tmp_path, some.references)
    with pytest.raises(BadInput, match="is the store itself"):
        stores.calibrate(source, source, file, chosen)
    stores.calibrate(source, target, file, chosen)
    with pytest.raises(CannotWrite, match=r"a\.fold exists"):
        stores.calibrate(source, target, file, chosen)
    with pytest.raises(CannotWrite, match="nothing is overwritten"):
        stores.calibrate(source, target, tmp_path / "b.fold", chosen)


@pytest.mark.parametrize("name", ["parquet", "faiss"])
def test_an_update_follows_adds_changes_and_deletes_without_fitting_again(name: str, tmp_path: Path) -> None:
    check_updates(name, tmp_path, whole=True)


@pytest.mark.parametrize("name", ["parquet", "faiss"])
def test_an_update_of_what_has_not_changed_leaves_the_file_as_it_is(name: str, tmp_path: Path) -> None:
    some, client = world(), CLIENTS[name]
    source, target, file = client.build(tmp_path, some.rows), client.target(tmp_path), tmp_path / "a.fold"
    chosen = options(tmp_path, some.references)
    stores.calibrate(source, target, file, chosen)
    before = Path(target.partition(":")[2]).read_bytes()
    again = stores.update(source, target, file, chosen)
    assert (again.written, again.refitted) == (0, False)
    assert Path(target.partition(":")[2]).read_bytes() == before


def test_an_update_fits_again_for_a_new_modality_and_not_for_one_that_is_gone(tmp_path: Path) -> None:
    some, client = world(), CLIENTS["parquet"]
    source, target, file = client.build(tmp_path, some.rows), client.target(tmp_path), tmp_path / "a.fold"
    chosen, rows = options(tmp_path, some.references), some.rows
    stores.calibrate(source, target, file, chosen)
    client.build(tmp_path, Rows(rows.ids[HALF:], rows.vectors[HALF:], rows.kinds[HALF:]))
    report = stores.update(source, target, file, chosen)
    assert (report.refitted, report.rows) == (False, {"text": HALF})
    sounds = np.where(np.arange(2 * HALF) % 4 == 0, "audio", rows.kinds)
    client.build(tmp_path, Rows(rows.ids, rows.vectors, sounds))
    report = stores.update(source, target, file, chosen)
    assert (report.refitted, report.rows["audio"]) == (True, HALF // 2)
    check_rows("parquet", target, stores.load(file), Rows(rows.ids, rows.vectors, sounds), some.queries[:3])


def test_an_update_follows_the_shards_of_clip_retrieval(tmp_path: Path) -> None:
    some, client = world(), CLIENTS["clip-retrieval"]
    source, target, file = client.build(tmp_path, some.rows), client.target(tmp_path), tmp_path / "a.fold"
    old, new = tmp_path / "embeddings", tmp_path / "embeddings_fair"
    chosen = options(tmp_path, some.references)
    stores.calibrate(source, target, file, chosen)
    fold, before = stores.load(file), {path: path.read_bytes() for path in sorted(new.rglob("*.*"))}
    again = stores.update(source, target, file, chosen)
    assert (again.written, again.refitted) == (0, False)
    assert {path: path.read_bytes() for path in sorted(new.rglob("*.*"))} == before

    pictures, captions = some.rows.vectors[:HALF], some.rows.vectors[HALF:]
    np.save(old / "img_emb/img_emb_0.npy", np.vstack([pictures[5:6], pictures[1:-2]]).astype(np.float16))  # one changed
    np.save(old / "text_emb/text_emb_0.npy", captions[:-2].astype(np.float16))
    np.save(old / "img_emb/img_emb_1.npy", pictures[-3:].astype(np.float16))
    pq.write_table(pa.table({"caption": ["a", "b", "c"]}), old / "metadata/metadata_1.parquet")
    report = stores.update(source, target, file, chosen)
    assert (report.refitted, report.written, report.rows) == (
        False,
        2 * HALF - 1,
        {"image": HALF + 1, "text": HALF - 2},
    )
    for path in old.rglob("*.npy"):
        kind = "image" if path.parent.name == "img_emb" else "text"
        raw = np.load(path).astype(np.float32)
        expected = fold.rows(raw, np.full(len(raw), kind))
        assert np.allclose(np.load(new / path.relative_to(old)), expected, atol=1e-6)
    assert {one.name for one in (new / "metadata").iterdir()} == {"metadata_0.parquet", "metadata_1.parquet"}

    (old / "img_emb/img_emb_1.npy").unlink()
    (old / "metadata/metadata_1.parquet").unlink()
    assert stores.update(source, target, file, chosen).rows == {"image": HALF - 2, "text": HALF - 2}
    assert sorted(path.relative_to(new) for path in new.rglob("*.*")) == sorted(
        path.relative_to(old) for path in old.rglob("*.*")
    )


def test_an_update_fits_again_when_the_vectors_have_drifted_and_says_so(tmp_path: Path) -> None:
    some, other, client = world(), world(seed=1), CLIENTS["parquet"]
    source, target, file = client.build(tmp_path, some.rows), client.target(tmp_path), tmp_path / "a.fold"
    stores.calibrate(source, target, file, options(tmp_path, some.references))
    client.build(tmp_path, other.rows)
    report = stores.update(source, target, file, options(tmp_path))  # the queries are in the fold
    assert report.refitted
    assert "drifted" in report.why
    assert "of the last fit" in report.note
    check_searches("parquet", target, stores.load(file), other)


def test_an_update_by_the_command_line_needs_only_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    some, client = world(), CLIENTS["parquet"]
    source, target = client.build(tmp_path, some.rows), client.target(tmp_path)
    monkeypatch.chdir(tmp_path)
    run = command_line(monkeypatch, capsys)
    run("calibrate", source, "--into", target)
    fewer = Rows(some.rows.ids[:-2], some.rows.vectors[:-2], some.rows.kinds[:-2])
    client.build(tmp_path, fewer)
    told = json.loads(run("calibrate", source, "--update", "--json"))
    assert (told["target"], sum(told["rows"].values())) == (target, len(fewer))
    [fold] = tmp_path.glob("*.fold")
    assert json.loads(run("calibrate", source, "--update", "--fold", str(fold), "--json"))["written"] == 0
    copied = fold.with_name("copy.fold")
    copied.write_bytes(fold.read_bytes())
    for more, said in (((), "copy.fold and"), (("--fold", "gone.fold"), "Found here: none")):
        monkeypatch.setattr(sys, "argv", ["isthmus", "calibrate", source, "--update", *more])
        with pytest.raises(SystemExit):
            main()
        assert said in " ".join(capsys.readouterr().err.split())


def test_an_update_after_an_interrupted_run_writes_every_row(tmp_path: Path) -> None:
    some, client = world(), CLIENTS["parquet"]
    source, target, file = client.build(tmp_path, some.rows), client.target(tmp_path), tmp_path / "a.fold"
    chosen = options(tmp_path, some.references)
    stores.calibrate(source, target, file, chosen)
    (tmp_path / "a.fold.rows").unlink()  # what a run that was killed leaves
    report = stores.update(source, target, file, chosen)
    assert (report.refitted, report.written, report.why) == (True, 2 * HALF, "the last run was interrupted")
    check_searches("parquet", target, stores.load(file), some)


def test_an_update_that_fits_again_keeps_the_calibration_the_metric_and_the_kind_of_query(tmp_path: Path) -> None:
    some, other, client = world(), world(seed=1), CLIENTS["faiss"]
    source, target, file = client.build(tmp_path, some.rows), client.target(tmp_path), tmp_path / "a.fold"
    pictures = some.rows.vectors[:HALF]
    np.save(tmp_path / "pictures.npy", pictures)
    asked = stores.StoreOptions(
        spec="center+nnn(k=3)", queries=tmp_path / "pictures.npy", query_modality="image", metric="l2"
    )
    stores.calibrate(source, target, file, asked)
    client.build(tmp_path, other.rows)
    report = stores.update(source, target, file, stores.StoreOptions(query_modality="text"))  # as the command line
    assert (report.refitted, report.spec, report.metric) == (True, "center+nnn(k=3)", "l2")
    fold = stores.load(file)
    assert (fold.queries, fold.metric) == ("image", "l2")
    query = fold.query(pictures[0])
    ids, values = client.search(target, query, 10)
    expected = fold.fitted.scores(Vectors.of(pictures[:1], "image"), Vectors.of(other.rows.vectors, other.rows.kinds))
    assert np.allclose(fold.scores(values, query), expected[0][ids], atol=1e-3)
    with pytest.raises(BadInput, match=r"has the metric l2\. Leave --metric out"):
        stores.update(source, target, file, stores.StoreOptions(query_modality="image", metric="inner"))


@pytest.mark.parametrize("change", ["calibration", "queries"])
def test_an_update_that_asks_for_something_else_fits_it(change: str, tmp_path: Path, places: dict[str, Held]) -> None:
    some, file = world(), tmp_path / "a.fold"
    stores.calibrate(OLD, NEW, file, options(tmp_path, some.references))
    asked = {
        "calibration": lambda: options(tmp_path, some.references, spec="center+nnn(k=5)+standardize"),
        "queries": lambda: options(tmp_path, some.references[:50]),
    }
    report = stores.update(OLD, NEW, file, asked[change]())
    fold = stores.load(file)
    assert report.refitted
    assert (
        report.why
        == {
            "calibration": "another calibration was asked for than center+nnn(k=8)+standardize",
            "queries": "other queries were given",
        }[change]
    )
    assert (report.spec, len(fold.references)) == {
        "calibration": ("center+nnn(k=5)+standardize", 100),
        "queries": ("center+nnn(k=8)+standardize", 50),
    }[change]
    check_new(places, fold)
    assert not stores.update(OLD, NEW, file, stores.StoreOptions(query_modality="text")).refitted


def test_a_new_kind_of_rows_that_makes_longer_vectors_is_refused_before_anything_is_written(
    tmp_path: Path, places: dict[str, Held]
) -> None:
    some, file = world(), tmp_path / "a.fold"
    stores.calibrate(OLD, NEW, file, options(tmp_path, some.references))
    before, fold = dict(places["new"]), file.read_bytes()
    places["old"] |= {key: (places["old"][key][0], "audio") for key in range(3)}
    for _ in range(2):  # the second run is not one after an interruption
        with pytest.raises(BadInput, match=r"holds vectors of 28 .*audio, image, text\) makes 29\. Calibrate"):
            stores.update(OLD, NEW, file, options(tmp_path, some.references))
    assert (places["new"], file.read_bytes()) == (before, fold)
    stores.calibrate(OLD, "shelf:newer", tmp_path / "b.fold", options(tmp_path, some.references))


def test_what_changes_in_the_store_during_an_update_is_left_to_the_next(
    tmp_path: Path, places: dict[str, Held], monkeypatch: pytest.MonkeyPatch
) -> None:
    some, file, old = world(), tmp_path / "a.fold", places["old"]
    stores.calibrate(OLD, NEW, file, options(tmp_path, some.references))
    usual = Shelf.batches

    def batches(self: Shelf, size: int) -> Iterator[Batch]:
        yield from usual(self, size)
        if 1001 not in old:  # at the end of the first pass
            old[1001] = (old[5][0], "image")  # added
            old[6] = (old[7][0], "image")  # changed
            del old[8], old[9]  # deleted: one that had not changed, and one that had

    old[1000], old[9] = (old[4][0], "image"), (old[10][0], "image")
    with monkeypatch.context() as patch:
        patch.setattr(Shelf, "batches", batches)
        assert stores.update(OLD, NEW, file, options(tmp_path, some.references)).written == 1
    report = stores.update(OLD, NEW, file, options(tmp_path, some.references))
    assert (report.written, report.deleted) == (2, 1)
    check_new(places, stores.load(file))
    assert stores.update(OLD, NEW, file, options(tmp_path, some.references)).written == 0


class Interrupted(Exception):
    """What ends a run in a test."""


def interrupted(kind: type, monkeypatch: pytest.MonkeyPatch, rows: int) -> pytest.MonkeyPatch:
    """Let a target fail when some rows are written."""
    usual = kind.writing  # type: ignore[attr-defined]

    @contextmanager
    def writing(self: object, *values: object) -> Iterator[Callable[[Batch], None]]:
        with usual(self, *values) as write:

            def some(batch: Batch) -> None:
                write(Batch(batch.ids[:rows], batch.vectors[:rows], batch.metadata[:rows]))
                raise Interrupted

            yield some

    monkeypatch.setattr(kind, "writing", writing)
    return monkeypatch


def test_a_run_that_is_refused_closes_both_stores(
    tmp_path: Path, places: dict[str, Held], monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[str] = []
    monkeypatch.setattr(Shelf, "close", lambda self: closed.append(self.name))
    with pytest.raises(UnknownName, match="No metric of shelf"):
        stores.calibrate(OLD, NEW, tmp_path / "a.fold", options(tmp_path, metric="dot"))
    with pytest.raises(BadInput, match="No field is called 'knd'"):
        stores.calibrate("shelf:old?modality=knd", NEW, tmp_path / "a.fold", options(tmp_path))
    assert closed == ["new", "old"] * 2


@pytest.mark.parametrize("rows", [0, 7])
def test_an_interrupted_calibration_is_finished_by_an_update_with_the_same_queries(
    rows: int, tmp_path: Path, places: dict[str, Held], monkeypatch: pytest.MonkeyPatch
) -> None:
    some, file = world(), tmp_path / "a.fold"
    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        interrupted(Shelf, patch, rows)
        stores.calibrate(OLD, NEW, file, options(tmp_path, some.references))
    if not rows:
        del places["new"]  # a run that was killed before the target was made
    del places["old"][3]
    report = stores.update(OLD, NEW, file, stores.StoreOptions(query_modality="text"))
    assert (report.refitted, report.why) == (True, "the last run was interrupted")
    assert report.note == "the 100 queries of the last fit"
    fold = stores.load(file)
    assert np.array_equal(fold.references, some.references)
    check_new(places, fold)


def test_a_file_and_its_fold_stay_as_they_were_until_all_rows_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    some, client = world(), CLIENTS["parquet"]
    source, target, file = client.build(tmp_path, some.rows), client.target(tmp_path), tmp_path / "a.fold"
    chosen = options(tmp_path, some.references)
    kind = type(stores.open_target(StoreAddress.read(target), None)[1])
    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        interrupted(kind, patch, 1)
        stores.calibrate(source, target, file, chosen)
    assert not file.exists()
    stores.calibrate(source, target, file, chosen)
    before = file.read_bytes(), (tmp_path / "photos_fair.parquet").read_bytes()
    client.build(tmp_path, world(seed=1).rows)
    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        interrupted(kind, patch, 1)
        stores.update(source, target, file, chosen)
    assert (file.read_bytes(), (tmp_path / "photos_fair.parquet").read_bytes()) == before
    assert stores.update(source, target, file, chosen).refitted
    check_searches("parquet", target, stores.load(file), world(seed=1))


def test_an_update_takes_the_fold_of_these_stores_only(tmp_path: Path) -> None:
    some, client = world(), CLIENTS["parquet"]
    source, target, file = client.build(tmp_path, some.rows), client.target(tmp_path), tmp_path / "a.fold"
    chosen = options(tmp_path, some.references)
    with pytest.raises(BadInput, match="does not exist"):
        stores.update(source, target, file, chosen)
    stores.calibrate(source, target, file, chosen)
    with pytest.raises(BadInput, match="Name these stores"):
        stores.update(source, f"parquet:{tmp_path}/other.parquet", file, chosen)
    Path(target.partition(":")[2]).unlink()
    with pytest.raises(BadInput, match=r"photos_fair\.parquet does not exist"):
        stores.update(source, target, file, chosen)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("chrom:a/b", "Did you mean 'chroma'"),
        ("parquet:{}/photos.parquet?modalty=kind", "Did you mean 'modality'"),
        ("parquet:{}/photos.parquet", r"Which rows are texts.*Fields here: kind\."),
        ("parquet:{}/photos.parquet?modality=knd", "Did you mean 'kind'"),
        ("parquet:{}/photos.parquet?vector=embeding&modality=kind", "No field is called 'embeding'"),
        ("parquet:{}/nowhere.parquet", "cannot be read"),
        ("parquet:{}/kinds.txt", "is not Parquet"),
        ("faiss:{}/nowhere.faiss", "does not exist"),
        ("faiss:{}/kinds.txt", "is no Faiss index"),
        ("faiss:{0}/photos.faiss?modality={0}/short.txt", "has 1 lines for the 80 vectors"),
        ("clip-retrieval:{}", "has no img_emb"),
        ("nonsense", "is no address of a store"),
    ],
)
def test_a_store_that_cannot_be_read_is_refused_with_the_reason(address: str, message: str, tmp_path: Path) -> None:
    some = world()
    for name in ("parquet", "faiss"):
        CLIENTS[name].build(tmp_path, some.rows)
    (tmp_path / "short.txt").write_text("text\n")
    with pytest.raises((BadInput, BadFile, CannotRead, UnknownName), match=message):
        stores.examine(address.format(tmp_path), "text")


def test_queries_that_cannot_be_used_are_refused_with_the_reason(tmp_path: Path) -> None:
    some = world()
    source, target = CLIENTS["parquet"].build(tmp_path, some.rows), CLIENTS["parquet"].target(tmp_path)

    def calibrated(given: object, **others: str) -> None:
        stores.calibrate(source, target, tmp_path / "a.fold", options(tmp_path, np.asarray(given), **others))

    with pytest.raises(BadInput, match="have 7 dimensions, the vectors of the store 24"):
        calibrated(np.ones((30, 7)))
    with pytest.raises(CannotFit, match="has 3 queries; 16 are the fewest"):
        calibrated(np.ones((3, 24)))
    with pytest.raises(BadInput, match="must be"):
        calibrated(np.array(["a"] * 30))
    with pytest.raises(BadSpec, match="does not fold"):
        calibrated(some.references, spec="minmax")
    with pytest.raises(CannotFit, match="learns from right answers"):
        calibrated(some.references, spec="learned")
    with pytest.raises(UnknownName, match="No metric of parquet"):
        calibrated(some.references, metric="dot")
    (tmp_path / "references.npz").write_bytes(b"nothing")
    with pytest.raises(BadInput, match="no vectors that can be read"):
        stores.calibrate(
            source,
            target,
            tmp_path / "a.fold",
            stores.StoreOptions(queries=tmp_path / "references.npz", query_modality="text"),
        )
    pictures = Rows(some.rows.ids[:HALF], some.rows.vectors[:HALF], some.rows.kinds[:HALF])
    source = CLIENTS["parquet"].build(tmp_path, pictures)
    with pytest.raises(CannotFit, match="The store has 0 text rows"):
        stores.calibrate(source, target, tmp_path / "a.fold", options(tmp_path))
    assert not (tmp_path / "a.fold").exists()


def test_queries_are_read_from_npz_and_parquet(tmp_path: Path) -> None:
    some, client = world(), CLIENTS["parquet"]
    source = client.build(tmp_path, some.rows)
    np.savez(tmp_path / "q.npz", vectors=some.references, other=np.zeros(3))
    pq.write_table(pa.table({"vector": list(some.references)}), tmp_path / "q.parquet")
    for end in ("npz", "parquet"):
        chosen = stores.StoreOptions(spec="center", queries=tmp_path / f"q.{end}", query_modality="text")
        stores.calibrate(source, f"parquet:{tmp_path}/{end}.parquet", tmp_path / f"{end}.fold", chosen)
        assert np.array_equal(stores.load(tmp_path / f"{end}.fold").references, some.references)


def test_a_vector_that_has_no_direction_is_refused_with_its_id(tmp_path: Path) -> None:
    some = world()
    some.rows.vectors[5] = 0
    with pytest.raises(BadInput, match="Row 5 has a vector of zeros"):
        stores.examine(CLIENTS["parquet"].build(tmp_path, some.rows), "text")


def test_a_large_store_is_sampled_evenly_and_its_statistics_are_of_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "SAMPLE", 50)
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(3000, 4)).astype(np.float32)
    names = np.where(np.arange(3000) % 3 == 0, "image", "text")

    class Source:
        def describe(self) -> stores.StoreDescription:
            return stores.StoreDescription(3000, 4, ("modality",))

        def batches(self, size: int):  # type: ignore[no-untyped-def]
            for start in range(0, 3000, size):
                rows = range(start, min(start + size, 3000))
                yield Batch(list(rows), vectors[start : start + size], [{"modality": str(names[n])} for n in rows])

        def close(self) -> None:
            pass

    source = Source()
    told = sampling.Modality(StoreAddress.read("parquet:x"), ("modality",))
    seen = sampling.scan(source, source.describe(), told)
    assert seen.counts == {"image": 1000, "text": 2000}
    assert {name: int((seen.sample.modality == name).sum()) for name in seen.counts} == {"image": 50, "text": 50}
    assert [vectors[int(key)].tolist() for key in seen.sample.ids] == seen.sample.vectors.tolist()
    assert 800 < np.mean([int(key) for key in seen.sample.ids]) < 2200
    mean = seen.statistics.means["text"]
    whole = Vectors.of(vectors, names.tolist())
    assert np.allclose(mean, Statistics.of(whole).means["text"])


def test_rows_of_long_vectors_are_read_and_written_in_smaller_batches() -> None:
    asked: list[int] = []

    class Long(Shelf):
        def describe(self) -> StoreDescription:
            return StoreDescription(0, 3072, ("kind",))

        def batches(self, size: int) -> Iterator[Batch]:
            asked.append(size)
            return iter(())

    long, short = Long({}, "x"), StoreDescription(0, 24, ("kind",))
    assert [list(sampling.batches(long, one)) for one in (long.describe(), short)] == [[], []]
    assert asked == [170, 1000]
    assert asked[0] * 3072 * 24 < 16 << 20  # bytes as JSON; a server takes 32 MB


@pytest.mark.parametrize("factory", ["IDMap,Flat", "IVF4,Flat"])
def test_the_ids_of_a_faiss_index_are_those_of_the_new_one(factory: str, tmp_path: Path) -> None:
    some = world()
    index = faiss.index_factory(24, factory, faiss.METRIC_INNER_PRODUCT)
    index.train(some.rows.vectors)
    own = 7 * np.arange(2 * HALF)
    if factory.startswith("IDMap"):
        index.add_with_ids(some.rows.vectors, own)
    else:
        index.add(some.rows.vectors)
    faiss.write_index(index, f"{tmp_path}/own.faiss")
    (tmp_path / "kinds.txt").write_text("\n".join(some.rows.kinds.tolist()))
    source, target = f"faiss:{tmp_path}/own.faiss?modality={tmp_path}/kinds.txt", f"faiss:{tmp_path}/new.faiss"
    stores.calibrate(source, target, tmp_path / "a.fold", options(tmp_path, some.references))
    fold = stores.load(tmp_path / "a.fold")
    found = faiss.read_index(f"{tmp_path}/new.faiss").search(fold.query(some.queries[:1]), 10)[1][0]
    best = np.argsort(-own_scores(fold, some)[0])[:10]
    assert found.tolist() == (own[best] if factory.startswith("IDMap") else best).tolist()
    assert not Path(f"{tmp_path}/new.faiss.ids").exists()


def test_a_faiss_index_without_an_order_is_refused(tmp_path: Path) -> None:
    some = world()
    index = faiss.index_factory(24, "IVF4,Flat", faiss.METRIC_INNER_PRODUCT)
    index.train(some.rows.vectors)
    index.add_with_ids(some.rows.vectors, 7 * np.arange(2 * HALF))
    faiss.write_index(index, f"{tmp_path}/own.faiss")
    with pytest.raises(BadInput, match="ids that are not the numbers of its rows"):
        stores.examine(f"faiss:{tmp_path}/own.faiss?all=text", "text")


def test_a_faiss_index_of_another_store_comes_with_its_ids(tmp_path: Path) -> None:
    some = world()
    rows = Rows([7 * key for key in some.rows.ids], some.rows.vectors, some.rows.kinds)
    source, target, file = CLIENTS["parquet"].build(tmp_path, rows), f"faiss:{tmp_path}/new.faiss", tmp_path / "a.fold"
    stores.calibrate(source, target, file, options(tmp_path, some.references))
    ids = (tmp_path / "new.faiss.ids").read_text().splitlines()
    assert ids == [str(key) for key in rows.ids]
    fewer = Rows(rows.ids[1:], rows.vectors[1:], rows.kinds[1:])
    CLIENTS["parquet"].build(tmp_path, fewer)
    stores.update(source, target, file, options(tmp_path, some.references))
    assert (tmp_path / "new.faiss.ids").read_text().splitlines() == ids[1:]
    assert faiss.read_index(f"{tmp_path}/new.faiss").ntotal == len(fewer)


def test_a_diagnosis_names_the_command_with_the_options_of_the_store(tmp_path: Path) -> None:
    some = world()
    source = CLIENTS["parquet"].build(tmp_path, some.rows)
    np.save(tmp_path / "q.npy", some.references)
    found, _ = stores.examine(source, "text", queries=tmp_path / "q.npy")
    assert f'isthmus calibrate "{source}" --into parquet:NEW' in found.diagnosis.advice.steps[0]


@pytest.mark.parametrize("name", FILES)
def test_the_command_line_diagnoses_calibrates_and_follows_a_store(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    check_command_line(name, tmp_path, command_line(monkeypatch, capsys))


@pytest.mark.parametrize("name", FILES)
def test_the_lines_of_python_in_the_docs_return_the_best_rows_with_their_scores(name: str, tmp_path: Path) -> None:
    check_docs(name, tmp_path)


def test_every_kind_of_store_stands_in_the_docs_with_three_lines_of_python() -> None:
    text = (ROOT / "docs/stores.md").read_text()
    assert [name for name in stores.KINDS if f"[`{name}`](#{name})" not in text] == []
    sections = {part.split("\n")[0].lower(): part for part in text.split("\n## ")}
    assert [name for name in stores.KINDS if "fold.query(vector)" not in sections[name]] == []
    assert [name for name in CLIENTS if name not in stores.KINDS] == []
