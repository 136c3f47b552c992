"""A few files of the sample folder, and what every encoder must do with them: index, calibrate, search."""

from __future__ import annotations

from pathlib import Path
from shutil import copy
from typing import Any

import numpy as np
import pytest

import recordings
from isthmus import Collection, Query, samples
from isthmus.errors import BadInput

FILES = [
    *("photos/tabby.jpg", "photos/snow.jpg", "drawings/house.png"),
    *(f"photos/{name}.{end}" for name in ("coins", "lake", "otters") for end in ("jpg", "txt")),
    *(f"notes/{name}.md" for name in ("glaciers", "sharks", "sleep", "espresso", "inflation", "green-tea")),
]


def few_files(folder: Path) -> Path:
    """Copy pictures alone, photos with words beside them, and notes."""
    folder.mkdir(exist_ok=True)
    for name in FILES:
        copy(samples.folder() / name, folder)
    return folder


def check_collection(encoder: Any, few: Path, place: Path, *, words_only: bool = False, **opening: Any) -> None:
    """Index, calibrate, open again by the encoder's name, and search, with words and with a picture."""
    with Collection.open(place, encoder=encoder, calibration="center+standardize", follow=False, **opening) as things:
        skipped = things.index(few, ocr="never").skipped
        assert len(skipped) == (6 if words_only else 0)
        things.calibrate("center+standardize")
    with Collection.open(place, follow=False, **opening) as things:
        assert len(things) == (6 if words_only else 12)
        hits = things.search("glaciers move slowly", k=20)
        assert {hit.id for hit in hits} == {document.id for document in things}
        assert any(abs(hit.score - hit.similarity) > 1e-3 for hit in hits)
        check_blank(things.encoder, place.parent)
        if not words_only:
            found = things.search(Query(image=few / "tabby.jpg"), k=1, modalities=["image"])[0]
            assert found.id == "tabby.jpg"


def check_blank(encoder: Any, folder: Path) -> None:
    """Blank pictures and silence have unit vectors; blank text is refused."""
    blank = [Query(".")]
    if "image" in encoder.modalities:
        blank += [Query(image=np.full((20, 20, 3), shade, np.uint8)) for shade in (0, 127, 255)]
    if "audio" in encoder.modalities:
        quiet = {"silence.wav": recordings.silence(3), "one.wav": recordings.silence(1)[:1]}
        blank += [Query(audio=recordings.write(folder / name, samples)) for name, samples in quiet.items()]
    found = encoder.encode_queries(blank)
    for part, present in found.present.items():
        lengths = np.linalg.norm(found.parts[part][present], axis=1)
        np.testing.assert_allclose(lengths, 1, atol=1e-4, err_msg=part)
    for text in ("", " \n\t"):
        with pytest.raises(BadInput):
            encoder.encode_queries([text])
