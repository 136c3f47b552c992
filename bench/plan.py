"""Measure the constants of `isthmus plan`: bytes of a store, and rates of storing, folding and building indexes.

    python bench/plan.py [--rows 20000] [--dim 512] [--write]

It builds small collections of vectors and of texts and takes the difference between two sizes, so that what a store
always takes does not count. `--write` puts the values into src/isthmus/plan/measured.json, with this machine and the
date. Run it with the machine to itself.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter

import numpy as np
from machine import seconds

from isthmus import Collection, Document, calibration
from isthmus.calibration.bank import over_bank
from isthmus.calibration.largest import mean_of_largest
from isthmus.index import build
from isthmus.plan.constants import FILE
from isthmus.types import Matrix, Vectors

WORDS = ["sofa", "harbour", "copper", "winter", "letter", "garden", "signal", "violin", "market", "shadow", "engine"]


def unit(n: int, dim: int, seed: int = 0) -> Matrix:
    rows = np.random.default_rng(seed).standard_normal((n, dim), dtype=np.float32)
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def stored(folder: Path, vectors: Matrix, *, parts: tuple[str, ...] = ("text",), text: int = 0) -> tuple[int, float]:
    """Store documents, and return the bytes of the database and the seconds it took."""
    rng = np.random.default_rng(1)

    def document(number: int) -> Document:
        words = " ".join([str(number), *rng.choice(WORDS, text // 5 + 1)])[:text] if text else None
        return Document(f"d{number}", words, vectors=dict.fromkeys(parts, vectors[number]))

    documents = [document(number) for number in range(len(vectors))]
    with Collection.open(folder, "none", follow=False) as things:
        start = perf_counter()
        things.add(documents)
        taken = perf_counter() - start
        things.compact()
    return sum(file.stat().st_size for file in folder.iterdir() if file.is_file()), taken


def measure(rows: int, dim: int) -> dict[str, float]:
    vectors = unit(rows, dim)
    with tempfile.TemporaryDirectory() as scratch:
        half, whole = (stored(Path(scratch, f"{n}"), vectors[:n]) for n in (rows // 2, rows))
        double = stored(Path(scratch, "double"), vectors, parts=("image", "text"))
        short = stored(Path(scratch, "short"), vectors, text=200)
        long = stored(Path(scratch, "long"), vectors, text=1200)
    each = (whole[0] - half[0]) / (rows - rows // 2)  # of a document with one vector
    row = (double[0] - whole[0]) / rows
    text = (long[0] - short[0]) / rows / 1000
    documents, bank = Vectors.of(vectors, "text"), unit(2000, dim, 1)
    centred = calibration.fit("center", documents, Vectors.of(bank, "text"))
    products = seconds(lambda: over_bank(vectors, bank, lambda similarity, _: mean_of_largest(similarity, 16)))
    return {
        "store_row_bytes": row - 4 * dim,
        "store_document_bytes": each - row + (short[0] - whole[0]) / rows - 200 * text,
        "store_bytes_per_text_byte": text,
        "stored_rows_per_second": rows / whole[1],
        "fold_bytes_per_second": 4 * rows * dim / seconds(lambda: centred.fold(documents)),
        "matrix_operations_per_second": 2 * rows * len(bank) * dim / products,
        "ivf_rows_per_second": rows / seconds(lambda: build(vectors, "ivf-sq8"), 1),
        "hnsw_rows_per_second": rows / seconds(lambda: build(vectors, "hnsw"), 1),
    }


def record(name: str, command: str, values: dict[str, float], machine: str | None = None) -> str:
    """Return a measurement of an engine as JSON, and put it into the package's file if ``command`` says ``--write``."""
    found = {
        "command": command,
        "machine": machine or f"{os.cpu_count()} cores, {platform.machine()}",
        "cores": os.cpu_count(),
        "date": datetime.now(UTC).date().isoformat(),
        "values": {name: float(f"{value:.4g}") for name, value in values.items()},
    }
    if "--write" in command:
        held = json.loads(FILE.read_text(encoding="utf-8"))
        FILE.write_text(json.dumps(held | {name: found}, indent=2) + "\n", encoding="utf-8")
    return json.dumps(found, indent=2)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--machine", help="in words")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    run = f"python bench/plan.py --rows {options.rows} --dim {options.dim}{' --write' * options.write}"
    print(record("folder", run, measure(options.rows, options.dim), options.machine))
