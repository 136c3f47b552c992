"""The vectors of the built-in bank of reference queries: encoded on first use, then read from disk."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TypeVar

import numpy as np

from isthmus.atomic import replacing
from isthmus.documents import Query
from isthmus.encoders import load
from isthmus.encoders.abilities import part_identity
from isthmus.encoders.bank import queries
from isthmus.encoders.bank.views import View, views
from isthmus.encoders.base import Encoder, unit
from isthmus.encoders.locations import EMBEDDED, user_cache
from isthmus.encoders.towers import TowerEncoder
from isthmus.types import Matrix, Vectors

Item = TypeVar("Item")

SHIPPED_QUERIES = 1000  # per modality, at most; the number collections use


@dataclass(frozen=True, slots=True)
class Reference:
    """A query of the bank: words, a view of a picture, or both. ``query`` opens the picture."""

    text: str | None = None
    view: View | None = None

    def query(self) -> Query:
        """Return it as a ``Query``."""
        return Query(text=self.text, image=None if self.view is None else self.view.image())


def bank_vectors(encoder: Encoder, folder: Path | None = None, limit: int | None = None) -> Vectors:
    """Return the bank's queries encoded by ``encoder``, from ``folder`` (or the user's cache) if already encoded.

    Words come first, then pictures, then pictures with words, as far as the encoder reads them. ``limit`` is the most
    queries per modality, spread evenly over the bank.

    The name of a file is a hash of everything its vectors depend on: the identities of the towers, and the queries. So
    the bank is encoded again for another tower or another bank, and if the file is damaged; encoders with the same text
    tower, such as ``mini`` and ``base``, share the vectors of the texts. Vectors of ``matryoshka:`` are cut.
    """
    if isinstance(encoder, TowerEncoder) and encoder.whole is not None:
        return _cut(bank_vectors(encoder.whole, folder, limit), encoder.dim)
    chosen = {m: _spread(several, limit) for m, several in references().items() if m in encoder.modalities}
    found = [kept(encoder, modality, several, folder) for modality, several in chosen.items()]
    return Vectors.concat(found or [Vectors.of(np.zeros((0, encoder.dim), np.float32), "text")])


def _cut(whole: Vectors, dim: int) -> Vectors:
    """Keep the first numbers of each vector, scaled to unit length."""
    parts = {part: np.array(matrix[:, :dim]) for part, matrix in whole.parts.items()}
    for part, present in whole.present.items():
        parts[part][present] = unit(parts[part][present], "the bank")
    return Vectors(parts, whole.present)


def references() -> dict[str, Sequence[Reference]]:
    """Return the bank by modality: its texts, its views of pictures, and each view with one of the texts."""
    texts, pictures = queries(), views()
    return {
        "text": [Reference(text) for text in texts],
        "image": [Reference(view=view) for view in pictures],
        "image+text": [
            Reference(text, view) for text, view in zip(_spread(texts, len(pictures)), pictures, strict=True)
        ],
    }


def ship(name: str = "mini", limit: int = SHIPPED_QUERIES) -> None:
    """Write the bank's vectors into an embedded encoder's folder, in half precision, so that they need no encoding.

    Vectors that ship with another encoder are left out.
    """
    encoder = load(name)
    for old in EMBEDDED[name].glob("bank-*.npz"):
        old.unlink()
    for modality, several in references().items():
        chosen = _spread(several, limit)
        file = _file(encoder, modality, chosen)
        if _shipped(file):
            continue
        encoded = encoder.encode_queries([reference.query() for reference in chosen])
        used = {
            part: matrix.astype(np.float16) for part, matrix in encoded.parts.items() if encoded.present[part].all()
        }
        _write(EMBEDDED[name] / file, used)


def _spread(several: Sequence[Item], limit: int | None) -> Sequence[Item]:
    """Return ``limit`` of the items, evenly spread.

    >>> _spread("abcdefg", 3)
    ['a', 'd', 'g']
    """
    if limit is None or limit >= len(several):
        return several
    return [several[int(row)] for row in np.linspace(0, len(several) - 1, limit)]


def kept(encoder: Encoder, modality: str, several: Sequence[Reference], folder: Path | None = None) -> Vectors:
    """Return the vectors of queries of one modality, from the cache if they are there."""
    name = _file(encoder, modality, several)
    path = (folder or user_cache()) / name
    parts = _shipped(name) or _read(path)
    if {matrix.shape for matrix in parts.values()} != {(len(several), encoder.dim)}:
        encoded = encoder.encode_queries([reference.query() for reference in several])
        parts = {part: matrix for part, matrix in encoded.parts.items() if encoded.present[part].all()}
        _write(path, parts)
    return Vectors(parts)


def _file(encoder: Encoder, modality: str, several: Sequence[Reference]) -> str:
    """Return the name of the file that holds the vectors of these queries."""
    towers = dict.fromkeys(part_identity(encoder, part) for part in modality.split("+"))
    contents = hashlib.sha256("\n".join([*towers, modality, *map(repr, several)]).encode())
    for view in {reference.view.name: reference.view for reference in several if reference.view}.values():
        contents.update(view.file())
    return f"bank-{contents.hexdigest()[:24]}.npz"


def _shipped(name: str) -> dict[str, Matrix]:
    """Return the vectors of a file that is part of the package, whichever encoder it ships with."""
    return next((found for folder in EMBEDDED.values() if (found := _read(folder / name))), {})


def _read(path: Path) -> dict[str, Matrix]:
    """Return the stored vectors, or nothing if the file is missing or damaged."""
    try:
        with np.load(BytesIO(path.read_bytes()), allow_pickle=False) as file:
            return {part: matrix.astype(np.float32) for part, matrix in file.items()}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile):
        return {}


def _write(path: Path, parts: dict[str, Matrix]) -> None:
    """Store vectors for later runs; ignore a folder that cannot be written."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as draft, draft.open("wb") as file:
            np.savez(file, **parts)  # type: ignore[arg-type]
