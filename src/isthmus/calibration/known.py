"""Build the lists that ``learned`` is fitted on from reference queries with known answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from isthmus.calibration.bank import BlockedBank, NeighbourSearch, ReferenceBank, similarity_blocks
from isthmus.calibration.listwise import FEWEST, Lists
from isthmus.calibration.pairs import Pairs
from isthmus.calibration.passages import Passages, best_columns
from isthmus.calibration.standardize import NO_SPREAD
from isthmus.types import Matrix, Rows

PRIOR_ALPHA = 0.75  # α₀: the share of the bias that nnn's paper subtracts
NO_PAIRS = Pairs.of(None, queries=0, documents=0)


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """The input of a joint method.

    ``known`` are the answers to learn from; ``apart`` also includes pairs that the bias must ignore.
    """

    documents: Passages
    x: Matrix  # the documents' rows after the shift
    references: ReferenceBank
    known: Pairs
    apart: Pairs
    search: NeighbourSearch | None = None

    @property
    def counts(self) -> dict[str, int]:
        """The number of reference queries of each modality with a known answer."""
        return {name: int(np.isin(rows, self.known.queries).sum()) for name, rows in self.references.rows.items()}

    def bank(self, modality: str) -> BlockedBank:
        """Return the documents against the reference queries of one modality."""
        own = self.references.own(modality, self.apart)
        return BlockedBank(self.x, self.references.vectors[modality], own, self.documents.starts, search=self.search)

    def taught(self, modality: str) -> Pairs:
        """Return the answers of one query modality; empty if they are too few to learn from."""
        return self.known.of_queries(self.references.rows[modality]) if self.counts[modality] >= FEWEST else NO_PAIRS


def moments(samples: Iterable[Matrix], common: float) -> Matrix:
    """Return mean and deviation of each sample; a sample without spread takes the mean deviation of the others."""
    finite = [sample[np.isfinite(sample)] for sample in samples]
    mean = np.array([sample.mean() if len(sample) else 0.0 for sample in finite])
    deviation = np.array([sample.std() if len(sample) else 0.0 for sample in finite])
    known = deviation > NO_SPREAD
    fallback = float(deviation[known].mean()) if known.any() else common
    return np.stack([mean, np.where(known, deviation, fallback)], axis=1)


def lists_of(
    answers: Answers, query_modality: str, b: Matrix, t_scale: Matrix, b_scale: Matrix, candidates: int
) -> Lists:
    """Build one list per answer: the right document, then the nearest documents of each modality."""
    documents, known, bank = (
        answers.documents,
        answers.taught(query_modality),
        answers.references.vectors[query_modality],
    )
    code = documents.modality_code
    by_modality = [np.flatnonzero(code == m) for m in range(len(documents.modalities))]
    width = 1 + sum(min(candidates, len(rows)) for rows in by_modality)
    listed = np.empty((len(known), width), dtype=np.intp)
    similarity = np.empty((len(known), width))
    for rows, to_rows in similarity_blocks(bank[known.queries], answers.x):
        all_similar = best_columns(to_rows, documents.starts)
        listed[rows] = _nearest(all_similar, known.documents[rows], by_modality, candidates)
        similarity[rows] = np.take_along_axis(all_similar, listed[rows], axis=1)
    counted = np.ones(listed.shape, dtype=bool)
    n = len(documents)
    right = np.isin(known.queries[:, None] * n + listed, known.queries * n + known.documents)
    counted[:, 1:] = ~right[:, 1:]  # exclude duplicates of the right document, and other right documents
    modality = code[listed]
    t_mean, t_deviation = t_scale[modality].transpose(2, 0, 1)
    b_mean, b_deviation = b_scale[modality].transpose(2, 0, 1)
    u = (similarity - PRIOR_ALPHA * b[listed] - t_mean) / t_deviation
    return Lists(u, (b[listed] - b_mean) / b_deviation, modality, counted, len(documents.modalities))


def _nearest(similarity: Matrix, right: Rows, by_modality: list[Rows], candidates: int) -> Rows:
    """Return the right document and the ``candidates`` nearest of each modality, ``(n, width)``."""
    columns = [right[:, None]]
    for rows in by_modality:
        of_modality = similarity[:, rows]
        keep = min(candidates, len(rows))
        nearest = np.argpartition(of_modality, len(rows) - keep, axis=1)[:, len(rows) - keep :]
        columns.append(rows[nearest])
    return np.concatenate(columns, axis=1)
