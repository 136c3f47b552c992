"""Helpers for tests of re-encoding: a collection of thirty documents, its answers, and interruptions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from isthmus import Collection, Document, Query, encoders
from stock import Counting, pixels

ASKED = [Query(text="a red cat"), Query(image=pixels(500)), Query(text="dog", image=pixels(501))]
SPEC = "center+nnn(k=4)"
Answers = list[list[tuple[str, float]]]


def made(folder: Path, encoder: str, documents: Sequence[Document]) -> Answers:
    with Collection.open(folder, encoder, calibration=SPEC, follow=False) as things:
        things.add(documents)
        return answers(things)


def answers(things: Collection) -> Answers:
    return [[(hit.id, hit.score) for hit in things.search(query, k=100)] for query in ASKED]


def alike(things: Collection, fresh: Path, encoder: str) -> None:
    """Check that a collection has the vectors of one made with this encoder from the same documents."""
    with Collection.open(fresh, encoder, calibration="none", follow=False) as right:
        right.add(things)
        for query in ASKED:
            found = {hit.id: hit.similarity for hit in things.search(query, k=100, calibration="none")}
            assert found == {hit.id: pytest.approx(hit.similarity, abs=1e-5) for hit in right.search(query, k=100)}


def interrupted(after: int) -> Callable[[int, int], None]:
    def progress(done: int, total: int) -> None:
        if done >= after:
            raise KeyboardInterrupt

    return progress


def counted(name: str) -> Counting:
    return Counting(encoders.load(name))
