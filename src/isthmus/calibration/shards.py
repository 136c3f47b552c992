"""Fit a calibration on documents in shards: each is read alone, what it says is merged.

In words: the numbers that a fit takes from documents can be computed shard by shard, in any order, on any machine:

    means          moments of each part          merged as ``live.Moments`` are
    standardize    each reference's best value   the largest of the shards'
    nnn, qbnorm    nothing                       a fold computes the biases, document by document

so shards never have to be in one memory. ``mapped`` runs the work: ``map`` here, or one that sends it to other machines
(``isthmus.bulk``). The result is that of ``fit`` on all documents together, up to the rounding of a sum.

>>> rng = np.random.default_rng(0)
>>> rows, queries = rng.normal(size=(60, 8)), Vectors.of(rng.normal(size=(30, 8)), "text")
>>> shards = [partial(Vectors.of, rows[start : start + 20], "text") for start in (0, 20, 40)]
>>> fitted = fit_shards("center+nnn(k=4)+standardize", shards, queries)
>>> documents = Vectors.of(rows, "text")
>>> from isthmus.calibration.auto import fit
>>> whole = fit("center+nnn(k=4)+standardize", documents, queries)
>>> bool(np.allclose(fitted.scores(queries, documents), whole.scores(queries, documents), atol=1e-6))
True
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from isthmus.calibration.bank import ReferenceBank
from isthmus.calibration.center import Center
from isthmus.calibration.fitted import Fitted, must_be_vectors
from isthmus.calibration.fitting import StepValues
from isthmus.calibration.live import Statistics
from isthmus.calibration.none import NoShift
from isthmus.calibration.passages import Passages
from isthmus.calibration.shift import Shift
from isthmus.calibration.spec import Spec
from isthmus.errors import BadSpec, BadVectors, CannotFit
from isthmus.types import Matrix, Vectors

Shard: TypeAlias = Callable[[], Vectors]  # reads the documents of a shard
Best: TypeAlias = dict[tuple[str, str], Matrix]  # by query and document modality: each reference's best value


class Mapped(Protocol):
    """Calls a function with each item, anywhere, and returns the results in order, as ``map`` does."""

    def __call__(self, work: Callable[[Shard], Any], items: Iterable[Shard], /) -> Iterable[Any]:
        """Return the results in the order of the items."""


class Summary(NamedTuple):
    """What the first pass takes from a shard."""

    statistics: Statistics
    modalities: frozenset[str]
    dim: int

    def merge(self, other: Summary) -> Summary:
        """Return what it takes from both."""
        if self.dim != other.dim:
            raise BadVectors(f"Shards have {self.dim} and {other.dim} dimensions. Encode them with the same encoder.")
        return Summary(self.statistics.merge(other.statistics), self.modalities | other.modalities, self.dim)


def fit_shards(spec: str | Spec, shards: Sequence[Shard], queries: Vectors, *, mapped: Mapped = map) -> Fitted:
    """Fit a spec of ``none`` or ``center``, ``nnn`` or ``qbnorm``, and ``standardize`` on all shards together."""
    spec = _checked(Spec.parse(spec))
    must_be_vectors(queries, "query")
    if not shards or not len(queries):
        raise CannotFit("A fit needs at least one shard of documents and one reference query.")
    seen = reduce(Summary.merge, mapped(_summary, shards))
    if queries.dim != seen.dim:
        raise BadVectors(f"query vectors have {queries.dim} dimensions but the shards have {seen.dim}.")
    shift = _shift(spec, seen.statistics, queries)
    fitted = Fitted(
        spec=spec,
        dim=seen.dim,
        query_modalities=queries.modalities,
        document_modalities=tuple(sorted(seen.modalities)),
        statistics=seen.statistics,
        shift=shift,
        references=ReferenceBank.of(shift.queries(queries, np.float32), queries),
    )
    if spec.bias is not None:
        for bank in fitted.references.vectors.values():
            spec.bias.check(len(bank))
    if spec.scale is None:
        return fitted
    best = reduce(_larger, mapped(partial(_best, fitted=fitted), shards))
    return replace(fitted, scale=spec.scale.fit(best))


def _checked(spec: Spec) -> Spec:
    needs_all = spec.learned is not None or spec.dynamic or spec.per_query is not None
    if needs_all or not isinstance(spec.shift, Center | NoShift):
        raise BadSpec(f"'{spec}' cannot be fitted in shards: use none or center, with nnn, qbnorm and standardize.")
    if spec.bias is not None and spec.bias.needs_gallery:
        raise BadSpec(f"'{spec}' needs a gallery bank, which a fit in shards does not take. Use 'qbnorm'.")
    return spec


def _shift(spec: Spec, seen: Statistics, queries: Vectors) -> Shift:
    if isinstance(spec.shift, Center):
        return spec.shift.from_statistics(seen, Statistics.of(queries))
    return spec.shift.restore({}, {})


def _summary(shard: Shard) -> Summary:
    documents = shard()
    must_be_vectors(documents, "document")
    return Summary(Statistics.of(documents), frozenset(documents.modalities), documents.dim)


def _best(shard: Shard, fitted: Fitted) -> Best:
    """Return each reference's best value among the documents of a shard, minus the bias if that comes first."""
    documents = shard()
    x = fitted.shift.documents(documents, np.float32)
    values = StepValues(fitted, Passages.of(documents), x, None, None)
    return {
        (modality, name): best
        for modality in fitted.query_modalities
        for name, best in zip(documents.modalities, values.best(modality), strict=True)
    }


def _larger(one: Best, other: Best) -> Best:
    both = {pair: np.maximum(best, other[pair]) for pair, best in one.items() if pair in other}
    return {**one, **other, **both}
