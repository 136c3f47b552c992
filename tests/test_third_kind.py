"""A kind that isthmus does not know is indexed, searched, calibrated, explained and exported like any other."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from isthmus import Collection, Document, Image, Part, Query, Text, kinds
from isthmus.diagnose import as_text, examine, page, summary
from isthmus.diagnose.drawings import colour
from isthmus.errors import BadInput, BadVectors, UnknownName
from isthmus.search.json_forms import hit_json
from isthmus.types import Matrix
from tones import Tone, ToneEncoder, said, write


@pytest.fixture(autouse=True)
def tone() -> Iterator[None]:
    kinds.register(Tone())
    yield
    kinds.unregister("tone")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "sounds")
    return tmp_path / "sounds"


@pytest.fixture
def things(tmp_path: Path, folder: Path) -> Iterator[Collection]:
    with Collection.open(tmp_path / "c", ToneEncoder()) as opened:
        opened.index(folder)
        both = [
            Document(f"both{at:03}", parts=[Text(f"note about scene{200 + at}"), Part("tone", heard(200 + at))])
            for at in range(40)
        ]
        opened.add([Document(one.id, parts=one.parts, metadata={"odd": at % 2}) for at, one in enumerate(both)])
        yield opened


def heard(at: int) -> bytes:
    return "\n".join(said(at)).encode()


def test_files_of_the_kind_become_documents_and_unchanged_ones_are_left(things: Collection, folder: Path) -> None:
    assert things.stats().documents == {"text": 40, "text+tone": 40, "tone": 40}
    document = things.get("heard007.tone")
    assert [part.kind for part in document.parts] == ["tone"]
    assert document.parts[0].path == str(folder / "heard007.tone")
    assert things.index(folder).unchanged == 80
    (folder / "heard007.tone").write_text("a violin sings")
    assert things.index(folder).updated == 1


def test_it_is_found_by_words_by_its_like_and_by_both(things: Collection, folder: Path) -> None:
    assert things.search(said(107)[0])[0].id == "heard007.tone"
    assert things.search(Query(parts=[Part("tone", folder / "heard007.tone")]))[0].id == "heard007.tone"
    both = Query(parts=[Text(said(207)[0]), Part("tone", heard(207))])
    assert things.search(both)[0].id == "both007"
    assert all(hit.modality == "tone" for hit in things.search("dog barks", modalities="tone"))
    assert {hit.id for hit in things.search("dog", k=50, where={"odd": 1})} == {f"both{n:03}" for n in range(1, 40, 2)}


def test_a_hit_names_the_second_that_matched(things: Collection) -> None:
    hit = things.search(said(107)[1])[0]
    assert [(one.name, one.parts, one.start, one.stop) for one in hit.segments] == [("tone", (0,), 1.0, 2.0)]
    assert hit.passage is None
    told = hit_json(hit)
    assert told["segments"] == [{"name": "tone", "parts": [0], "start": 1.0, "stop": 2.0}]
    assert told["parts"] == [{"kind": "tone", "content": None, "path": hit.document.parts[0].path}]
    json.dumps(told)


@pytest.mark.parametrize("spec", ["none", "center", "center+nnn(k=4)+standardize", "auto"])
def test_it_is_calibrated_and_ranked_on_one_scale_with_words(things: Collection, spec: str) -> None:
    calibrated = things.calibrate(spec)
    assert set(calibrated.fitted.document_modalities) == {"text", "text+tone", "tone"}
    assert {"text", "tone"} <= set(calibrated.fitted.query_modalities)
    first = [things.search(said(100 + at)[0])[0].id for at in range(40)]
    right = sum(name == f"heard{at:03}.tone" for at, name in enumerate(first))
    assert right >= 36, (spec, right)


def test_its_hits_have_a_probability_and_an_explanation(things: Collection) -> None:
    things.calibrate("center+nnn(k=4)+standardize")
    for query in (said(107)[0], Query(parts=[Part("tone", heard(107))])):
        hit = things.search(query, explain=True)[0]
        assert hit.id == "heard007.tone"
        assert hit.probability is not None and hit.probability > 0.3
        assert hit.explanation is not None and list(hit.explanation.parts) == ["tone"]
        assert hit.explanation.score == pytest.approx(hit.score, abs=1e-4)
        assert hit.explanation.rank_before is not None


def test_its_vectors_are_exported_and_reencoded(things: Collection, tmp_path: Path) -> None:
    rows = things.export_vectors(tmp_path / "v.npz")
    saved = np.load(tmp_path / "v.npz")
    assert rows == 40 + 80 + 80 == len(saved["vectors"])  # a tone has two seconds
    assert sorted(set(saved["modality"].tolist())) == ["text", "text+tone", "tone"]
    report = things.reencode(ToneEncoder("other", 64))
    assert report.encoded == 120
    assert things.search(said(107)[0])[0].id == "heard007.tone"
    assert things.stats().encoder["dim"] == 64


def test_it_is_diagnosed(things: Collection) -> None:
    found = examine(things)
    assert "tone" in as_text(found)
    assert "tone" in json.dumps(summary(found))
    report = page(found)
    assert "tone queries" in report
    assert f'class="{colour("tone", sorted(found.diagnosis.corpus))}"' in report


def test_it_survives_a_copy_of_the_collection_without_its_package(things: Collection, tmp_path: Path) -> None:
    things.close()
    kinds.unregister("tone")
    with Collection.open(tmp_path / "c", ToneEncoder(), create=False) as again:
        assert again.get("both007").parts[1].content == heard(207)
        assert [hit.id for hit in again.search(said(107)[0], k=1)] == ["heard007.tone"]
        assert not again.verify()
    kinds.register(Tone())


def test_a_damaged_file_is_skipped_with_its_reason(things: Collection, folder: Path) -> None:
    (folder / "bad.tone").write_bytes(b"\xff\xfe\xfa")
    skipped = things.index(folder).skipped
    assert [one.id for one in skipped] == ["bad.tone"]
    assert "cannot be heard" in skipped[0].why


def test_a_kind_must_be_registered_and_have_a_plain_name() -> None:
    with pytest.raises(UnknownName, match="No kind of part is called 'smell'"):
        Part("smell", b"x")
    with pytest.raises(BadInput, match="tone of type int"):
        Part("tone", 3)

    class Odd(kinds.Kind):
        name = "a+b"

    with pytest.raises(BadInput, match="not a kind"):
        kinds.register(Odd())
    with pytest.raises(BadInput, match="built in"):
        kinds.unregister("text")


def test_an_encoder_refuses_a_kind_that_it_does_not_read(tmp_path: Path, tiny: str) -> None:
    with Collection.open(tmp_path / "t", tiny) as things:
        done = things.add([Document("a", "a cat"), Document("b", parts=[Part("tone", b"dog barks")])])
        assert done.added == ("a",)
        assert "tone" in done.skipped[0].why
    assert Image("a.png") != Text("a.png")


class Position(kinds.Kind):
    """A position of a game, as text: inline content with files of its own."""

    name = "position"
    suffixes = (".fen",)


def test_a_file_of_an_inline_kind_is_read_and_followed(tmp_path: Path) -> None:
    class Positions(ToneEncoder):
        modalities = ("position",)  # type: ignore[assignment]

        def split_part(self, part: Part) -> list[tuple[float, float]]:
            return []

        def _rows(self, parts: Sequence[Part]) -> list[dict[str, Matrix]]:
            return [{"position": self._words(parts[0].content)}]

    kinds.register(Position())
    try:
        (tmp_path / "f").mkdir()
        (tmp_path / "f" / "a.fen").write_text("white to move")
        with Collection.open(":memory:", Positions(), calibration="none") as things:
            things.index(tmp_path / "f")
            assert things.get("a.fen").parts[0].content == "white to move"
            (tmp_path / "f" / "a.fen").write_text("black to move")
            assert things.index(tmp_path / "f").updated == 1
            assert things.get("a.fen").parts[0].content == "black to move"
            done = things.add([Document("t", "words"), Document("p", parts=[Part("position", "x")])])
            assert (done.added, "reads position only" in done.skipped[0].why) == (("p",), True)
            with pytest.raises(BadInput, match="the encoder tones reads position only"):
                things.search("words")
    finally:
        kinds.unregister("position")


@pytest.mark.parametrize("suffix", ["fen", ".FEN", ".fen.gz", "", "."])
def test_a_suffix_is_lower_case_with_one_dot(suffix: str) -> None:
    odd = type("Odd", (kinds.Kind,), {"name": "odd", "suffixes": (suffix,)})()
    with pytest.raises(BadInput, match="one dot, at the front"):
        kinds.register(odd)


def test_spans_and_rows_must_agree_and_a_document_needs_one() -> None:
    class Wrong(ToneEncoder):
        def split_part(self, part: Part) -> list[tuple[float, float]]:
            return [(0.0, 1.0)]

    two = Document("a", parts=[Part("tone", b"dog barks\nrain falls")])
    with (
        Collection.open(":memory:", Wrong(), calibration="none") as things,
        pytest.raises(BadVectors, match="has 1 segments, and made 2 vectors"),
    ):
        things.add([two])
    with Collection.open(":memory:", ToneEncoder(), calibration="none") as things:
        done = things.add([Document("silent", parts=[Part("tone", b"\n")])])
        assert "the encoder tones made no vector of it" in done.skipped[0].why


def test_one_document_of_a_rare_combination_leaves_calibration_as_it_is() -> None:
    with Collection.open(":memory:", ToneEncoder()) as things:
        things.add([Document(f"n{at}", " and ".join(said(at))) for at in range(40)])
        things.add([Document(f"t{at}", parts=[Part("tone", heard(100 + at))]) for at in range(40)])
        alone = str(things.calibrate().fitted.spec)
        things.add([Document("both", parts=[Text("a scene"), Part("tone", heard(300))])])
        assert str(things.calibrate().fitted.spec) == alone != "none"
        assert things.calibrate("center+nnn(k=4)+standardize").fitted.references.rows.keys() >= {"text+tone"}
