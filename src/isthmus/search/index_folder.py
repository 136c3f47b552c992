"""The folder ``index/`` of a collection: indexes on disk, built from the store, and rebuilt when lost or damaged.

index.lock                              held by the process that writes there
index/VERSION-SEQUENCE/index.json       which calibration, which state of the documents, the checksum of each file
                       0.vectors        float32 (n, width), one row per passage
                       0.rows           int64 (n, 2): the document's row in the store, the passage's number
                       0.…              what a Faiss index keeps; 1.… is the next modality

Files are numbered: no name that a document brings becomes a path. An index is used only if its checksums match
and its calibration and state belong to this store's own history: after a store is restored from a copy, an index of a
later state has another token.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from isthmus import checksums
from isthmus import index as indexes
from isthmus.errors import BadFile
from isthmus.search.snapshot import Calibrated, FoldedBlock, ModalityIndex, Snapshot
from isthmus.storage.base import State

FORMAT = 3
FOLDER = "index"
ABOUT = "index.json"
DRAFT = ".tmp"


class OtherHistory(BadFile):
    """An index that is whole, but was made from another store: before this one was restored from a copy."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What an index was made from: a calibration, a state of the documents, and the last of their rows."""

    version: int
    identity: str  # of the calibration
    state: State
    last: int

    @classmethod
    def of(cls, calibrated: Calibrated, state: State, last: int) -> Origin:
        """Return the origin of an index that is about to be made."""
        return cls(calibrated.version, calibrated.identity, state, last)

    @property
    def name(self) -> str:
        """The name of the index's folder."""
        return f"{self.version}-{self.state.sequence}"


def places(folder: Path | None, version: int) -> list[Path]:
    """Return the folders of the indexes of a calibration, the newest first."""
    return of_version(entries(folder), version)


def of_version(entries: Iterable[Path], version: int) -> list[Path]:
    """Return those of the entries that are indexes of a calibration, the newest first."""
    found = [(place, _numbers(place)) for place in entries]
    mine = [(numbers[1], place) for place, numbers in found if numbers is not None and numbers[0] == version]
    return [place for _, place in sorted(mine, reverse=True)]


def sequence(place: Path) -> int:
    """Return the state of the documents that an index is of, by its name."""
    return (_numbers(place) or (0, -1))[1]


def keep_only(folder: Path | None, name: str | None) -> None:
    """Remove every index but one, and drafts of killed processes; the caller holds the lock.

    A process that has an index open can use it until it closes it.
    """
    for place in entries(folder):
        if place.name.endswith(DRAFT):
            shutil.rmtree(place, ignore_errors=True)
        elif _numbers(place) and place.name != name:
            remove(place)


def remove(place: Path) -> None:
    """Remove an index; renamed first, so that one that is half removed is not taken for one."""
    aside = _draft(place)
    with suppress(OSError):
        place.replace(aside)
    shutil.rmtree(aside, ignore_errors=True)


def _draft(place: Path) -> Path:
    """Return a unique name next to an index."""
    return place.with_name(f"{place.name}.{secrets.token_hex(8)}{DRAFT}")


def entries(folder: Path | None) -> list[Path]:
    """Return the entries of the folder of indexes."""
    if folder is None:
        return []
    try:
        return sorted((folder / FOLDER).iterdir())
    except OSError:  # there is none, or it is no folder
        return []


def _numbers(place: Path) -> tuple[int, int] | None:
    """Return the version and the sequence that an index's folder is named by."""
    version, _, sequence = place.name.partition("-")
    return (int(version), int(sequence)) if version.isdecimal() and sequence.isdecimal() else None


def write(folder: Path, pieces: Iterator[FoldedBlock], origin: Origin, kind: str = indexes.AUTO) -> Path:
    """Write an index and move it into place in one step; blocks are not held in memory."""
    place = folder / FOLDER / origin.name
    place.parent.mkdir(exist_ok=True)
    draft = _draft(place)
    draft.mkdir()
    try:
        of_modalities = _written(draft, pieces)
        for number, described in enumerate(of_modalities):
            vectors = np.memmap(draft / f"{number}.vectors", np.float32, "r", shape=tuple(described["shape"]))
            made = indexes.build(vectors, kind)
            made.save(draft, str(number))
            described["kind"] = made.kind
        about = {"format": FORMAT, "version": origin.version, "identity": origin.identity, "last": origin.last}
        about |= {"sequence": origin.state.sequence, "token": origin.state.token, "modalities": of_modalities}
        about["files"] = {path.name: checksums.of_file(path) for path in sorted(draft.iterdir())}
        (draft / ABOUT).write_text(json.dumps({**about, "checksum": _seal(about)}, indent=1))
        for path in draft.iterdir():
            _synced(path)
        if place.exists():
            remove(place)
        draft.replace(place)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return place


def _written(draft: Path, pieces: Iterator[FoldedBlock]) -> list[dict[str, Any]]:
    """Write vectors and rows as they come; return a description of each modality's, by number."""
    files: dict[str, BinaryIO] = {}
    of_modalities: dict[str, dict[str, Any]] = {}

    def append(name: str, array: Any) -> None:
        if name not in files:
            files[name] = (draft / name).open("wb")
        files[name].write(np.ascontiguousarray(array).tobytes())

    try:
        for piece in pieces:
            fresh = {"modality": piece.modality, "number": len(of_modalities), "shape": [0, piece.vectors.shape[1]]}
            described = of_modalities.setdefault(piece.modality, fresh)
            described["shape"][0] += len(piece.vectors)
            append(f"{described['number']}.vectors", piece.vectors.astype("<f4", copy=False))
            append(f"{described['number']}.rows", piece.rows.astype("<i8", copy=False))
            if piece.active is not None:
                described["active"] = list(piece.active.shape[1:])
                append(f"{described['number']}.active", piece.active)
    finally:
        for file in files.values():
            file.close()
    return list(of_modalities.values())


def read(place: Path, calibrated: Calibrated) -> Snapshot:
    """Open an index on disk; the checksum of every file is verified, at memory speed."""
    try:
        about = described(place)
        if about["identity"] != calibrated.identity:
            raise OtherHistory(f"{place} was made with another calibration.")
        for name, written in about["files"].items():
            if Path(name).name != name or checksums.of_file(place / name) != written:
                raise BadFile(f"{place / name} does not match its checksum.")
        of_modalities = [_opened(place, of) for of in sorted(about["modalities"], key=lambda of: str(of["modality"]))]
        state = State(int(about["sequence"]), str(about["token"]))
        return Snapshot(calibrated, state, int(about["last"]), tuple(of_modalities))
    except OtherHistory:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadFile(f"{place} is damaged ({error}). It is made again from the collection.") from None


def described(place: Path) -> dict[str, Any]:
    """Return the description of an index, ``index.json``."""
    about: dict[str, Any] = json.loads((place / ABOUT).read_text())
    if about.pop("checksum") != _seal(about):
        raise BadFile(f"{place / ABOUT} does not match its checksum.")
    if about["format"] != FORMAT:
        raise BadFile(f"{place / ABOUT} has format {about['format']}; this isthmus reads {FORMAT}.")
    return about


def _opened(place: Path, of: dict[str, Any]) -> ModalityIndex:
    name = str(int(of["number"]))
    vectors = np.memmap(place / f"{name}.vectors", np.float32, "r", shape=tuple(of["shape"]))
    rows = np.fromfile(place / f"{name}.rows", "<i8").reshape(-1, 2)
    active = None
    if "active" in of:
        active = np.fromfile(place / f"{name}.active", bool).reshape(-1, *of["active"])
    return ModalityIndex(of["modality"], vectors, rows, indexes.load(of["kind"], vectors, place, name), active)


def _seal(about: dict[str, Any]) -> int:
    return checksums.of_values(json.dumps(about, sort_keys=True))


def _synced(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
