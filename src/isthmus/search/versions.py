"""Calibrations in the store, each under a number; the manifest says which one is served."""

from __future__ import annotations

import json
import sqlite3
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


def publish(
    database: Database, calibrated: Calibrated, asked: str, over: int | None = None, encoding: int | None = None
) -> None:
    """Make a calibration the one that is served, in one step; the next will be made as this was ``asked`` for.

    With ``over`` it only takes the place of that version (0: of none): whoever has published another meanwhile stays.
    With ``encoding``, not where the collection has been re-encoded since.
    """
    version = calibrated.version
    with database.writing() as connection:
        names = "SELECT name, value FROM manifest WHERE name IN ('calibration', 'encoding')"
        now = dict(connection.execute(names).fetchall())
        other = over is not None and over != now.get("calibration", 0)
        if other or (encoding is not None and encoding != now.get("encoding", 0)):
            connection.execute("DELETE FROM calibrations WHERE version = ?", (version,))
            return
        beside = json.dumps(_beside(calibrated))
        connection.execute("UPDATE calibrations SET beside = ? WHERE version = ?", (beside, version))
        connection.execute("INSERT OR REPLACE INTO manifest VALUES ('calibration', ?), ('spec', ?)", (version, asked))
        connection.execute("DELETE FROM calibrations WHERE version <= ?", (version - KEPT,))


def replace_all(connection: sqlite3.Connection, calibrated: Calibrated | None, asked: str) -> None:
    """Serve a calibration of other vectors, or none, inside the caller's transaction; all earlier ones go."""
    connection.execute("DELETE FROM calibrations")
    connection.execute("DELETE FROM manifest WHERE name = 'calibration'")
    if calibrated is None:
        return
    fitted = storage.to_bytes(calibrated.fitted)
    values = (calibrated.made, str(calibrated.fitted.spec), calibrated.sequence, fitted)
    beside = json.dumps(_beside(calibrated))
    connection.execute("INSERT INTO calibrations VALUES (?, ?, ?, ?, ?, ?)", (calibrated.version, *values, beside))
    names = "INSERT OR REPLACE INTO manifest VALUES ('calibration', ?), ('spec', ?)"
    connection.execute(names, (calibrated.version, asked))


def _beside(calibrated: Calibrated) -> dict[str, Any]:
    return {
        "sources": {name: list(rows) for name, rows in calibrated.sources.items()},
        "match": calibrated.match and asdict(calibrated.match),
        "hybrid": calibrated.hybrid and asdict(calibrated.hybrid),
    }


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
