"""The sample folder: what it holds, whose it is, and that the queries' answers are there."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from isthmus import samples
from isthmus.documents import Document
from isthmus.encoders.bank.views import PICTURES
from isthmus.sources import SkippedInput, open_source

Pixels = NDArray[np.float64]
FOLDER = samples.folder()
PHOTOS = sorted((FOLDER / "photos").glob("*.jpg"))
DRAWINGS = sorted((FOLDER / "drawings").glob("*.png"))


@pytest.fixture(scope="module")
def documents() -> dict[str, Document]:
    found = [one for unit in open_source(FOLDER).units() if not isinstance(unit, SkippedInput) for one in unit.read()]
    assert not [one for one in found if isinstance(one, SkippedInput)]
    return {document.id: document for document in found if isinstance(document, Document)}


def test_the_folder_reads_as_texts_pictures_and_both_and_nothing_is_skipped(documents: dict[str, Document]) -> None:
    held = Counter(document.modality for document in documents.values())
    assert held["text"] >= 60
    assert held["image"] >= 40
    assert 20 <= held["image+text"] <= 30
    assert {"museum.html", "books.jsonl#bread"} <= set(documents)


def test_every_right_answer_is_a_document_and_the_first_has_the_kind(documents: dict[str, Document]) -> None:
    asked = samples.queries()
    assert len(asked) >= 40
    assert len({one.query for one in asked}) == len(asked)
    for one in asked:
        assert one.right, one
        assert set(one.right) <= set(documents), one
        assert documents[one.right[0]].modality == one.kind, one
    kinds = Counter(one.kind for one in asked)
    assert min(kinds[kind] for kind in ("text", "image", "image+text")) >= 15


def test_notes_are_of_forty_to_a_hundred_and_twenty_words_and_captions_short() -> None:
    lengths = [len(path.read_text(encoding="utf-8").split()) for path in (FOLDER / "notes").iterdir()]
    assert min(lengths) >= 40
    assert max(lengths) <= 120
    captions = [*(FOLDER / "photos").glob("*.txt"), *(FOLDER / "drawings").glob("*.txt")]
    assert all(3 <= len(path.read_text(encoding="utf-8").split()) <= 25 for path in captions)


def test_pictures_are_small_and_whole() -> None:
    for path in [*PHOTOS, *DRAWINGS]:
        with Image.open(path) as image:
            image.load()
            assert max(image.size) <= 384, path
            assert min(image.size) >= 120, path
    assert sum(path.stat().st_size for path in FOLDER.parent.rglob("*") if path.suffix != ".pyc") < 1_200_000


@pytest.mark.parametrize("folder", [FOLDER.parent, Path(str(PICTURES))])
def test_every_photo_has_a_line_with_its_licence_and_every_line_a_photo(folder: Path) -> None:
    page = (folder / "LICENSES.md").read_text(encoding="utf-8")
    rows = re.findall(r"(?m)^\| ([\w-]+\.jpg) \| (.+?) \| (.+?) \| (.+?) \| (.+?) \| (.*?) ?\|$", page)
    assert sorted(name for name, *_ in rows) == sorted(path.name for path in folder.rglob("*.jpg"))
    free = {"CC BY 1.0", "CC BY 2.0", "CC BY 3.0", "CC0 1.0", "no known copyright restrictions", "public domain"}
    assert {licence for *_, licence, _ in rows} <= free


def test_no_picture_of_the_bank_is_in_the_sample_folder() -> None:
    """A reference query must not be its own answer. One picture in two sizes differs by 1 or 2 of 255 here."""

    def small(path: Path) -> Pixels:
        with Image.open(path) as image:
            return np.asarray(image.convert("RGB").resize((16, 16)), dtype=float)

    bank = np.array([small(path) for path in Path(str(PICTURES)).glob("*.jpg")])
    sample = np.array([small(path) for path in [*PHOTOS, *DRAWINGS]])
    assert np.abs(bank[:, None] - sample).mean(axis=(2, 3, 4)).min() > 10
