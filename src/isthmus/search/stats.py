"""Statistics of a collection."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isthmus import calibration
from isthmus.errors import CannotReach, counted
from isthmus.search import index_folder
from isthmus.search.publisher import Publisher
from isthmus.search.snapshot import Calibrated
from isthmus.search.snapshot_manager import SnapshotManager
from isthmus.storage.base import Place, UnfinishedReencode
from isthmus.storage.protocols import Engine
from isthmus.storage.servers import FOLDER


@dataclass(frozen=True, slots=True)
class Stats:
    """Counts, sizes, the encoder, the calibration and how far the documents have moved since."""

    path: str
    documents: Mapping[str, int]
    bytes: Mapping[str, int]
    encoder: Mapping[str, Any]
    schema: int
    changes: int
    calibration: Mapping[str, Any] | None
    drift: Mapping[str, float]
    refitting: bool
    last_error: str
    index: Mapping[str, str]
    sources: Mapping[str, int]
    skipped: tuple[tuple[str, str], ...]
    logged: int | None
    reencoding: UnfinishedReencode | None
    vectors: str = FOLDER  # where the folded vectors live: ``folder``, or the address of a server


def stats(folder: Place, database: Engine, manager: SnapshotManager) -> Stats:
    """Gather the statistics of a collection; nothing is calibrated or built for it."""
    store, manifest = manager.store, database.manifest()
    version = int(manifest.get("calibration", 0))
    calibrated = manager.read(version) if version else None
    files = _files(manager.folder) if manager.folder is not None else []
    index = [path for path in files if manager.folder is not None and path.is_relative_to(manager.folder / "index")]
    return Stats(
        path=str(folder),
        documents=store.counts(),
        bytes={"store": sum(_size(f) for f in files) - sum(_size(f) for f in index), "index": sum(map(_size, index))},
        encoder={name: manifest.get(name) for name in ("encoder", "identity", "dim", "made_with")},
        schema=int(manifest["schema"]),
        changes=int(manifest["sequence"]),
        calibration=None if calibrated is None else _calibration(calibrated),
        drift={} if calibrated is None else calibration.drift(calibrated.fitted.statistics, store.statistics()),
        refitting=manager.refitting,
        last_error=manager.last_error,
        index=_index(manager.folder, version)
        if manager.publisher is None
        else _published(manager.publisher, calibrated),
        sources=store.ledger.sources(),
        skipped=tuple(store.ledger.skipped()),
        reencoding=store.staged(),
        logged=store.queries.count() if manifest.get("log") else None,
        vectors=FOLDER if manager.publisher is None else manager.publisher.server.address,
    )


def _files(folder: Path) -> list[Path]:
    """List the files below a folder; folders that disappear meanwhile are left out."""
    return [Path(place, name) for place, _, names in os.walk(folder) for name in names]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # gone meanwhile
        return 0


def _calibration(calibrated: Calibrated) -> dict[str, Any]:
    fitted = calibrated.fitted
    tried = {str(t.spec): round(t.value, 4) for t in fitted.tuned.trials if not t.refused} if fitted.tuned else {}
    return {
        "version": calibrated.version,
        "spec": str(fitted.spec),
        "made": calibrated.made,
        "references": {name: len(rows) for name, rows in fitted.references.rows.items()},
        "note": fitted.note,
        "tried": tried,
        "match": dict(calibrated.match.held_out) if calibrated.match else {},
        "described": fitted.describe(),
    }


def _published(publisher: Publisher, calibrated: Calibrated | None) -> dict[str, str]:
    """Return the rows of each modality on the server, or why they are not known."""
    try:
        counts = {} if calibrated is None else publisher.rows(calibrated)
    except CannotReach as error:
        return {"server": str(error)}
    return {modality: f"on the server, {counted(count, 'row')}" for modality, count in counts.items()}


def _index(folder: Path | None, version: int) -> dict[str, str]:
    for place in index_folder.places(folder, version):
        try:
            indexes = index_folder.described(place)["modalities"]
            return {of["modality"]: f"{of['kind']}, {counted(of['shape'][0], 'row')}" for of in indexes}
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return {}
