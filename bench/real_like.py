"""Many vectors that look like real ones, made from a few thousand real ones.

    row = unit( w·a + (1 − w)·b + noise )        a, b: two real rows, b drawn among a's nearest half;  w in [½, 1]

Blends of two real rows stay on the cloud that the encoder made, with its cone, its clusters and its hubs. The noise
has the covariance of the real rows (a random mix of their deviations from the mean) and a fifth of their spread, so
that it lives in the same few directions. Random Gaussian vectors have none of this, and every index looks bad on them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from isthmus.calibration.rows import unit
from isthmus.types import Matrix

NOISE = 0.2


def seeds(file: Path | None) -> dict[str, Matrix]:
    """Return real vectors by modality: arrays named ``…_img`` and ``…_txt`` of an npz, or those of ``mini``."""
    if file is not None:
        held = {name: rows for name, rows in np.load(file).items() if rows.ndim == 2}

        def real(end: str) -> Matrix:
            return unit(np.concatenate([rows for name, rows in held.items() if name.endswith(end)]).astype(np.float32))

        return {"image": real("_img"), "text": real("_txt")}
    from isthmus import encoders
    from isthmus.documents import Query
    from isthmus.encoders.bank import queries

    asked = [Query(text=text) for text in queries()[:3000]]
    rows = np.asarray(encoders.load("mini").encode_queries(asked).parts["text"], dtype=np.float32)
    return {"image": unit(rows[: len(rows) // 2]), "text": unit(rows[len(rows) // 2 :])}


def many(real: Matrix, n: int, rng: np.random.Generator, out: Matrix | None = None) -> Matrix:
    """Return ``n`` rows like the real ones, made in blocks."""
    made = np.empty((n, real.shape[1]), dtype=np.float32) if out is None else out
    near = np.argsort(-(real @ real.T), axis=1)[:, : len(real) // 2]
    deviation = real - real.mean(axis=0)
    for start in range(0, n, 20_000):
        size = min(20_000, n - start)
        a = rng.integers(0, len(real), size)
        b = near[a, rng.integers(0, near.shape[1], size)]
        w = rng.uniform(0.5, 1, (size, 1)).astype(np.float32)
        mix = rng.standard_normal((size, len(real)), dtype=np.float32) * np.float32(NOISE / np.sqrt(len(real)))
        made[start : start + size] = unit(w * real[a] + (1 - w) * real[b] + mix @ deviation)
    return made
