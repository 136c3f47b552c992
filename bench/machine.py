"""Measure the limits of this machine, and how long a function takes."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter, process_time

import numpy as np

from isthmus.types import Matrix


def seconds(run: Callable[[], object], times: int = 3) -> float:
    """Return the shortest of several runs: noise only adds time."""
    taken = []
    for _ in range(times):
        start = perf_counter()
        run()
        taken.append(perf_counter() - start)
    return min(taken)


def sgemm_rate(dim: int = 512, size: int = 8192) -> float:
    """Return the floating-point operations per second of a large float32 matrix product, on all cores."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((size, dim), dtype=np.float32) for _ in range(2))
    return 2 * size * size * dim / seconds(lambda: a @ b.T, 5)


def copy_rate(source: Matrix, target: Matrix) -> float:
    """Return the bytes per second (read and written) of copying one matrix into another, on all cores."""
    cores = os.cpu_count() or 1
    cuts = np.linspace(0, len(source), cores + 1).astype(int)

    def copy(i: int) -> None:
        target[cuts[i] : cuts[i + 1]] = source[cuts[i] : cuts[i + 1]]

    with ThreadPoolExecutor(cores) as pool:
        taken = seconds(lambda: list(pool.map(copy, range(cores))), 5)
    return 2 * source.nbytes / taken


def read(source: Matrix) -> None:
    """Read a matrix once, on all cores: each block's dot product with itself, the fastest read NumPy has."""
    flat, cores = source.reshape(-1), os.cpu_count() or 1
    starts = range(0, flat.size, 1 << 20)
    with ThreadPoolExecutor(cores) as pool:
        list(pool.map(lambda start: np.dot(flat[start : start + (1 << 20)], flat[start : start + (1 << 20)]), starts))


def share(limit: Callable[[], object], ours: Callable[[], object], times: int = 7) -> tuple[float, float]:
    """Return our share of the limit's speed, and our seconds; both alternate, because machines drift."""
    pairs = [(seconds(limit, 1), seconds(ours, 1)) for _ in range(times)]
    fastest = min(pair[1] for pair in pairs)
    return min(pair[0] for pair in pairs) / fastest, fastest


def work_share(limit: Callable[[], object], ours: Callable[[], object], times: int = 5) -> float:
    """Return the limit's processor time divided by ours, both on one thread: other programs hardly change it."""

    def taken(run: Callable[[], object]) -> float:
        start = process_time()
        run()
        return process_time() - start

    pairs = [(taken(limit), taken(ours)) for _ in range(times)]
    return min(pair[0] for pair in pairs) / min(pair[1] for pair in pairs)
