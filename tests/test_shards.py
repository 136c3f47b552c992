"""A fit in shards is that on all documents together, and vectors made elsewhere are the encoder's own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Picture

from isthmus import Collection, Document, Vectors, calibration, encoders
from isthmus.bulk import Cluster, ClusterEncoder
from isthmus.bulk.encoder import PIECE, EncodePiece
from isthmus.encoders import Encoder
from isthmus.encoders.runtime import Runtime
from isthmus.errors import BadInput, BadSpec, BadVectors, CannotFit
from tiny import write_encoder

SPECS = ["none", "center", "nnn(k=8)", "center+nnn(k=16)+standardize", "center+standardize+qbnorm", "standardize"]


def shards(sizes: Sequence[int] = (70, 1, 129)) -> list[partial[Vectors]]:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(sum(sizes), 16)) + 1
    names = rng.choice(["text", "image"], len(rows))
    ends = np.cumsum(sizes)
    return [
        partial(Vectors.of, rows[end - size : end], names[end - size : end])
        for size, end in zip(sizes, ends, strict=True)
    ]


QUERIES = Vectors.of(np.random.default_rng(1).normal(size=(60, 16)) - 1, np.repeat(["text", "image"], 30))


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("order", [1, -1])
def test_a_fit_in_shards_is_that_on_all_documents_whatever_their_order(spec: str, order: int) -> None:
    documents = Vectors.concat([shard() for shard in shards()])
    whole = calibration.fit(spec, documents, QUERIES)
    parts = calibration.fit_shards(spec, shards()[::order], QUERIES)
    np.testing.assert_allclose(parts.scores(QUERIES, documents), whole.scores(QUERIES, documents), atol=1e-6)
    assert parts.document_modalities == whole.document_modalities
    for part, mean in whole.statistics.means.items():
        np.testing.assert_allclose(parts.statistics.means[part], mean, atol=1e-12)


def test_what_needs_all_documents_at_once_is_refused() -> None:
    for spec in ("learned", "dn", "qbnorm(dynamic=true)", "minmax", "dbnorm"):
        with pytest.raises(BadSpec, match="in shards"):
            calibration.fit_shards(spec, shards(), QUERIES)
    with pytest.raises(CannotFit, match="at least one shard"):
        calibration.fit_shards("center", [], QUERIES)
    with pytest.raises(BadVectors, match="Shards have 16 and 8 dimensions"):
        other = partial(Vectors.of, np.ones((3, 8)), "text")
        calibration.fit_shards("center", [*shards(), other], QUERIES)
    with pytest.raises(BadVectors, match="query vectors have 4 dimensions"):
        calibration.fit_shards("center", shards(), Vectors.of(np.ones((3, 4)), "text"))


class Here:
    """Machines that are this process: work starts when its result is asked for, which shows the order of both."""

    width = 2

    def __init__(self) -> None:
        self.started: list[int] = []
        self.done: list[int] = []

    def share(self, value: object) -> Any:
        return value

    def start(self, work: Any, item: Any) -> Any:
        self.started.append(len(item))
        return partial(work, item)

    def result(self, started: Any) -> Any:
        self.done.append(len(self.started))
        return started()

    def around(self, encoder: Encoder, name: str, runtime: Runtime) -> ClusterEncoder:
        self.encoder = ClusterEncoder.of(self, encoder, (name, runtime))
        return self.encoder


@pytest.fixture
def stock(tmp_path: Path) -> Path:
    """A folder of notes and pictures, two of them damaged, and an encoder next to it."""
    write_encoder(tmp_path / "tiny")
    folder = tmp_path / "stock"
    folder.mkdir()
    for number in range(100):
        (folder / f"{number:03}.txt").write_text(
            f"the cat sits on a red sofa and number {number} runs " * (number % 4 + 1)
        )
    for number in range(20):
        Picture.new("RGB", (9, 9), (number * 9, 40, 250 - number * 9)).save(folder / f"{number:03}.png")
    (folder / "broken.png").write_bytes(b"no picture")
    return folder


def vectors(things: Collection) -> dict[str, Any]:
    rows = things._store.rows_of(things.ids())
    found = things._store.segments(list(rows.values()))
    return {name: [(s.name, s.start, s.stop, s.vector) for s in found[row]] for name, row in rows.items()}


def same(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert one.keys() == other.keys()
    for name, segments in one.items():
        assert [s[:3] for s in segments] == [s[:3] for s in other[name]]
        for mine, its in zip(segments, other[name], strict=True):
            np.testing.assert_allclose(mine[3], its[3], atol=1e-6)


def test_a_collection_indexed_elsewhere_is_the_one_indexed_here(stock: Path, tmp_path: Path) -> None:
    name = f"onnx:{tmp_path}/tiny"
    machines = Here()
    with Collection.open(tmp_path / "here", name, follow=False) as here:
        one = here.index(stock)
        with Collection.open(tmp_path / "there", name, follow=False) as there:
            other = there.index(stock, workers=machines)
            same(vectors(here), vectors(there))
            assert (other.added, other.files, [s.id for s in other.skipped]) == (100, 101, ["broken.png"])
            assert there.ids() == here.ids()
    assert (one.added, one.files, [s.id for s in one.skipped]) == (100, 101, ["broken.png"])
    assert machines.done[0] > 1  # pieces were on their way before the first was waited for
    assert machines.encoder.sent == 121  # parts: 100 texts, 20 pictures and the damaged one


def test_what_the_store_has_is_not_sent_again(stock: Path, tmp_path: Path) -> None:
    with Collection.open(tmp_path / "things", f"onnx:{tmp_path}/tiny", follow=False) as things:
        things.index(stock)
        (stock / "050.txt").rename(stock / "new.txt")
        (stock / "051.txt").touch()
        (stock / "052.txt").write_text("a house and a tree")
        (stock / "broken.png").unlink()
        machines = Here()
        report = things.index(stock, workers=machines)
        assert machines.encoder.sent == 1
        assert (report.added, report.removed) == (1, 1)


def test_an_interrupted_run_goes_on_where_it_stopped(
    stock: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("isthmus.search.writer.BATCH", 32)

    def stop(_: object) -> None:
        raise KeyboardInterrupt

    with Collection.open(tmp_path / "things", f"onnx:{tmp_path}/tiny", follow=False) as things:
        with pytest.raises(KeyboardInterrupt):
            things.index(stock, workers=Here(), progress=stop)
        stored = len(things)
        assert 0 < stored < 100
        machines = Here()
        things.index(stock, workers=machines)
        assert len(things) == 100
        assert machines.encoder.sent <= 121 - stored


def test_documents_that_nobody_announced_are_sent_when_they_are_asked_for(tmp_path: Path) -> None:
    own = encoders.load(f"onnx:{write_encoder(tmp_path / 'tiny')}")
    machines = Here()
    there = ClusterEncoder.of(machines, own, own)
    documents = [Document(str(n), f"cat {n % 3} dog" * 9) for n in range(5)]
    found, owner = there.encode_passages(documents)
    wanted, own_owner = own.encode_passages(documents)
    np.testing.assert_array_equal(owner, own_owner)
    np.testing.assert_allclose(found.parts["text"], wanted.parts["text"], atol=1e-6)
    assert machines.started == [3]  # each content once
    assert (there.name, there.identity, there.dim) == (own.name, own.identity, own.dim)
    assert there.modalities == own.modalities
    with pytest.raises(BadInput):
        there.encode_passages([Document("x", image=tmp_path / "gone.png")])


def test_files_are_sent_as_bytes(tmp_path: Path) -> None:
    own = encoders.load(f"onnx:{write_encoder(tmp_path / 'tiny')}")
    place = tmp_path / "a.png"
    Picture.new("RGB", (9, 9), (90, 40, 250)).save(place)
    machines = Here()
    there = ClusterEncoder.of(machines, own, own)
    document = Document("a", image=place)
    there.expect([document] * PIECE)
    place.unlink()  # the machines do not see it
    found = there.encode_passages([document])[0]
    assert len(found) == 1


def test_an_encoder_is_loaded_by_its_name_once_in_a_process(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "tiny")
    work = EncodePiece((f"onnx:{folder}", Runtime()))
    first = work([Document("a", "a cat")])[0]
    for file in folder.iterdir():
        file.unlink()
    again = work([Document("a", "a cat")])[0]
    assert first is not None and again is not None
    np.testing.assert_array_equal(first.parts["text"], again.parts["text"])


def test_a_cluster_takes_whole_amounts_of_cores() -> None:
    with pytest.raises(BadInput, match="cores=0"):
        Cluster(cores=0)
