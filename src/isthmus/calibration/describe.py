"""A fitted calibration in words and numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from isthmus.calibration.fitted import Fitted


def describe(fitted: Fitted) -> str:
    """Return a few lines: the spec, what it was fitted on, and every number that acts on scores."""
    counts = ", ".join(f"{len(rows)} {name}" for name, rows in fitted.references.rows.items())
    lines = [f"calibration  {fitted.spec}", *(f"chosen       {choice}" for choice in fitted.choices)]
    lines += [f"dimensions   {fitted.dim}", f"references   {counts} queries"]
    lines += [
        f"mean         {name:<22} length {np.linalg.norm(mean):.3f}"
        for name, mean in sorted(fitted.shift.tensors().items())
    ]
    if fitted.shift.weights:
        lines.append("fusion       " + ", ".join(f"{part} {w:g}" for part, w in fitted.shift.weights.items()))
    if fitted.scale:
        lines += [
            f"scale        {' → '.join(pair):<24} μ {mean:+.4f}  σ {deviation:.4f}"
            for pair, (mean, deviation) in fitted.scale.statistics.items()
        ]
    if fitted.coefficients:
        lines += [
            f"{fitted.spec.steps[-1].name:<12} {' → '.join(pair):<24} slope {terms.slope:.2f}  "
            f"bias weight {terms.weight:.2f}  offset {terms.offset:+.2f}"
            for pair, terms in fitted.coefficients.table.items()
        ]
    if fitted.gallery is not None:
        lines.append(f"gallery      {len(fitted.gallery)} reference documents")
    if fitted.balance:
        lines.append("balance      " + ", ".join(f"{name} {value:+g}" for name, value in fitted.balance.items()))
    if fitted.spec.correction is not None:
        used = [(name, fitted.spec.correction.describe(len(rows))) for name, rows in fitted.references.rows.items()]
        lines += [f"{line} {name} queries" for name, line in used if line]
    if fitted.note:
        lines.append(f"note         {fitted.note}")
    if fitted.tuned is not None:
        lines += ["", fitted.tuned.table(fitted.spec)]
    return "\n".join(lines)
