"""The speed of folding a million vectors, relative to copying them.

    python bench/fold.py [--rows 1000000]

There are two baselines, because a fold creates a new matrix: a copy into existing memory (all cores), and ``x.copy()``.
"""

from __future__ import annotations

import argparse

import numpy as np
from machine import copy_rate, seconds

from isthmus import calibration
from isthmus.calibration.rows import unit
from isthmus.types import Vectors

DIM = 512
SPECS = ("none", "dn", "center")


def main(rows: int) -> None:
    rng = np.random.default_rng(0)
    x = np.empty((rows, DIM), dtype=np.float32)
    for start in range(0, rows, 50_000):
        block = rng.standard_normal((min(50_000, rows - start), DIM), dtype=np.float32) + 1
        x[start : start + 50_000] = unit(block)
    target = np.zeros_like(x)
    queries = Vectors.of(x[:1000], "text")
    rate = copy_rate(x, target)
    copied = seconds(lambda: x.copy())
    print(f"folding {rows:,} × {DIM} float32; copying into existing memory: {rate / 1e9:.0f} GB/s")
    print(f"{'':<10}{'vectors':<12}{'GB/s':>7}{'of a copy':>11}{'new matrix, of x.copy()':>25}")
    for scale, name in ((1.0, "unit"), (3.0, "any length")):
        if scale != 1:
            x *= np.float32(scale)
        documents = Vectors.of(x, "image")
        for spec in SPECS:
            fitted = calibration.fit(spec, documents.take(slice(0, 20_000)), queries)
            taken = seconds(lambda: fitted.shift.documents(documents, np.float32, target))  # noqa: B023 - called at once
            new = seconds(lambda: fitted.fold(documents))  # noqa: B023 - called at once
            here = 2 * x.nbytes / taken
            print(f"{spec:<10}{name:<12}{here / 1e9:>7.1f}{here / rate:>11.0%}{copied / new:>25.0%}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    main(parser.parse_args().rows)
