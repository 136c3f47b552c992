"""The tree of errors: every class has an exit code and an HTTP status, and messages stay short."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from isthmus import Collection, Document, errors
from isthmus.errors import CODES, Closed, IsthmusError, UnknownDocument, codes_of
from isthmus.search.hits import Hit


def tree(root: type[IsthmusError]) -> Iterator[type[IsthmusError]]:
    yield root
    for below in root.__subclasses__():
        if below.__module__.startswith("isthmus."):
            yield from tree(below)


def test_every_error_has_an_exit_code_and_a_status() -> None:
    named = {kind for kind in tree(IsthmusError) if kind.__module__ == errors.__name__}
    assert named == set(CODES)
    assert all(codes.exit in (1, 2) and 400 <= codes.status < 600 for codes in CODES.values())


def test_every_error_stands_in_the_drawn_tree() -> None:
    assert errors.__doc__ is not None
    assert [kind.__name__ for kind in CODES if kind.__name__ not in errors.__doc__] == []


def test_an_error_outside_the_table_has_the_codes_of_its_base() -> None:
    class Special(UnknownDocument):
        """An error of somebody else."""

    assert codes_of(Special("x")) == CODES[UnknownDocument]


def test_a_closed_collection_says_so(things: Collection) -> None:
    things.close()
    with pytest.raises(Closed, match="was closed"):
        things.search("a cat")


def test_an_unknown_document_is_told_from_other_unknown_names(things: Collection) -> None:
    with pytest.raises(UnknownDocument):
        things.get("nobody")


def test_a_repr_is_short_whatever_the_object_holds() -> None:
    document = Document(
        "a" * 500, "word " * 5000, b"\x00" * 9000, {"m": "x" * 900}, {"audio": np.ones(900, np.float32)}
    )
    assert len(repr(document)) < 400
    hit = Hit("a", 1.25, 0.5, 0.75, "text", document, 1)
    assert repr(hit) == "Hit(rank=1, id='a', score=1.250, probability=0.750, modality='text')"
