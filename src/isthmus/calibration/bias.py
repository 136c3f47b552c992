"""A bias: numbers per document, in similarity units, of which every query subtracts a share.

One protocol, so that a new bias is a file of its own and a line in ``methods.py``:

    columns        (documents, columns)    what a fold appends to a document's vector
    coefficients   (queries, columns)      what a query subtracts of each column
    corrected      (queries, documents)    the same on dense scores: values − coefficients · columns

A scale may come first. So a bias moves with its banks: similarities a·s + c give columns a·b + c. ``Bank.reduce``
passes the slope by which the scale multiplies similarities, for a bias with a temperature.

>>> from isthmus.calibration import METHODS, Method, Spec, StepKind
>>> @dataclass(frozen=True, slots=True, kw_only=True)
... class Median(BiasMethod):
...     '''Subtract each document's median similarity to the reference queries.'''
...     def columns(self, banks: Banks) -> Matrix:
...         def median(similarity: Matrix, slope: Matrix | float) -> Matrix:
...             return np.nanmedian(np.where(np.isneginf(similarity), np.nan, similarity), axis=1)
...         return banks.references.reduce(median)[:, None]
>>> METHODS["median"] = Method(StepKind.BIAS, Median)
>>> Spec.parse("center+median").bias
Median()
>>> del METHODS["median"]
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

import numpy as np

from isthmus.errors import UnknownModality
from isthmus.types import Mask, Matrix

if TYPE_CHECKING:
    from isthmus.calibration.known import Answers

Reduction: TypeAlias = Callable[[Matrix, Matrix | float], Matrix]


class Bank(Protocol):
    """The similarities of documents to the members of one bank."""

    def __len__(self) -> int:
        """Return how many members the bank has."""

    def reduce(self, reduction: Reduction) -> Matrix:
        """Reduce each document's similarities to one number, ``(documents,)``.

        ``reduction(similarity, slope)`` gets some documents, ``(n, members)``, and the slope of the scale that came
        before, a number or one per document. A similarity of −inf does not count.
        """

    def mean_of_largest(self, k: int) -> Matrix:
        """Return each document's mean similarity to its ``k`` nearest members, ``(documents,)``."""


class Banks(NamedTuple):
    """The input of a bias: the reference queries of one modality and, if needed, the gallery."""

    references: Bank
    gallery: Bank | None = None


class BiasMethod(Protocol):
    """The settings of a bias. A setting called ``alpha`` is a factor of the coefficients, never of the columns."""

    __slots__ = ()

    @property
    def needs_gallery(self) -> bool:
        """Whether ``columns`` needs a gallery bank."""
        return False

    @property
    def sets(self) -> int:
        """How many activation sets switch the bias on per query: one per bank, or 0 for a bias that is always on."""
        return 0

    def check(self, references: int) -> None:  # noqa: ARG002 - every bias may be checked, few need it
        """Reject settings that need more reference queries of one modality."""
        return

    def describe(self, references: int) -> str:  # noqa: ARG002 - as above
        """Describe how many of the reference queries are used; may be empty."""
        return ""

    @abstractmethod
    def columns(self, banks: Banks) -> Matrix:
        """Return the bias of each document, ``(documents, columns)``."""

    def coefficients(self, active: Mask) -> Matrix:
        """Return what each query subtracts of each column, from its ``(n, sets)`` active sets, ``(n, columns)``."""
        return np.ones((len(active), 1))

    def corrected(self, values: Matrix, banks: Banks, active: Mask) -> Matrix:
        """Return dense scores with the bias subtracted, ``(n_queries, n_documents)``."""
        return np.asarray(values - self.coefficients(active) @ self.columns(banks).T)


class JointMethod(BiasMethod, Protocol):
    """The settings of a scale and a bias in one step: one column, with a weight per pair of modalities."""

    __slots__ = ()

    @property
    def needs_answers(self) -> bool:
        """Whether it learns from queries with known answers."""
        return True

    @abstractmethod
    def learn(self, answers: Answers) -> Coefficients:
        """Fit the terms of each pair of modalities."""


class Terms(NamedTuple):
    """A score of one pair of modalities: slope · (s − nearness · q·mean) − weight · b + offset, b within bounds."""

    slope: float
    weight: float
    offset: float
    nearness: float = 0.0
    lowest: float = -np.inf
    highest: float = np.inf


@dataclass(frozen=True, slots=True, eq=False)
class Coefficients:
    """The fitted form of a joint method: terms by pair of modalities, and the mean vector of each modality if used."""

    table: Mapping[tuple[str, str], Terms]
    means: Mapping[str, Matrix] = field(default_factory=dict)

    def of(self, query_modality: str, document_modality: str) -> Terms:
        """Return the terms of a pair of modalities."""
        try:
            return self.table[query_modality, document_modality]
        except KeyError:
            raise UnknownModality(
                f"no {document_modality} documents were fitted for {query_modality} queries. Fit again with both."
            ) from None

    def nearness(self, query_modality: str, queries: Matrix) -> Matrix:
        """Return what shifted queries subtract from documents of each modality in ``means``, ``(n, modalities)``."""
        columns = [
            self.of(query_modality, name).nearness * np.vecdot(queries, mean) for name, mean in self.means.items()
        ]
        return np.stack(columns, axis=1) if columns else np.zeros((len(queries), 0), dtype=queries.dtype)
