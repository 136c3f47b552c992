"""The embedded encoder as it is shipped."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from isthmus import encoders
from isthmus.documents import Document, Query
from isthmus.encoders.base import Encoder
from isthmus.encoders.locations import user_cache
from isthmus.encoders.references import bank_vectors
from isthmus.errors import BadInput
from isthmus.types import Vectors

FOLDER = Path(encoders.__file__).parent / "mini"


@pytest.fixture(scope="module")
def mini() -> Encoder:
    return encoders.load("mini")


def test_its_files_stay_within_40_megabytes() -> None:
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) <= 40_000_000


def test_it_knows_what_sentences_are_about(mini: Encoder) -> None:
    texts = [
        "A puppy runs across the lawn.",
        "The invoice is due at the end of the month.",
        "Aspirin lowers the risk of heart attacks.",
    ]
    asked = ["a dog on the grass", "when do I have to pay the bill", "does a painkiller protect the heart"]
    documents = mini.encode_documents([Document(id=str(i), text=t) for i, t in enumerate(texts)]).parts["text"]
    queries = mini.encode_queries([Query(text=q) for q in asked]).parts["text"]
    assert (queries @ documents.T).argmax(axis=1).tolist() == [0, 1, 2]


def test_it_tells_plain_pictures_apart_in_words(mini: Encoder) -> None:
    """A blue sky over green grass and a black-and-white page of lines: pictures that a test can draw."""
    meadow = np.zeros((200, 300, 3), dtype=np.uint8)
    meadow[:110] = (120, 180, 250)
    meadow[110:] = (60, 150, 50)
    page = np.full((300, 220, 3), 250, dtype=np.uint8)
    for top in range(30, 280, 14):
        page[top : top + 5, 25 : 195 - top % 5 * 12] = 30
    documents = mini.encode_documents([Document(id="m", image=meadow), Document(id="p", image=page)]).parts["image"]
    queries = mini.encode_queries([Query(text="a green field under a blue sky"), Query(text="a page of printed text")])
    assert (queries.parts["text"] @ documents.T).argmax(axis=1).tolist() == [0, 1]


def test_what_is_no_document_is_refused_with_what_to_write(mini: Encoder) -> None:
    with pytest.raises(BadInput, match=r"row 1 is a str, not a Document\. Write Document"):
        mini.encode_documents([Document(id="a", text="a cat"), "a dog"])  # type: ignore[list-item]


def test_a_vector_does_not_depend_on_its_batch(mini: Encoder) -> None:
    texts = ["a cat", "a much longer sentence about a cat that sits on a red sofa in the afternoon sun"]
    together = mini.encode_queries([Query(text=t) for t in texts]).parts["text"]
    alone = [mini.encode_queries([Query(text=t)]).parts["text"][0] for t in texts]
    np.testing.assert_allclose(together, alone, atol=1e-5)
    assert together.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-6)


class Counting:
    """An encoder that counts what it is asked."""

    name, identity, dim, modalities = "counting", "counting-1", 3, ("text",)

    def __init__(self) -> None:
        self.asked = 0

    def encode_queries(self, queries: Sequence[Query | str]) -> Vectors:
        self.asked += len(queries)
        return Vectors.of(np.random.default_rng(0).normal(size=(len(queries), 3)).astype(np.float32), "text")


def test_the_bank_is_encoded_once_and_read_from_then_on(tmp_path: Path) -> None:
    encoder = Counting()
    first, second = (bank_vectors(encoder, tmp_path) for _ in range(2))  # type: ignore[arg-type]
    assert encoder.asked == len(first) == 4000
    assert np.array_equal(first.parts["text"], second.parts["text"])
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:50])  # damaged: encoded again
    assert np.array_equal(bank_vectors(encoder, tmp_path).parts["text"], first.parts["text"])  # type: ignore[arg-type]
    assert encoder.asked == 8000
    encoder.identity = "counting-2"
    bank_vectors(encoder, tmp_path)  # type: ignore[arg-type]
    assert encoder.asked == 12000


def test_the_cache_folder_can_be_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ISTHMUS_CACHE", str(tmp_path / "here"))
    bank_vectors(Counting())  # type: ignore[arg-type]
    assert len(list((tmp_path / "here").iterdir())) == 1
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ISTHMUS_CACHE", "~/here")  # as a unit file has it
    assert user_cache() == tmp_path / "here"
