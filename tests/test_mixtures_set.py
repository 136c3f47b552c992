"""Mixtures are built so that every question can be answered, and a slice tells what it asks for."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from PIL import Image

from isthmus.evaluate.benchmarks import Benchmark, load

ROOT = Path(__file__).parent.parent


@pytest.fixture
def builder(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "reproduce"))
    import mixtures_set

    return mixtures_set


def picture(colour: int) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (40, 30), (colour, 90, 200 - colour)).save(out, "WEBP")
    return out.getvalue()


@pytest.fixture
def made(builder: ModuleType, tmp_path: Path) -> Benchmark:
    things = [
        builder.Thing(f"t{n}", picture(5 * n), f"text {n}", (f"ask {n}", f"again {n}"), f"name {n // 2}")
        for n in range(20)
    ]
    mixture = builder.Mixture(things, texts={"other": "a text"}, claims={"c": "a claim"}, qrels={"c": {"other": 1}})
    builder.write(tmp_path / "toy", mixture, np.random.default_rng(0))
    return load("mixtures:toy", tmp_path)


def test_a_mixture_has_as_many_texts_as_pictures_as_documents_of_both(made: Benchmark) -> None:
    modalities = Counter(document.modality for document in made.documents if document.id != "other")
    assert modalities == {"text": 8, "image": 8, "image+text": 8}


def test_every_kind_of_document_is_asked_for_by_text_by_picture_and_by_both(made: Benchmark) -> None:
    asked = {question.kind for question in made.questions}
    targets = {"text", "image", "image+text"}
    assert {f"{m} → {target}" for m in targets for target in targets} | {"text → several"} == asked


def test_the_same_picture_has_grade_2_and_other_documents_of_the_name_grade_1(made: Benchmark) -> None:
    pictures = {document.id: document.image for document in made.documents}
    same = [question for question in made.questions if question.query.image in set(pictures.values()) - {None}]
    assert same
    for question in same:
        judged = made.qrels[question.id]
        best = {name for name, grade in judged.items() if grade == 2}
        assert best == {name for name, image in pictures.items() if image == question.query.image}
        assert any(grade == 1 for grade in judged.values())


def test_a_text_to_ask_with_is_in_no_document(made: Benchmark) -> None:
    held = {document.text for document in made.documents}
    assert not held & {question.query.text for question in made.questions if question.query.text}


def test_a_crop_keeps_most_of_the_picture(builder: ModuleType) -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        with Image.open(io.BytesIO(builder.crop(picture(1), rng))) as cut:
            assert 0.65 * 40 * 30 < cut.width * cut.height < 0.95 * 40 * 30


def test_a_mixture_is_built_the_same_every_time(builder: ModuleType, tmp_path: Path) -> None:
    things = [builder.Thing(f"t{n}", picture(n), f"text {n}", (f"ask {n}",)) for n in range(5)]
    for name in ("one", "two"):
        builder.write(tmp_path / name, builder.Mixture(things), np.random.default_rng(3))
    for path in (tmp_path / "one").rglob("*"):
        other = tmp_path / "two" / path.relative_to(tmp_path / "one")
        assert path.is_dir() or path.read_bytes() == other.read_bytes()
