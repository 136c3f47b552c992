"""A fitted calibration as bytes, or as one file: tensors in safetensors, everything else as JSON in its header."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isthmus.atomic import replacing
from isthmus.calibration._sealed import sealed, unsealed
from isthmus.calibration.bank import ReferenceBank
from isthmus.calibration.bias import Coefficients, Terms
from isthmus.calibration.blend import Choice
from isthmus.calibration.fitted import Fitted
from isthmus.calibration.live import Statistics
from isthmus.calibration.spec import Spec
from isthmus.calibration.standardize import Scale
from isthmus.calibration.tune import Trial, Tuned
from isthmus.types import Matrix


def save(fitted: Fitted, path: str | PathLike[str]) -> None:
    """Write a calibration atomically: a reader sees the old file or the new one."""
    with replacing(path) as draft:
        draft.write_bytes(to_bytes(fitted))


def load(path: str | PathLike[str]) -> Fitted:
    """Read a calibration that ``Fitted.save`` wrote."""
    return from_bytes(Path(path).read_bytes(), str(path))


def to_bytes(fitted: Fitted) -> bytes:
    """Write a calibration as bytes, for a store."""
    header = {
        "spec": fitted.spec.in_full,
        "dim": fitted.dim,
        "query_modalities": list(fitted.query_modalities),
        "document_modalities": list(fitted.document_modalities),
        "counts": fitted.statistics.counts,
        "weights": dict(fitted.shift.weights),
        "scale": _listed(fitted.scale.statistics) if fitted.scale else None,
        "coefficients": _terms(fitted.coefficients) if fitted.coefficients else None,
        "balance": dict(fitted.balance),
        "note": fitted.note,
        "given_means": fitted.given_means,
        "choices": [asdict(choice) for choice in fitted.choices],
        "tuned": [[str(t.spec), t.value, dict(t.by_modality), t.refused] for t in fitted.tuned.trials]
        if fitted.tuned
        else None,
    }
    return sealed("calibration", header, _tensors(fitted))


def from_bytes(data: bytes, name: str = "the calibration") -> Fitted:
    """Read what ``to_bytes`` wrote; damaged bytes raise an error that mentions ``name``."""
    header, tensors = unsealed("calibration", data, name)
    groups: defaultdict[str, dict[str, Matrix]] = defaultdict(dict)
    for place, tensor in tensors.items():
        group, _, key = place.partition("/")
        groups[group][key] = tensor
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
        statistics=Statistics.restore(header["counts"], tensors),
        shift=spec.shift.restore(groups["shift"], header["weights"]),
        references=ReferenceBank(groups["references"], {k: v.astype(np.intp) for k, v in groups["rows"].items()}),
        gallery=groups["gallery"].get("documents"),
        scale=Scale(_table(header["scale"])) if header["scale"] else None,
        thresholds=thresholds,
        coefficients=_coefficients(header["coefficients"], groups["means"]) if header["coefficients"] else None,
        balance=header["balance"],
        note=header["note"],
        given_means=header.get("given_means", False),
        choices=tuple(Choice(**choice) for choice in header.get("choices", ())),
        tuned=Tuned(tuple(Trial(Spec.parse(text), *rest) for text, *rest in header["tuned"]))
        if header["tuned"]
        else None,
    )


def _tensors(fitted: Fitted) -> dict[str, NDArray[Any]]:
    tensors: dict[str, NDArray[Any]] = {**fitted.statistics.tensors()}
    tensors |= {f"shift/{name}": tensor for name, tensor in fitted.shift.tensors().items()}
    if fitted.spec.correction is not None:
        tensors |= {f"references/{name}": bank for name, bank in fitted.references.vectors.items()}
    tensors |= {f"rows/{name}": rows for name, rows in fitted.references.rows.items()}
    if fitted.coefficients is not None:
        tensors |= {f"means/{name}": mean for name, mean in fitted.coefficients.means.items()}
    if fitted.gallery is not None:
        tensors["gallery/documents"] = fitted.gallery
    for modality, sets in fitted.thresholds.items():
        tensors |= {f"thresholds/{place}/{modality}": values for place, values in enumerate(sets)}
    return tensors


def _terms(coefficients: Coefficients) -> list[list[Any]]:
    """Return a row per pair of modalities; None for a bound that is infinite, which JSON cannot hold."""
    finite = {
        pair: [number if np.isfinite(number) else None for number in terms]
        for pair, terms in coefficients.table.items()
    }
    return _listed(finite)


def _coefficients(rows: list[list[Any]], means: dict[str, Matrix]) -> Coefficients:
    """Undo ``_terms``; isthmus 0.1 wrote three numbers for a pair."""
    table: dict[tuple[str, str], Terms] = {}
    for pair, numbers in _table(rows).items():
        terms = Terms(*numbers)
        lowest = -np.inf if terms.lowest is None else terms.lowest
        highest = np.inf if terms.highest is None else terms.highest
        table[pair] = terms._replace(lowest=lowest, highest=highest)
    return Coefficients(table, means)


def _listed(table: Any) -> list[list[Any]]:
    return [[query, document, *numbers] for (query, document), numbers in table.items()]


def _table(rows: list[list[Any]]) -> dict[tuple[str, str], Any]:
    return {(query, document): tuple(numbers) for query, document, *numbers in rows}
