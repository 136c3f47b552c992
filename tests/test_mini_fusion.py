"""The embedded encoder with one vector for text and image, as it is shipped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from isthmus import Collection, Document, Query, encoders, samples
from isthmus.encoders import Encoder
from isthmus.encoders.fusion import FusionEncoder
from isthmus.encoders.heads import SIDES
from isthmus.encoders.locations import EMBEDDED
from stock import pixels

NOTE = "Macrophages secrete growth factors that stimulate angiogenesis in hypoxic tissue."
BOTH = Document("both", NOTE, pixels(1))


@pytest.fixture(scope="module")
def fusion() -> FusionEncoder:
    encoder = encoders.load("mini-fusion")
    assert isinstance(encoder, FusionEncoder)
    return encoder


@pytest.fixture(scope="module")
def mini() -> Encoder:
    return encoders.load("mini")


def test_it_adds_less_than_ten_megabytes() -> None:
    assert sum(file.stat().st_size for file in EMBEDDED["mini-fusion"].iterdir()) < 10_000_000


def test_a_document_is_its_text_beside_its_image(fusion: FusionEncoder, mini: Encoder) -> None:
    (found,) = fusion.encode_documents([BOTH]).parts["image+text"]
    parts = mini.encode_documents([BOTH]).parts
    np.testing.assert_allclose(found, np.concatenate([parts["text"][0], parts["image"][0]]) / 2**0.5, atol=2e-3)


@pytest.mark.parametrize(
    ("query", "text", "image"),
    [
        (
            "a dog jumps over a log macrophages stimulate angiogenesis",
            "macrophages stimulate angiogenesis",
            "a dog jumps over a log",
        ),
        ("history of the roman empire", "history of the roman empire", ""),
        ("snowy mountains and a lake", "", "snowy mountains and a lake"),  # no word between others stands alone
        ("invoice from march", "invoice from march", ""),  # no word is torn
    ],
)
def test_words_that_ask_for_text_and_for_image_are_told_apart(
    fusion: FusionEncoder, query: str, text: str, image: str
) -> None:
    assert fusion.sides(query) == {"text": text, "image": image}


def test_words_about_one_part_count_for_the_other_by_the_echo(fusion: FusionEncoder, mini: Encoder) -> None:
    texts = ["growth of blood vessels", NOTE, "gene expression in yeast"]
    documents = [Document(str(row), text, pixels(row)) for row, text in enumerate(texts)]
    held, towers = fusion.encode_documents(documents).parts["image+text"], mini.encode_documents(documents)
    for own, asked in enumerate(["macrophages stimulate angiogenesis", "a dog jumps over a log"]):
        assert list(fusion.sides(asked).values()).index("") == 1 - own
        (query,), (plain,) = fusion.encode_queries([asked]).parts["text"], mini.encode_queries([asked]).parts["text"]
        raw = np.split(query, 2)
        weights = [np.linalg.norm(half) for half in raw]
        scores = sum(weight * (towers.parts[part] @ plain) for weight, part in zip(weights, SIDES, strict=True))
        np.testing.assert_allclose(held @ query, scores / 2**0.5, atol=1e-2)
        assert weights[1 - own] <= weights[own] + 0.05


def test_a_picture_finds_the_document_that_holds_it_with_words_beside_it_and_without(fusion: FusionEncoder) -> None:
    photos = sorted((samples.folder() / "photos").glob("*.jpg"))[:12]
    documents = [Document(photo.stem, "Notes of a walk.", photo) for photo in photos]
    documents += [Document(f"bare {photo.stem}", image=photo) for photo in photos[6:]]
    vectors = fusion.encode_documents(documents)
    held = np.where(vectors.present["image"][:, None], vectors.parts["image"], vectors.parts["image+text"])
    alone = fusion.encode_queries([Query(image=photo) for photo in photos[:6]]).parts["image"]
    beside = fusion.encode_queries([Query("a thing like this", photo) for photo in photos[:6]]).parts["image+text"]
    assert (alone @ held.T).argmax(axis=1).tolist() == list(range(6))
    assert (beside @ held.T).argmax(axis=1).tolist() == list(range(6))


@pytest.mark.parametrize("query", ["🤿 snowboarder paperwork", "a [SEP] snowboarder's paperwork"])
def test_no_word_is_torn_beside_what_the_tokenizer_does_not_know(fusion: FusionEncoder, query: str) -> None:
    sides = fusion.sides(query)
    assert "##" not in "".join(sides.values())
    assert any("snowboarder" in said for said in sides.values())


@pytest.fixture
def things(tmp_path: Path) -> Iterator[Collection]:
    with Collection.open(tmp_path / "things.isthmus", encoder="mini-fusion", calibration="none") as made:
        made.add([BOTH, Document("other", "Yeast cells express the gene.", pixels(2)), Document("words", "A ship.")])
        yield made


def test_a_collection_finds_and_reranks_by_it(things: Collection) -> None:
    hits = things.search("macrophages stimulate angiogenesis")
    assert hits[0].id == "both"
    again = things.search("macrophages stimulate angiogenesis", rerank="mini-fusion")
    assert again[0].id == "both"
    assert sorted(hit.id for hit in again) == sorted(hit.id for hit in hits)
    assert all(hit.matched is not None for hit in again)
    (told, *_) = things.maps("macrophages stimulate angiogenesis", hits)
    assert told.document.patches is not None
    assert told.document.words is not None
    best = max(told.document.words, key=lambda word: word.share)
    assert NOTE[best.start : best.end] in {"Macrophages", "stimulate", "angiogenesis"}
