"""Calibrations in the store, each under a number; the manifest says which one is served."""

from __future__ import annotations

import json
import secrets
import sqlite3
from dataclasses import asdict, replace
from typing import Any

from isthmus import checksums
from isthmus.calibration import storage
from isthmus.errors import BadFile
from isthmus.search import schema
from isthmus.search.database import Database
from isthmus.search.lexical import Hybrid
from isthmus.search.probability import Curve, Match
from isthmus.search.served import Calibrated

KEPT = 3  # calibrations, the served one among them


def draft(database: Database, calibrated: Calibrated) -> Calibrated:
    """Write a fitted calibration under a number of its own; nobody is served by it yet."""
    with database.writing() as connection:
        statement = "INSERT INTO calibrations (made, spec, sequence, fitted, beside) VALUES ('', '', 0, x'', '')"
        version = int(connection.execute(statement).lastrowid or 0)
        numbered = replace(calibrated, version=version, identity=secrets.token_hex(16))
        _write(connection, numbered)
    return numbered


def forget_drafts(database: Database) -> None:
    """Delete the drafts of processes that were killed before they published them; earlier calibrations stay."""
    newer = "FROM calibrations WHERE version > ?"
    if database.one(f"SELECT count(*) {newer}", database.manifest("calibration").get("calibration", 0))[0]:
        with database.writing() as connection:
            connection.execute(f"DELETE {newer}", (database.manifest("calibration").get("calibration", 0),))


def publish(
    database: Database, calibrated: Calibrated, asked: str, over: int | None = None, encoding: int | None = None
) -> None:
    """Make a calibration the one that is served, in one step; the next will be made as this was ``asked`` for.

    With ``over`` it only takes the place of that version (0: of none): whoever has published another meanwhile stays.
    With ``encoding``, not where the collection has been re-encoded since.
    """
    version = calibrated.version
    with database.writing() as connection:
        now = database.manifest("calibration", "encoding")
        other = over is not None and over != now.get("calibration", 0)
        if other or (encoding is not None and encoding != now.get("encoding", 0)):
            connection.execute("DELETE FROM calibrations WHERE version = ?", (version,))
            return
        _write(connection, calibrated)
        schema.put(connection, calibration=version, spec=asked)
        connection.execute("DELETE FROM calibrations WHERE version <= ?", (version - KEPT,))


def replace_all(connection: sqlite3.Connection, calibrated: Calibrated | None, asked: str) -> None:
    """Serve a calibration of other vectors, or none, inside the caller's transaction; all earlier ones go."""
    connection.execute("DELETE FROM calibrations")
    connection.execute("DELETE FROM manifest WHERE name = 'calibration'")
    if calibrated is None:
        return
    _write(connection, calibrated)
    schema.put(connection, calibration=calibrated.version, spec=asked)


def _write(connection: sqlite3.Connection, calibrated: Calibrated) -> None:
    """Write a calibration with all that goes with it, in place of its draft."""
    fitted = storage.to_bytes(calibrated.fitted)
    values = (calibrated.version, calibrated.made, str(calibrated.fitted.spec), calibrated.sequence, fitted)
    statement = "INSERT OR REPLACE INTO calibrations VALUES (?1, ?2, ?3, ?4, ?5, ?6, seal(?1, ?2, ?3, ?4, ?5, ?6))"
    connection.execute(statement, (*values, json.dumps(_beside(calibrated))))


def _beside(calibrated: Calibrated) -> dict[str, Any]:
    return {
        "sources": {name: list(rows) for name, rows in calibrated.sources.items()},
        "match": calibrated.match and asdict(calibrated.match),
        "hybrid": calibrated.hybrid and asdict(calibrated.hybrid),
        "identity": calibrated.identity,
    }


def read(database: Database, version: int) -> Calibrated:
    """Read a calibration."""
    columns = f"made, sequence, fitted, beside, checksum IS {schema.sealed('calibrations')}"
    row = database.one(f"SELECT {columns} FROM calibrations WHERE version = ?", version)
    if row is None:
        raise BadFile(f"{database.path}: calibration {version} is missing. Run `isthmus calibrate` to make another.")
    made, sequence, blob, text, whole = row
    if not whole:
        raise BadFile(
            f"{database.path}: calibration {version} does not match its checksum. Run `isthmus calibrate` to make "
            "another; the documents are not affected."
        )
    fitted = storage.from_bytes(blob, f"calibration {version} of {database.path}")
    beside = json.loads(text)
    match, hybrid = _match(beside.get("match")), _hybrid(beside.get("hybrid"))
    sources = beside.get("sources", {})
    identity = beside.get("identity") or str(checksums.of_values(blob))  # version 1 of the tables had none
    return Calibrated(version, sequence, made, fitted, match, sources, hybrid, identity)


def _match(told: dict[str, Any] | None) -> Match | None:
    if not told:
        return None
    return Match({name: Curve(**curve) for name, curve in told["curves"].items()}, told["held_out"])


def _hybrid(told: dict[str, Any] | None) -> Hybrid | None:
    if not told:
        return None
    modality = {name: (mean, deviation) for name, (mean, deviation) in told["modality"].items()}
    return Hybrid(told["deviation"], modality, told["weight"])
