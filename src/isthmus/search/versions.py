"""Calibrations in and out of storage: fitted numbers as bytes, everything else as JSON."""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict, replace
from typing import Any

from isthmus import checksums
from isthmus.calibration import storage
from isthmus.search.probability import Curve, Match
from isthmus.search.snapshot import Calibrated
from isthmus.storage.base import StoredCalibration, Transaction
from isthmus.storage.protocols import Calibrations
from isthmus.words import HybridScale


def draft(calibrations: Calibrations, calibrated: Calibrated) -> Calibrated:
    """Write a fitted calibration under a new number, not served yet."""
    named = replace(calibrated, identity=secrets.token_hex(16))
    version = calibrations.draft(lambda number: _stored(replace(named, version=number)))
    return replace(named, version=version)


def publish(
    calibrations: Calibrations,
    calibrated: Calibrated,
    asked: str,
    over: int | None = None,
    encoding: int | None = None,
) -> None:
    """Serve a calibration from now on, in one step; the next one is made by the spec ``asked``.

    With ``over`` it only takes the place of that version (0: of none): one that was published meanwhile stays.
    With ``encoding``, only if the collection has not been re-encoded since.
    """
    calibrations.publish(_stored(calibrated), asked, over=over, encoding=encoding)


def replace_all(
    calibrations: Calibrations, transaction: Transaction, calibrated: Calibrated | None, asked: str
) -> None:
    """Serve a calibration of other vectors, or none, inside the caller's transaction; all earlier ones go."""
    calibrations.replace_all(transaction, [] if calibrated is None else [_stored(calibrated)], asked)


def read(calibrations: Calibrations, version: int) -> Calibrated:
    """Read a calibration."""
    stored = calibrations.read(version)
    fitted = storage.from_bytes(stored.fitted, f"calibration {version} of the collection")
    extras = json.loads(stored.extras)
    identity = extras.get("identity") or str(checksums.of_values(stored.fitted))  # version 1 of the tables had none
    return Calibrated(
        version,
        stored.sequence,
        stored.made,
        fitted,
        _match(extras.get("match")),
        extras.get("sources", {}),
        _hybrid(extras.get("hybrid")),
        identity,
        extras.get("request", ""),
    )


def _stored(calibrated: Calibrated) -> StoredCalibration:
    return StoredCalibration(
        calibrated.version,
        calibrated.made,
        str(calibrated.fitted.spec),
        calibrated.sequence,
        storage.to_bytes(calibrated.fitted),
        json.dumps(_extras(calibrated)),
    )


def _extras(calibrated: Calibrated) -> dict[str, Any]:
    return {
        "sources": {name: list(rows) for name, rows in calibrated.sources.items()},
        "match": calibrated.match and asdict(calibrated.match),
        "hybrid": calibrated.hybrid and asdict(calibrated.hybrid),
        "identity": calibrated.identity,
        "request": calibrated.request,
    }


def _match(form: dict[str, Any] | None) -> Match | None:
    if not form:
        return None
    return Match({name: Curve(**curve) for name, curve in form["curves"].items()}, form["held_out"])


def _hybrid(form: dict[str, Any] | None) -> HybridScale | None:
    if not form:
        return None
    modality = {name: (mean, deviation) for name, (mean, deviation) in form["modality"].items()}
    return HybridScale(form["deviation"], modality, form["weight"])
