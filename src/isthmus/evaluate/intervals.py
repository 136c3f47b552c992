"""Bootstrap intervals of means, and significance tests for the difference of two runs.

    interval    draw n queries with replacement and take the mean, many times; the middle 95% of these means
    paired      the same queries under two runs: the mean difference, its interval, and two p-values

Every draw takes a generator; the same seed gives the same result.

>>> interval([0.0, 1.0, 1.0, 1.0] * 25)
Interval(value=0.75, low=0.66, high=0.83)
>>> result = paired({"p": 1.0, "q": 0.5, "r": 0.75}, {"p": 0.5, "q": 0.25, "r": 0.5})
>>> round(result.difference, 3), result.p, round(result.p_t, 3)
(0.333, 0.25, 0.057)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from isthmus.errors import BadInput
from isthmus.types import Matrix

Rng: TypeAlias = np.random.Generator | int

RESAMPLES = 2000
FLIPS = 10_000
BLOCK = 1 << 22  # numbers drawn at a time
TIE = 1e-12  # two sums of the same numbers in another order may differ by this much


class Interval(NamedTuple):
    """A mean and its confidence interval."""

    value: float
    low: float
    high: float


class Paired(NamedTuple):
    """How much better the first of two runs is, query by query."""

    difference: float
    low: float
    high: float
    p: float  # two-sided, by randomisation
    p_t: float  # two-sided, by the paired t-test
    queries: int


def interval(
    values: Mapping[str, float] | Sequence[float] | Matrix,
    *,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    rng: Rng = 0,
) -> Interval:
    """Return the mean and its percentile bootstrap interval (Efron 1979; Sakai, SIGIR 2006, for measures)."""
    numbers = _numbers(values)
    means = _resampled(numbers, resamples, np.random.default_rng(rng))
    return Interval(float(numbers.mean()), *_middle(means, level))


def macro(
    values: Mapping[str, float],
    groups: Mapping[str, str],
    *,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    rng: Rng = 0,
) -> Interval:
    """Return the mean of the groups' means, with equal weight for each group, and its interval.

    Queries are resampled within each group: the groups (for example the domains of MM-BRIGHT) are fixed, not a sample.

    >>> macro({"p": 1.0, "q": 1.0, "r": 0.0}, {"p": "physics", "q": "physics", "r": "chess"}).value
    0.5
    """
    lost = [query for query in values if query not in groups]
    if lost:
        raise BadInput(f"{len(lost)} queries have no group; the first is {lost[0]!r}.")
    members: dict[str, list[float]] = {}
    for query, value in values.items():
        members.setdefault(groups[query], []).append(value)
    if not members:
        raise BadInput("There are no values to average.")
    generator = np.random.default_rng(rng)
    numbers = [_numbers(members[name]) for name in sorted(members)]
    means = np.mean([_resampled(group, resamples, generator) for group in numbers], axis=0)
    return Interval(float(np.mean([group.mean() for group in numbers])), *_middle(means, level))


def paired(
    first: Mapping[str, float],
    second: Mapping[str, float],
    *,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    flips: int = FLIPS,
    rng: Rng = 0,
) -> Paired:
    """Compare the values of the same queries under two runs.

    ``p`` is Fisher's randomisation test: if the runs were equally good, the sign of each difference would be random. It
    is exact if all signs can be tried (2ⁿ ≤ ``flips``), and uses random draws otherwise.
    ``p_t`` is Student's paired test. Reference: Smucker, Allan & Carterette (CIKM 2007).
    """
    if first.keys() != second.keys():
        only = sorted(first.keys() ^ second.keys())
        raise BadInput(
            f"Two runs are compared on the same queries; {len(only)} are in only one of them, such as {only[0]!r}."
        )
    differences = _numbers([first[query] - second[query] for query in first])
    generator = np.random.default_rng(rng)
    low, high = _middle(_resampled(differences, resamples, generator), level)
    p = randomisation(differences, flips=flips, rng=generator)
    return Paired(float(differences.mean()), low, high, p, t_test(differences), len(differences))


def randomisation(differences: Sequence[float] | Matrix, *, flips: int = FLIPS, rng: Rng = 0) -> float:
    """Return how often random signs give a sum at least as far from 0, two-sided.

    >>> randomisation([1.0, 1.0, 1.0])       # of 8 combinations only +++ and −−− are as far
    0.25
    """
    numbers = _numbers(differences)
    observed = abs(float(numbers.sum())) - TIE * float(np.abs(numbers).sum())
    n = len(numbers)
    if n < 63 and 2**n <= flips:
        signs = 1 - 2 * (np.arange(2**n)[:, None] >> np.arange(n) & 1)  # (2ⁿ, n)
        return float((np.abs(signs @ numbers) >= observed).mean())
    generator = np.random.default_rng(rng)

    def far(draws: int) -> Matrix:
        return np.abs((1.0 - 2.0 * generator.integers(0, 2, size=(draws, n), dtype=np.int8)) @ numbers)

    as_far = int((_in_blocks(far, flips, n) >= observed).sum())
    return (as_far + 1) / (flips + 1)  # the observed signs are one combination, so p is never 0


def t_test(differences: Sequence[float] | Matrix) -> float:
    """Return Student's two-sided p-value that the mean difference is 0; 1 if at most one query differs."""
    from scipy.special import stdtr  # late: `import isthmus` stays light

    numbers = _numbers(differences)
    n = len(numbers)
    if n < 2 or not numbers.any():
        return 1.0
    error = float(numbers.std(ddof=1) / np.sqrt(n))
    if error <= TIE * float(np.abs(numbers).max()):
        return 0.0
    return float(2 * stdtr(n - 1, -abs(float(numbers.mean())) / error))


def _numbers(values: Mapping[str, float] | Iterable[float] | Matrix) -> Matrix:
    numbers = np.asarray(list(values.values() if isinstance(values, Mapping) else values), dtype=np.float64)
    if not len(numbers):
        raise BadInput("There are no values to average.")
    if not np.isfinite(numbers).all():
        raise BadInput(f"Value {int(np.argmin(np.isfinite(numbers)))} is not a finite number.")
    return numbers


def _resampled(values: Matrix, resamples: int, rng: np.random.Generator) -> Matrix:
    """Return the means of samples drawn with replacement, ``(resamples,)``."""
    n = len(values)
    return _in_blocks(lambda draws: values[rng.integers(0, n, size=(draws, n))].mean(axis=1), resamples, n)


def _in_blocks(draw: Callable[[int], Matrix], draws: int, n: int) -> Matrix:
    if draws < 1:
        raise BadInput(f"At least 1 draw is needed, not {draws}.")
    step = max(1, BLOCK // n)
    return np.concatenate([draw(min(step, draws - done)) for done in range(0, draws, step)])


def _middle(means: Matrix, level: float) -> tuple[float, float]:
    if not 0 < level < 1:
        raise BadInput(f"The level of an interval must be between 0 and 1, such as 0.95, not {level}.")
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
