"""Many realistic vectors, made from a few thousand real ones.

    row = unit( w·a + (1 − w)·b + noise )        a, b: two real rows, b drawn among a's nearest half;  w in [½, 1]

Mixtures of two real rows stay in the encoder's cloud, with its cone, its clusters and its hubs. The noise has the
covariance of the real rows (a random mix of their deviations from the mean) and a fifth of their spread, so it stays
in the same few directions. Random Gaussian vectors have none of these properties, and every index looks bad on them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from isthmus import calibration
from isthmus.calibration.rows import unit
from isthmus.types import Matrix, Vectors

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

    bank_queries = [Query(text=text) for text in queries()[:3000]]
    rows = np.asarray(encoders.load("mini").encode_queries(bank_queries).parts["text"], dtype=np.float32)
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


class Folds:
    """Real-like documents and queries, raw and folded by one calibration; documents are in a memory-mapped file."""

    def __init__(self, file: Path | None, folder: Path) -> None:
        self.seeds, self.folder = seeds(file), folder
        rng = np.random.default_rng(1)
        sample = Vectors.concat([Vectors.of(many(rows, 3_000, rng), name) for name, rows in self.seeds.items()])
        references = Vectors.of(many(self.seeds["text"], 2_000, rng), "text")
        self.fitted = calibration.fit("center+standardize+nnn(k=16)", sample, references)

    def raw(self, n: int, modality: str) -> Matrix:
        """Return ``n`` vectors like an encoder's."""
        return many(self.seeds[modality], n, np.random.default_rng(["image", "text"].index(modality)))

    def folded(self, raw: Matrix, modality: str) -> Matrix:
        """Return folded vectors."""
        return np.ascontiguousarray(self.fitted.fold(Vectors.of(raw, modality)).vectors, dtype=np.float32)

    def documents(self, n: int) -> Matrix:
        """Return ``n`` folded images, mapped from a file that is written once, block by block."""
        file = self.folder / f"{n}.npy"
        if not file.exists():
            width = self.fitted.dim + len(self.fitted.query_modalities)
            made = np.lib.format.open_memmap(file, "w+", np.float32, (n, width))
            rng = np.random.default_rng(0)
            for start in range(0, n, 20_000):
                raw = many(self.seeds["image"], min(20_000, n - start), rng)
                made[start : start + 20_000] = self.folded(raw, "image")
            made.flush()
        return np.asarray(np.load(file, mmap_mode="r"))

    def raw_queries(self, n: int) -> Matrix:
        """Return text queries like an encoder's."""
        return many(self.seeds["text"], n, np.random.default_rng(2))

    def queries(self, n: int) -> Matrix:
        """Return the same queries folded."""
        return self.fitted.fold_queries(Vectors.of(self.raw_queries(n), "text")).vectors
