"""An encoder may give a text and an image that stand together ONE vector: a whole collection works with it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from isthmus import Collection, Document, Query, encoders
from isthmus.diagnose import as_text, examine
from isthmus.encoders import Encoder
from isthmus.errors import BadInput
from isthmus.search import references, trials
from stock import Counting, Fusing, dense, looked_at, mixed, pixels

ASKED = [Query(text="a red cat"), Query(image=pixels(500)), Query(text="dog", image=pixels(501))]


@pytest.fixture(scope="module")
def apart(tiny: str) -> Encoder:
    return encoders.load(tiny)


@pytest.fixture(scope="module")
def encoder(apart: Encoder) -> Encoder:
    return Fusing(apart)


@pytest.fixture
def things(tmp_path: Path, encoder: Encoder) -> Iterator[Collection]:
    with Collection.open(tmp_path / "c", Counting(encoder), calibration="center+nnn(k=8)+standardize") as opened:
        opened.add(mixed(60))
        yield opened


def parts(things: Collection, name: str) -> list[tuple[str, int]]:
    row = things.store.rows_of([name])[name]
    names = [segment.name for segment in things.store.segments([row])[row]]
    return [(name, names[:at].count(name)) for at, name in enumerate(names)]


def test_each_passage_beside_a_picture_has_one_vector_and_its_place_in_the_text(
    things: Collection, encoder: Encoder
) -> None:
    assert things.stats().documents == {"image": 20, "image+text": 20, "text": 20}
    assert parts(things, "d0-2") == [("image+text", 0)]
    text = things.get("d0-14").text or ""
    spans = encoder.split(text)
    assert parts(things, "d0-14") == [("image+text", number) for number in range(len(spans))]
    assert len(spans) > 2
    asked = text[slice(*spans[2])]
    (hit,) = things.search(Query(text=asked, image=pixels(14)), k=1, calibration="none")
    assert hit.id == "d0-14"
    assert hit.passage is not None
    assert (hit.passage.number, hit.passage.start, hit.passage.stop) == (2, *spans[2])


@pytest.mark.parametrize("spec", ["center+nnn(k=8)+standardize", "standardize+qbnorm", "auto"])
def test_scores_are_those_of_the_equations(things: Collection, encoder: Encoder, spec: str) -> None:
    things.calibrate(spec)
    things.add(mixed(9, seed=1))  # stand beside what was built
    things.delete("d0-5")
    for query in ASKED:
        hits = things.search(query, k=100, explain=True)
        right = dense(things, encoder, [found for found in things if found.id != "d0-5"], query)
        assert {hit.id: hit.score for hit in hits} == pytest.approx(right, abs=1e-4)
        assert [hit.explanation.score for hit in hits if hit.explanation] == pytest.approx([h.score for h in hits])


def test_auto_judges_by_documents_of_every_modality(tmp_path: Path, encoder: Encoder) -> None:
    """Pictures and texts that stand together are encoded alone where one of them is hidden on trial."""
    with Collection.open(tmp_path / "c", encoder, follow=False) as things:
        things.add(mixed(210, long=False))
        chosen = {choice.modality: choice for choice in things.calibrate().fitted.choices}
        assert "generated queries" in chosen["text"].evidence
        trial = things.references().trial
        assert set(trial.targets()) == {"image", "image+text", "text"}
        fair = np.flatnonzero(trial.judges & (trial.queries.modality == "image"))
        assert len(fair) == 17
        places = trial.sources[fair]
        of = {name: things.get(name) for name in (trial.ids[place] for place in places)}
        assert {document.modality for document in of.values()} == {"image+text"}
        first = np.searchsorted(trial.owner, places)
        assert trial.documents.modality[first].tolist() == ["text"] * 17
        texts = [Document(document.id, text=document.text) for document in of.values()]
        np.testing.assert_allclose(trial.documents.parts["text"][first], encoder.encode_documents(texts).parts["text"])
        asked = encoder.encode_queries([Query(image=document.image) for document in of.values()])
        np.testing.assert_allclose(trial.queries.parts["image"][fair], asked.parts["image"])


def test_a_picture_that_is_gone_hides_nothing_on_trial(tmp_path: Path, encoder: Encoder) -> None:
    from PIL import Image

    documents = mixed(120, long=False)
    for place, document in enumerate(documents):
        if document.image is not None:
            Image.fromarray(pixels(place)).save(tmp_path / f"{place}.png")
            documents[place] = Document(document.id, document.text, str(tmp_path / f"{place}.png"))
    with Collection.open(tmp_path / "c", encoder, follow=False) as things:
        things.add(documents)
        for path in tmp_path.glob("*.png"):
            path.unlink()
        trial = things.references().trial
        assert set(trial.targets()) == {"image+text", "text"}
        assert len(things.search("dog", k=200)) == 120


def test_fewer_documents_are_encoded_again_for_a_trial_than_are_hidden_for_nothing(
    tmp_path: Path, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials, "ALONE", 7)
    counting = Counting(encoder)
    with Collection.open(tmp_path / "c", counting, follow=False) as things:
        things.add(mixed(120, long=False))
        counting.took()
        things.references()
        assert counting.took() == (14, 14)


def test_what_was_encoded_alone_does_not_stand_for_what_stands_together(things: Collection) -> None:
    counting = things.encoder
    assert isinstance(counting, Counting)
    text, image = things.get("d0-0").text, things.get("d0-1").image
    both = Document("both", text, image)
    counting.took()
    things.add([both])
    assert counting.took() == (1, 1)
    assert {part for part, _ in parts(things, "both")} == {"image+text"}
    things.add([Document("again", text, image), Document("words", text), Document("picture", image=image)])
    assert counting.took() == (0, 0)
    assert {part for part, _ in parts(things, "again")} == {"image+text"}
    assert parts(things, "picture") == [("image", 0)]
    things.update(Document("both", text="a tree"))
    assert counting.took() == (1, 1)
    assert parts(things, "both") == [("image+text", 0)]
    things.update("both", metadata={"lang": "en"})
    assert counting.took() == (0, 0)
    assert looked_at(things.path) == []


def test_a_first_document_that_stands_together_is_encoded_whole(tmp_path: Path, encoder: Encoder) -> None:
    """Nobody knows yet whether the encoder keeps text and image apart."""
    with Collection.open(tmp_path / "c", encoder, calibration="none") as things:
        things.add([Document("text", text="a cat"), Document("image", image=pixels(1))])
        things.add([Document("both", text="a cat", image=pixels(1))])
        assert parts(things, "both") == [("image+text", 0)]


def test_weights_of_what_became_one_vector_are_refused_not_ignored(things: Collection) -> None:
    with pytest.raises(BadInput, match="makes one vector of image\\+text"):
        things.search(Query(text="dog", image=pixels(501), weights={"text": 2, "image": 1}))
    alike = things.search(Query(text="dog", image=pixels(501), weights={"text": 2, "image": 2}), k=60)
    assert [hit.score for hit in alike] == [hit.score for hit in things.search(ASKED[2], k=60)]


def test_it_is_diagnosed_exported_and_checked_like_any_other(things: Collection, tmp_path: Path) -> None:
    assert "gap" in as_text(examine(things))
    rows = things.export_vectors(tmp_path / "x.npz")
    written = np.load(tmp_path / "x.npz")
    assert len(written["vectors"]) == rows == sum(len(parts(things, document.id)) for document in things)
    assert set(written["modality"].tolist()) == {"image", "image+text", "text"}
    assert things.verify() == []
    assert json.dumps(things.stats().drift)
    assert [hit.id for hit in things.search(ASKED[2], hybrid=True, group=True)]
    assert len(things.search(ASKED[2], k=100, calibration="none")) == 60


@pytest.mark.parametrize(("together", "follow"), [(True, False), (False, True)])
def test_documents_of_a_known_modality_in_unknown_parts_are_found(
    tmp_path: Path, apart: Encoder, encoder: Encoder, together: bool, follow: bool
) -> None:
    """One vector for both comes to those that have one each, or the other way round."""
    row = np.arange(1.0, 9.0)
    strange = {"text": row, "image": row[::-1]} if together else {"image+text": row}
    made = encoder if together else apart
    with Collection.open(tmp_path / "c", made, calibration="center+nnn(k=4)", follow=follow) as things:
        things.add([one for one in mixed(60) if one.modality == "image+text"])
        things.search("dog")
        things.add([Document("strange", vectors=strange)])
        assert "strange" in {hit.id for hit in things.search("dog", k=100)}
    with Collection.open(tmp_path / "c", made, follow=follow) as things:
        assert "strange" in {hit.id for hit in things.search("dog", k=100)}


def test_a_part_that_hardly_any_document_has_gets_its_mean_too(
    tmp_path: Path, apart: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(references, "DOCUMENTS", 3)
    with Collection.open(tmp_path / "c", apart, calibration="center", follow=False) as things:
        things.add([Document("strange", vectors={"image+text": np.arange(1.0, 9.0)}), *mixed(60)])
        assert len(things.search("dog", k=100)) == 61
