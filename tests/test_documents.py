"""Documents and queries: parts, modality, equality, and what is refused."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from isthmus import Document, Query
from isthmus.errors import BadInput, BadVectors

ARRAY = np.zeros((2, 2), dtype=np.uint8)


def test_a_modality_is_the_set_of_parts_and_blank_text_is_none() -> None:
    assert Document(id="a", text="cat").modality == "text"
    assert Document(id="a", text=" \n", image="cat.jpg").modality == "image"
    assert Query(text="cat", image=b"...").modality == "image+text"


@pytest.mark.parametrize("image", ["cat.jpg", Path("cat.jpg"), b"bytes", ARRAY, Image.new("L", (2, 2))])
def test_an_image_of_every_kind_is_taken_and_compares_by_what_it_is(image: Any) -> None:
    document = Document(id="a", image=image, metadata={"n": 1})
    assert document == Document(id="a", image=copy.copy(image), metadata={"n": 1})
    assert hash(document) == hash(Document(id="a", image=image))
    assert document != Document(id="a", image="other.jpg", metadata={"n": 1})
    assert Query(image=image) == Query(image=copy.copy(image)) != Query(image=np.ones((3, 2)))
    assert pickle.loads(pickle.dumps(document)) == document  # noqa: S301 - our own


def test_a_path_is_the_same_in_either_spelling() -> None:
    assert Document(id="a", image="cat.jpg") == Document(id="a", image=Path("cat.jpg"))


def test_metadata_is_copied_so_that_a_document_stays_as_it_was_made() -> None:
    metadata = {"lang": "en"}
    document = Document(id="a", text="cat", metadata=metadata)
    metadata["lang"] = "fr"
    assert document.metadata == {"lang": "en"}
    with pytest.raises(AttributeError):
        document.text = "dog"  # type: ignore[misc]


def test_a_string_is_taken_as_a_query_and_a_query_as_itself() -> None:
    query = Query(text="cat")
    assert Query.of("cat") == query
    assert Query.of(query) is query
    assert query != "cat"
    assert Document(id="a", text="cat") != query


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Document(id="a"), "Document 'a' has neither text nor image"),
        (lambda: Document(id="a", text=" "), "Document 'a' has neither text nor image"),
        (lambda: Query(), "The query has neither text nor image"),
        (lambda: Query.of(""), "The query has neither text nor image"),
        (lambda: Document(id="", text="cat"), "id is a string that is not empty"),
        (lambda: Document(id=7, text="cat"), "not 7. Use str(…)"),  # type: ignore[arg-type]
        (lambda: Document(id="a", text=b"cat"), "text of type bytes"),  # type: ignore[arg-type]
        (lambda: Document(id="a", image=[[0, 1]]), "image of type list. Give a path"),  # type: ignore[arg-type]
        (lambda: Document(id="a", image=b""), "image of length zero"),
        (lambda: Document(id="a", text="cat", metadata=["x"]), "metadata of type list"),  # type: ignore[arg-type]
        (lambda: Query.of(7), "text of type int"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_a_document_or_a_query_is_refused(make: Any, said: str) -> None:
    with pytest.raises(BadInput) as caught:
        make()
    assert said in str(caught.value)


def test_a_document_can_bring_its_own_vectors_and_its_modality_counts_them() -> None:
    both = Document(id="a", text="a cat", vectors={"image": np.ones(3)})
    assert both.modality == "image+text"
    assert Document(id="a", vectors={"text+image": np.ones(3)}).modality == "image+text"
    assert both == Document(id="a", text="a cat", vectors={"image": np.ones(3)})
    assert both != Document(id="a", text="a cat", vectors={"image": np.zeros(3) + 2})


@pytest.mark.parametrize("bad", [np.zeros(3), np.array([1, np.nan]), np.ones((2, 2)), np.array(["a"]), np.ones(0)])
def test_a_vector_without_a_direction_is_refused(bad: np.ndarray[tuple[int], np.dtype[np.float64]]) -> None:
    with pytest.raises(BadVectors, match="'text'"):
        Query(vectors={"text": bad})


def test_weights_of_a_query_name_its_parts_and_leave_something_to_ask() -> None:
    assert Query(text="a", image="b.png", weights={"text": 3}).weights == {"image": 1.0, "text": 3.0}
    with pytest.raises(BadInput, match="part of this query is called 'image'"):
        Query(text="a", weights={"image": 1})
    with pytest.raises(BadInput, match="nothing is asked"):
        Query(text="a", weights={"text": 0})
    with pytest.raises(BadInput, match="finite"):
        Query(text="a", weights={"text": -1})
