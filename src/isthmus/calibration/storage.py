"""A fitted calibration as one file: tensors in safetensors, everything else as JSON in its header. Never pickle."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isthmus.calibration.bank import References
from isthmus.calibration.fitted import Fitted
from isthmus.calibration.learned import Coefficients
from isthmus.calibration.live import Moments, Statistics
from isthmus.calibration.spec import Spec
from isthmus.calibration.standardize import Scale
from isthmus.calibration.tune import Trial, Tuned
from isthmus.errors import BadFile
from isthmus.types import Matrix

FORMAT = "isthmus-calibration"
VERSION = 1


def save(fitted: Fitted, path: str | PathLike[str]) -> None:
    """Write beside the target, then move over it: a reader sees the old file or the new one, never a half."""
    from safetensors.numpy import save as to_bytes

    header = {
        "version": VERSION,
        "spec": fitted.spec.in_full,
        "dim": fitted.dim,
        "query_modalities": list(fitted.query_modalities),
        "document_modalities": list(fitted.document_modalities),
        "counts": {part: moments.count for part, moments in fitted.statistics.parts.items()},
        "weights": dict(fitted.shift.weights),
        "scale": _listed(fitted.scale.statistics) if fitted.scale else None,
        "coefficients": _listed(fitted.coefficients.table) if fitted.coefficients else None,
        "balance": dict(fitted.balance),
        "note": fitted.note,
        "tuned": [[str(t.spec), t.value, dict(t.by_modality), t.refused] for t in fitted.tuned.trials]
        if fitted.tuned
        else None,
    }
    data = to_bytes(_tensors(fitted), metadata={FORMAT: json.dumps(header)})
    target = Path(path)
    draft = target.with_name(f"{target.name}.{os.getpid()}.tmp")
    try:
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def load(path: str | PathLike[str]) -> Fitted:
    """Read a calibration that ``Fitted.save`` wrote."""
    header, tensors = _read(Path(path))
    groups: defaultdict[str, dict[str, Matrix]] = defaultdict(dict)
    for name, tensor in tensors.items():
        group, _, key = name.partition("/")
        groups[group][key] = tensor
    statistics = Statistics({p: Moments(n, groups["mean"][p], groups["m2"][p]) for p, n in header["counts"].items()})
    spec = Spec.parse(header["spec"])
    thresholds: dict[str, tuple[Matrix, ...]] = {}
    for key in sorted(groups["thresholds"]):
        modality = key.partition("/")[2]
        thresholds[modality] = (*thresholds.get(modality, ()), groups["thresholds"][key])
    return Fitted(
        spec=spec,
        dim=header["dim"],
        query_modalities=tuple(header["query_modalities"]),
        document_modalities=tuple(header["document_modalities"]),
        statistics=statistics,
        shift=spec.shift.restore(groups["shift"], header["weights"]),
        references=References(groups["references"], {k: v.astype(np.intp) for k, v in groups["rows"].items()}),
        gallery=groups["gallery"].get("documents"),
        scale=Scale(_table(header["scale"])) if header["scale"] else None,
        thresholds=thresholds,
        coefficients=Coefficients(_table(header["coefficients"])) if header["coefficients"] else None,
        balance=header["balance"],
        note=header["note"],
        tuned=Tuned(tuple(Trial(Spec.parse(text), *rest) for text, *rest in header["tuned"]))
        if header["tuned"]
        else None,
    )


def _tensors(fitted: Fitted) -> dict[str, NDArray[Any]]:
    parts = fitted.statistics.parts.items()
    tensors: dict[str, NDArray[Any]] = {f"mean/{part}": moments.mean for part, moments in parts}
    tensors |= {f"m2/{part}": moments.m2 for part, moments in parts}
    tensors |= {f"shift/{name}": tensor for name, tensor in fitted.shift.tensors().items()}
    if fitted.spec.bias is not None or fitted.spec.learned is not None:
        tensors |= {f"references/{name}": bank for name, bank in fitted.references.vectors.items()}
    tensors |= {f"rows/{name}": rows for name, rows in fitted.references.rows.items()}
    if fitted.gallery is not None:
        tensors["gallery/documents"] = fitted.gallery
    for modality, sets in fitted.thresholds.items():
        tensors |= {f"thresholds/{place}/{modality}": values for place, values in enumerate(sets)}
    return {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}


def _listed(table: Any) -> list[list[Any]]:
    return [[asked, found, *numbers] for (asked, found), numbers in table.items()]


def _table(rows: list[list[Any]]) -> dict[tuple[str, str], Any]:
    return {(asked, found): tuple(numbers) for asked, found, *numbers in rows}


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Matrix]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            written = (file.metadata() or {}).get(FORMAT)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    except SafetensorError as error:
        raise BadFile(f"{path} is damaged or is not a calibration ({error}). Fit and save it again.") from None
    if written is None:
        raise BadFile(f"{path} holds tensors but no isthmus calibration.")
    header: dict[str, Any] = json.loads(written)
    if header["version"] != VERSION:
        raise BadFile(
            f"{path} was written in version {header['version']} of the format and this isthmus reads {VERSION}. "
            "Use the isthmus that wrote it, or fit again."
        )
    return header, tensors
