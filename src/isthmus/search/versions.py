"""Calibrations in the store, each under a number; the manifest says which one is served."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from isthmus.calibration import storage
from isthmus.errors import BadFile
from isthmus.search.database import Database
from isthmus.search.lexical import Hybrid
from isthmus.search.probability import Curve, Match
from isthmus.search.served import Calibrated

KEPT = 3  # calibrations, the served one among them


def draft(database: Database, calibrated: Calibrated) -> int:
    """Write a fitted calibration under a number of its own; nobody is served by it yet."""
    fitted = storage.to_bytes(calibrated.fitted)
    values = (calibrated.made, str(calibrated.fitted.spec), calibrated.sequence, fitted)
    with database.writing() as connection:
        statement = "INSERT INTO calibrations (made, spec, sequence, fitted, beside) VALUES (?, ?, ?, ?, '{}')"
        return int(connection.execute(statement, values).lastrowid or 0)


def publish(database: Database, calibrated: Calibrated, asked: str, over: int | None = None) -> None:
    """Make a calibration the one that is served, in one step; the next will be made as this was ``asked`` for.

    With ``over`` it only takes the place of that version (0: of none): whoever has published another meanwhile stays.
    """
    version = calibrated.version
    beside = {
        "sources": {name: list(rows) for name, rows in calibrated.sources.items()},
        "match": calibrated.match and asdict(calibrated.match),
        "hybrid": calibrated.hybrid and asdict(calibrated.hybrid),
    }
    with database.writing() as connection:
        served = connection.execute("SELECT value FROM manifest WHERE name = 'calibration'").fetchone()
        if over is not None and over != (served[0] if served else 0):
            connection.execute("DELETE FROM calibrations WHERE version = ?", (version,))
            return
        connection.execute("UPDATE calibrations SET beside = ? WHERE version = ?", (json.dumps(beside), version))
        connection.execute("INSERT OR REPLACE INTO manifest VALUES ('calibration', ?), ('spec', ?)", (version, asked))
        connection.execute("DELETE FROM calibrations WHERE version <= ?", (version - KEPT,))


def read(database: Database, version: int) -> Calibrated:
    """Read a calibration."""
    row = database.one("SELECT made, sequence, fitted, beside FROM calibrations WHERE version = ?", version)
    if row is None:
        raise BadFile(f"{database.path}: calibration {version} is missing. Run `isthmus calibrate` to make another.")
    made, sequence, blob, text = row
    fitted = storage.from_bytes(blob, f"calibration {version} of {database.path}")
    beside = json.loads(text)
    match, hybrid = _match(beside["match"]), _hybrid(beside["hybrid"])
    return Calibrated(version, sequence, made, fitted, match, beside["sources"], hybrid)


def _match(told: dict[str, Any] | None) -> Match | None:
    if not told:
        return None
    return Match({name: Curve(**curve) for name, curve in told["curves"].items()}, told["held_out"])


def _hybrid(told: dict[str, Any] | None) -> Hybrid | None:
    if not told:
        return None
    modality = {name: (mean, deviation) for name, (mean, deviation) in told["modality"].items()}
    return Hybrid(told["deviation"], modality, told["weight"])
