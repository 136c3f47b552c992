"""Biases, folding and exact search on a GPU: seconds, and the share of the device's own matrix rate.

    python bench/device.py [--device cuda] [--documents 1000000] [--references 100000 1000000] [--dim 512] [--k 16]
                           [--precision half full] [--sample 200]

The rate is that of one large product of the same precision on the same device. A share is 2 · documents · references ·
dim / seconds / rate, with the selection of the nearest in the seconds. Three rows for each precision and size:

    on the device   the vectors lie there, the result stays there: what the device can do
    bias            from arrays in memory to one number per document, copies in both directions included
    search          the k best documents of as many queries as there are references, from memory to memory

`error` is the largest difference from NumPy on a sample of the rows. A fold of all documents follows, in seconds: the
shift runs on the processor, the biases on the device.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from time import perf_counter

import numpy as np
import torch

from isthmus import calibration, index
from isthmus.calibration.bank import nearest_mean
from isthmus.calibration.largest import mean_of_largest
from isthmus.index import DeviceNeighbours
from isthmus.index.device import DeviceProducts
from isthmus.types import Matrix, Vectors

TYPES = {"full": torch.float32, "half": torch.float16}


def unit(n: int, dim: int, seed: int) -> Matrix:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, dim), dtype=np.float32) + rng.standard_normal(dim, dtype=np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows)


def seconds(work: Callable[[], object], device: str, times: int) -> float:
    """Return the shortest of several runs, each until the device is done."""
    taken = []
    for _ in range(times):
        start = perf_counter()
        work()
        if device != "cpu":
            torch.cuda.synchronize(device)
        taken.append(perf_counter() - start)
    return min(taken)


def matrix_rate(device: str, precision: str, dim: int) -> float:
    """Return the operations per second of a large product of this precision, with the dimension of the vectors."""
    size = 512 if device == "cpu" else 16_384
    a, b = (torch.randn(size, dim, device=device).to(TYPES[precision]) for _ in range(2))
    torch.set_float32_matmul_precision("highest")
    a @ b.T  # the first one chooses a kernel
    return 2 * size * size * dim / seconds(lambda: a @ b.T, device, 10)


def on_device(
    documents: Matrix, references: Matrix, precision: str, options: argparse.Namespace
) -> tuple[Matrix, float]:
    """Return the mean over each document's k nearest references, and its seconds; everything stays on the device."""
    products = DeviceProducts.on(options.device, precision)
    slab = products.copied(0, references)
    there = torch.from_numpy(documents).to(options.device)

    def means() -> torch.Tensor:
        blocks = torch.split(there, products.tile.rows)
        return torch.cat([products.block(block, slab, options.k)[0].mean(dim=1) for block in blocks])

    found = means().cpu().numpy()  # the first run loads and chooses kernels
    return np.asarray(found), seconds(means, options.device, options.times)


def measure(options: argparse.Namespace, documents: Matrix, references: Matrix, precision: str, rate: float) -> None:
    device, k = options.device, options.k
    sample = np.random.default_rng(0).integers(0, len(documents), options.sample)
    wanted = mean_of_largest(documents[sample] @ references.T, k)

    def row(name: str, taken: float, error: float) -> None:
        share = 2 * len(documents) * len(references) * options.dim / taken / rate
        print(f"{precision:<10}{len(references):>11,}  {name:<15}{taken:>9.2f}{share:>8.0%}{error:>11.1e}", flush=True)

    found, taken = on_device(documents, references, precision, options)
    row("on the device", taken, float(np.abs(found[sample] - wanted).max()))
    neighbours = DeviceNeighbours(device, precision)
    bias = nearest_mean(documents, references, k, neighbours)
    taken = seconds(lambda: nearest_mean(documents, references, k, neighbours), device, options.times)
    row("bias", taken, float(np.abs(bias[sample] - wanted).max()))
    shelf = index.build(documents, device=device, precision=precision)
    scores, _ = shelf.search(references[: options.sample], k)
    exact, _ = index.build(documents, "exact").search(references[: options.sample], k)
    taken = seconds(lambda: shelf.search(references, k), device, options.times)
    row("search", taken, float(np.abs(scores - exact).max()))


def fold(options: argparse.Namespace, documents: Matrix, references: Matrix) -> None:
    """Print the seconds of folding all documents, and how far the result is from the processor's."""
    half = len(documents) // 2
    of = Vectors.of(documents, ["text"] * half + ["image"] * (len(documents) - half))
    asked = Vectors.of(references, "text")
    few = Vectors.of(documents[-1000:], "image")
    for precision in options.precision:
        neighbours = DeviceNeighbours(options.device, precision)
        fitted = calibration.fit(f"center+nnn(k={options.k})", of, asked, neighbours=neighbours)
        taken = seconds(lambda: fitted.fold(of, neighbours=neighbours), options.device, options.times)  # noqa: B023
        error = np.abs(fitted.fold(few, neighbours=neighbours).vectors - fitted.fold(few).vectors).max()
        print(f"fold, {precision} precision, {len(references):,} references: {taken:.2f} s, error {error:.1e}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--references", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--k", type=int, default=16)
    parser.add_argument("--precision", nargs="+", choices=tuple(TYPES), default=["half", "full"])
    parser.add_argument("--sample", type=int, default=200, help="rows that are compared with NumPy")
    parser.add_argument("--times", type=int, default=3)
    options = parser.parse_args()
    name = "the processor" if options.device == "cpu" else torch.cuda.get_device_name(options.device)
    documents, references = unit(options.documents, options.dim, 0), unit(max(options.references), options.dim, 1)
    rates = {precision: matrix_rate(options.device, precision, options.dim) for precision in options.precision}
    print(
        f"{options.documents:,} documents, {options.dim} dimensions, k = {options.k}, on {name}, "
        f"torch {torch.__version__}"
    )
    print("matrix rate: " + ", ".join(f"{rate / 1e12:.3g} TFLOP/s in {one} precision" for one, rate in rates.items()))
    print(f"{'precision':<10}{'references':>11}  {'':<15}{'seconds':>9}{'share':>8}{'error':>11}")
    for precision in options.precision:
        for size in options.references:
            measure(options, documents, references[:size], precision, rates[precision])
    fold(options, documents, references[: min(options.references)])


if __name__ == "__main__":
    main()
