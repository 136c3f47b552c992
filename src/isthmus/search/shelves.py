"""Folded vectors on shelves, one per modality: what searches run on. Made from the store, and made again when lost.

index/VERSION-SEQUENCE/index.json       which calibration, up to which change, which files with which checksums
                       text.vectors     float32 (n, width), one row per passage
                       text.rows        int64 (n, 2): the document's row in the store, the passage's number
                       text.…           what a Faiss index keeps
"""

from __future__ import annotations

import json
import os
import shutil
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from isthmus import index as indexes
from isthmus.calibration import Fitted
from isthmus.errors import BadFile
from isthmus.index import Index
from isthmus.search.store import Block
from isthmus.types import Mask, Matrix, Rows

CHECKED = 64 << 20  # bytes of a file that are read to see whether it is whole; all of a smaller one
PIECE = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Shelf:
    """The folded vectors of one modality, and what finds the nearest among them."""

    modality: str
    vectors: Matrix  # (n, width)
    rows: Rows  # (n, 2): document, passage
    index: Index
    active: Mask | None = None  # (n, query modalities, sets), of dynamic calibrations
    alive: Mask | None = None  # (n,): None while every document is still there

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def documents(self) -> Rows:
        """The document of each row."""
        return self.rows[:, 0]


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """A block of documents, folded: rows of one modality."""

    modality: str
    vectors: Matrix
    rows: Rows
    active: Mask | None


def folded(fitted: Fitted, block: Block, sources: Mapping[str, list[int]]) -> Iterator[Piece]:
    """Fold a block of documents; no reference query meets the document it was made from."""
    pairs = [(reference, place) for place, name in enumerate(block.ids) for reference in sources.get(name, ())]
    own = np.array(pairs, dtype=np.intp).reshape(-1, 2) if pairs else None
    made = fitted.fold(block.vectors, sources=own, owner=block.owner)
    first = np.searchsorted(block.owner, np.arange(len(block.rows)))
    rows = np.column_stack([block.rows[block.owner], np.arange(len(block.owner)) - first[block.owner]])
    for modality in block.vectors.modalities:
        of_modality = block.vectors.modality == modality
        active = None if made.active is None else made.active[of_modality]
        yield Piece(modality, made.vectors[of_modality], rows[of_modality].astype(np.int64), active)


def in_memory(pieces: Iterator[Piece], kind: str | None = None) -> tuple[Shelf, ...]:
    """Put folded blocks on shelves without a file."""
    by_modality: dict[str, list[Piece]] = {}
    for piece in pieces:
        by_modality.setdefault(piece.modality, []).append(piece)
    return tuple(_shelf(name, several, kind) for name, several in sorted(by_modality.items()))


def _shelf(modality: str, pieces: list[Piece], kind: str | None) -> Shelf:
    vectors = np.concatenate([piece.vectors for piece in pieces])
    rows = np.concatenate([piece.rows for piece in pieces])
    active = [piece.active for piece in pieces if piece.active is not None]
    return Shelf(modality, vectors, rows, indexes.build(vectors, kind), np.concatenate(active) if active else None)


def added(piece: Piece) -> Shelf:
    """Put a folded block on a shelf of its own, searched exactly: for what came after the last build."""
    return _shelf(piece.modality, [piece], "exact")


def merged(first: Shelf, second: Shelf) -> Shelf:
    """Put two shelves of one modality together, searched exactly."""
    pieces = [Piece(shelf.modality, shelf.vectors, shelf.rows, shelf.active) for shelf in (first, second)]
    whole = _shelf(first.modality, pieces, "exact")
    if first.alive is None and second.alive is None:
        return whole
    masks = [np.ones(len(shelf), dtype=bool) if shelf.alive is None else shelf.alive for shelf in (first, second)]
    return replace(whole, alive=np.concatenate(masks))


def places(folder: Path, version: int) -> list[Path]:
    """Return where shelves of a calibration lie in a collection's folder, the newest first."""
    return sorted((folder / "index").glob(f"{version}-*"), key=_sequence, reverse=True)


def prune(folder: Path, version: int, *, newer: bool = False) -> None:
    """Remove shelves that nobody will open again: older ones, and with ``newer`` those of later calibrations as well.

    Whoever has them open keeps them until the end.
    """
    numbers = {place: _version(place) for place in (folder / "index").glob("*-*")}
    others = [at for at, number in numbers.items() if number < version or (newer and version < number < np.inf)]
    for place in [*others, *places(folder, version)[1:]]:
        shutil.rmtree(place, ignore_errors=True)


def _version(place: Path) -> float:
    number = place.name.partition("-")[0]
    return int(number) if number.isdigit() else np.inf


def _sequence(place: Path) -> int:
    number = place.name.partition("-")[2]
    return int(number) if number.isdigit() else -1


def write(folder: Path, pieces: Iterator[Piece], about: Mapping[str, int]) -> None:
    """Write shelves beside ``folder`` and move them there in one step; blocks pass through, none is kept."""
    draft = folder.with_name(f"{folder.name}.{os.getpid()}.tmp")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    try:
        shelves = _written(draft, pieces)
        for name, described in shelves.items():
            vectors = np.memmap(draft / f"{name}.vectors", np.float32, "r", shape=tuple(described["shape"]))
            made = indexes.build(vectors)
            files = [f"{name}.vectors", f"{name}.rows", *(path.name for path in made.save(draft, name))]
            files += [f"{name}.active"] * ("active" in described)
            described |= {"kind": made.kind, "files": {file: _checksums(draft / file) for file in files}}
        whole = {**about, "shelves": shelves}
        (draft / "index.json").write_text(json.dumps({**whole, "checksum": _seal(whole)}, indent=1))
        for path in draft.iterdir():
            _synced(path)
        shutil.rmtree(folder, ignore_errors=True)
        draft.replace(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _written(draft: Path, pieces: Iterator[Piece]) -> dict[str, dict[str, Any]]:
    files: dict[str, BinaryIO] = {}
    shelves: dict[str, dict[str, Any]] = {}

    def append(name: str, array: Any) -> None:
        if name not in files:
            files[name] = (draft / name).open("wb")
        files[name].write(np.ascontiguousarray(array).tobytes())

    try:
        for piece in pieces:
            described = shelves.setdefault(piece.modality, {"shape": [0, piece.vectors.shape[1]]})
            described["shape"][0] += len(piece.vectors)
            append(f"{piece.modality}.vectors", piece.vectors.astype("<f4", copy=False))
            append(f"{piece.modality}.rows", piece.rows.astype("<i8", copy=False))
            if piece.active is not None:
                described["active"] = list(piece.active.shape[1:])
                append(f"{piece.modality}.active", piece.active)
    finally:
        for file in files.values():
            file.close()
    return shelves


def read(folder: Path, *, whole: bool = False) -> tuple[dict[str, Any], tuple[Shelf, ...]]:
    """Open shelves that ``write`` made, as they lie on the disk; ``whole`` checks every byte of them."""
    try:
        about: dict[str, Any] = json.loads((folder / "index.json").read_text())
        if about.pop("checksum") != _seal(about):
            raise BadFile(f"{folder / 'index.json'} does not match its checksum.")
        return about, tuple(_opened(folder, name, of, whole) for name, of in sorted(about["shelves"].items()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadFile(f"{folder} is damaged ({error}). It is made again from the collection.") from None


def _opened(folder: Path, name: str, described: Mapping[str, Any], whole: bool) -> Shelf:
    for file, (size, quick, full) in described["files"].items():
        path = folder / file
        if path.stat().st_size != size or (_full(path) != full if whole else _quick(path, size) != quick):
            raise BadFile(f"{path} does not match its checksum.")
    shape = tuple(described["shape"])
    vectors = np.memmap(folder / f"{name}.vectors", np.float32, "r", shape=shape)
    rows = np.fromfile(folder / f"{name}.rows", "<i8").reshape(-1, 2)
    active = None
    if "active" in described:
        active = np.fromfile(folder / f"{name}.active", bool).reshape(-1, *described["active"])
    return Shelf(name, vectors, rows, indexes.load(described["kind"], vectors, folder, name), active)


def _seal(about: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(about, sort_keys=True).encode())


def _checksums(path: Path) -> list[int]:
    size = path.stat().st_size
    return [size, _quick(path, size), _full(path)]


def _full(path: Path) -> int:
    """Return a checksum of a whole file."""
    total = 0
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            total = zlib.crc32(piece, total)
    return total


def _quick(path: Path, size: int) -> int:
    """Return a checksum of a file, or of pieces spread evenly over a large one."""
    if size <= CHECKED:
        return _full(path)
    total = 0
    with path.open("rb") as file:
        for start in np.linspace(0, size - PIECE, CHECKED // PIECE).astype(np.int64):
            file.seek(int(start))
            total = zlib.crc32(file.read(PIECE), total)
    return total


def _synced(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
