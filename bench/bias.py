"""The time to compute the bias of every document: exhaustively, by index, and by nnn-retrieval, in one run.

    python bench/bias.py [--size 25000] [--curve] [--picture FILE]

The vectors are synthetic: topics in clusters, projected to 512 dimensions with noise and varying amounts of a common
direction, which creates hubs. Times are the shortest of a few runs; read the ratios, not the seconds.
"""

from __future__ import annotations

import argparse
import contextlib
import io
from pathlib import Path

import numpy as np
from machine import seconds, sgemm_rate

from isthmus.calibration.bank import nearest_mean, over_bank
from isthmus.calibration.largest import mean_of_largest
from isthmus.calibration.rows import unit
from isthmus.index import FaissNeighbours
from isthmus.types import Matrix

DIM, K, ALPHA = 512, 128, 0.75
SIZES = (1_000, 2_500, 5_000, 10_000, 25_000, 50_000)
PROBES = (4, 16, 64)


def made(size: int) -> tuple[Matrix, Matrix, Matrix]:
    """Return documents, reference queries and 2,000 queries, the i-th of them about the i-th document."""
    rng = np.random.default_rng(0)
    view = rng.standard_normal((64, DIM), dtype=np.float32)
    centres = rng.standard_normal((200, 64), dtype=np.float32)
    common = 12 * rng.standard_normal(DIM, dtype=np.float32)

    def seen(topics: Matrix, noise: float) -> Matrix:
        rows = topics @ view + common * rng.uniform(0.5, 1.5, (len(topics), 1)).astype(np.float32)
        return unit(rows + noise * rng.standard_normal(rows.shape, dtype=np.float32))

    def topics(n: int) -> Matrix:
        return centres[rng.integers(0, 200, n)] + rng.standard_normal((n, 64), dtype=np.float32)

    about = topics(size)
    return seen(about, 20.0), seen(topics(size), 15.0), seen(about[: min(2_000, size)], 15.0)


def recall_at_1(documents: Matrix, queries: Matrix, bias: Matrix | float) -> float:
    return float(((queries @ documents.T - ALPHA * bias).argmax(axis=1) == np.arange(len(queries))).mean())


def exhaustive(documents: Matrix, bank: Matrix) -> Matrix:
    return over_bank(documents, bank, lambda similarity, _: mean_of_largest(similarity, K))


def by_index(documents: Matrix, bank: Matrix, probes: int) -> Matrix:
    return nearest_mean(documents, bank, K, FaissNeighbours(probes=probes))  # builds the index, too


def nnn_retrieval(documents: Matrix, bank: Matrix) -> Matrix:
    import torch
    from nnn import NNNRetriever

    retriever = NNNRetriever(DIM)
    with contextlib.redirect_stderr(io.StringIO()):
        means = retriever.compute_alignment_means(torch.from_numpy(documents), torch.from_numpy(bank), K, 256)
    return np.asarray(means).reshape(-1)


def compare(size: int) -> None:
    documents, bank, queries = made(size)
    work = 2 * size * size * DIM
    limit = sgemm_rate()
    ours = exhaustive(documents, bank)
    rows = [("exhaustive", ours, seconds(lambda: exhaustive(documents, bank), 2))]
    rows += [
        (f"index, {p} probes", by_index(documents, bank, p), seconds(lambda p=p: by_index(documents, bank, p), 1))  # type: ignore[misc]
        for p in PROBES
    ]
    rows.append(("nnn-retrieval", nnn_retrieval(documents, bank), seconds(lambda: nnn_retrieval(documents, bank), 1)))
    print(f"bias of {size:,} documents over {size:,} reference queries, {DIM} dimensions, k = {K}")
    print(
        f"sgemm on this machine: {limit / 1e9:.0f} GFLOP/s; R@1 without a bias "
        f"{recall_at_1(documents, queries, 0.0):.3f}"
    )
    print(f"{'':<18}{'seconds':>9}{'of sgemm':>10}{'× faster than nnn-retrieval':>29}{'R@1':>7}{'largest error':>15}")
    for name, bias, taken in rows:
        error = float(np.abs(bias - ours).max())
        share = f"{work / taken / limit:.0%}" if "index" not in name else ""
        value = recall_at_1(documents, queries, bias)
        print(f"{name:<18}{taken:>9.2f}{share:>10}{rows[-1][2] / taken:>29.1f}{value:>7.3f}{error:>15.1e}")


def curve(picture: Path | None) -> None:
    """Print and draw from which size the index is faster, and the R@1 it loses."""
    print(f"\n{'size':>7}{'exhaustive s':>14}" + "".join(f"{f'{p} probes: gain, R@1 lost':>27}" for p in PROBES))
    lines = []
    for size in SIZES:
        documents, bank, queries = made(size)
        exact = exhaustive(documents, bank)
        base = seconds(lambda: exhaustive(documents, bank), 2)  # noqa: B023 - called at once
        cells = []
        for probes in PROBES:
            found = by_index(documents, bank, probes)
            taken = seconds(lambda: by_index(documents, bank, probes), 1)  # noqa: B023 - called at once
            lost = recall_at_1(documents, queries, exact) - recall_at_1(documents, queries, found)
            cells.append((base / taken, lost))
        lines.append(cells)
        print(f"{size:>7,}{base:>14.2f}" + "".join(f"{gain:>17.2f}×{lost:>9.4f}" for gain, lost in cells), flush=True)
    if picture is not None:
        draw(np.array(lines), picture)


def draw(lines: Matrix, picture: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for i, probes in enumerate(PROBES):
        left.plot(SIZES, lines[:, i, 0], marker="o", label=f"{probes} probes")
        right.plot(SIZES, lines[:, i, 1], marker="o", label=f"{probes} probes")
    left.axhline(1, color="grey", linewidth=1)
    left.set(xscale="log", yscale="log", xlabel="documents = references", title="times faster than exhaustive")
    right.set(xscale="log", xlabel="documents = references", title="R@1 lost against exhaustive")
    right.axhline(0, color="grey", linewidth=1)
    left.legend(frameon=False)
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, dpi=110)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", type=int, default=25_000, help="documents and reference queries")
    parser.add_argument("--curve", action="store_true", help="also measure from which size the index is faster")
    parser.add_argument("--picture", type=Path, help="draw the curve into this file")
    options = parser.parse_args()
    compare(options.size)
    if options.curve or options.picture:
        curve(options.picture)
