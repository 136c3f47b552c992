"""Whatever lies in a folder, every good file is read and every bad one is listed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from damage import make_damaged_folder
from isthmus.documents import Document
from isthmus.sources import SkippedInput, open_source
from isthmus.sources.sidecars import is_picture


def test_two_thousand_files_of_which_five_hundred_are_damaged(tmp_path: Path) -> None:
    good, bad = make_damaged_folder(tmp_path, np.random.default_rng(0))
    documents: list[str] = []
    skipped: list[SkippedInput] = []
    for unit in open_source(tmp_path).units():
        for found in [unit] if isinstance(unit, SkippedInput) else unit.read():
            if isinstance(found, Document):
                documents.append(found.id)
            else:
                skipped.append(found)
    pictures = {name for name in bad if is_picture(name)}  # not decoded here: the encoder finds the damage
    assert len(documents) == len(set(documents))
    assert set(documents) == good | pictures
    listed = {name for name in bad - pictures if any(_is_of(name, each.where) for each in skipped)}
    assert listed == bad - pictures
    assert {each.where for each in skipped if not any(_is_of(name, each.where) for name in bad)} == set()
    assert all(each.why.strip() for each in skipped)


def _is_of(name: str, where: str) -> bool:
    return where == name or where.startswith(f"{name}, ")


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
def test_a_full_memory_and_an_interruption_are_not_damage(error: type[BaseException], tmp_path: Path) -> None:
    from isthmus.sources.files import unit

    def fails() -> None:
        raise error

    with pytest.raises(error):
        list(unit("a", "1", fails).read())  # type: ignore[arg-type]
