"""From reference queries with known answers to the lists that ``learned`` is fitted on, and back to coefficients."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from isthmus.calibration.bank import NeighbourSearch, best_by_modality, similarity_blocks
from isthmus.calibration.folding import bias_columns
from isthmus.calibration.learned import FEWEST, PRIOR_ALPHA, Coefficients, Lists
from isthmus.calibration.pairs import Pairs
from isthmus.calibration.passages import Passages, best_columns
from isthmus.calibration.standardize import NO_SPREAD
from isthmus.errors import CannotFit
from isthmus.types import Matrix, Rows

if TYPE_CHECKING:
    from isthmus.calibration.fitted import Fitted

NOBODY = Pairs.of(None, queries=0, documents=0)


def fit_learned(
    fitted: Fitted, documents: Passages, x: Matrix, known: Pairs, apart: Pairs, search: NeighbourSearch | None
) -> Fitted:
    """Return ``fitted`` with the coefficients of ``learned``, each query modality by itself.

    ``known`` are the answers to learn from; ``apart`` also the pairs that only must not meet. A query modality with too
    few known answers to learn from keeps the prior.
    """
    method = fitted.spec.learned
    references = fitted.references
    answered = {asked: int(np.isin(rows, known.queries).sum()) for asked, rows in references.rows.items()}
    if method is None or max(answered.values()) < FEWEST:
        got = ", ".join(f"{count} {asked}" for asked, count in answered.items())
        raise CannotFit(
            f"learned needs at least {FEWEST} reference queries of one modality with a known answer and got {got}. "
            "Pass positives= (query row, document); without known answers use 'nnn+standardize', which needs none."
        )
    table: dict[tuple[str, str], tuple[float, float, float]] = {}
    ones = np.ones(len(documents), dtype=np.float32)
    for asked in fitted.query_modalities:
        own = apart.of_queries(references.rows[asked])
        bank = references.vectors[asked]
        b = bias_columns(fitted, x, documents.starts, asked, ones, apart, search)[:, 0]
        best = best_by_modality(x, documents, bank, PRIOR_ALPHA * b, own)
        t_scale = _moments(best, common=0.05)
        b_scale = _moments([b[documents.modality_code == code] for code in range(len(documents.modalities))], 1.0)
        taught = known.of_queries(references.rows[asked]) if answered[asked] >= FEWEST else NOBODY
        lists = _lists(documents, x, bank, taught, b, t_scale, b_scale, method.candidates)
        for name, numbers, t, h in zip(documents.modalities, method.fit(lists), t_scale, b_scale, strict=True):
            table[asked, name] = _in_raw_units(numbers, t, h)
    return replace(fitted, coefficients=Coefficients(table))


def _in_raw_units(numbers: Matrix, t: Matrix, h: Matrix) -> tuple[float, float, float]:
    """Turn coefficients on (u, h) into those on (s, b)."""
    slope, weight, offset = numbers
    (t_mean, t_deviation), (b_mean, b_deviation) = t, h
    return (
        float(slope / t_deviation),
        float(slope / t_deviation * PRIOR_ALPHA + weight / b_deviation),
        float(offset - slope * t_mean / t_deviation + weight * b_mean / b_deviation),
    )


def _moments(samples: Iterable[Matrix], common: float) -> Matrix:
    """Return mean and deviation of each sample; a sample too small to tell its deviation takes the others'."""
    finite = [sample[np.isfinite(sample)] for sample in samples]
    mean = np.array([sample.mean() if len(sample) else 0.0 for sample in finite])
    deviation = np.array([sample.std() if len(sample) else 0.0 for sample in finite])
    told = deviation > NO_SPREAD
    fallback = float(deviation[told].mean()) if told.any() else common
    return np.stack([mean, np.where(told, deviation, fallback)], axis=1)


def _lists(
    documents: Passages,
    x: Matrix,
    bank: Matrix,
    known: Pairs,
    b: Matrix,
    t_scale: Matrix,
    b_scale: Matrix,
    candidates: int,
) -> Lists:
    """Build one list per pair: the right document, then the nearest documents of each modality."""
    code = documents.modality_code
    by_modality = [np.flatnonzero(code == m) for m in range(len(documents.modalities))]
    width = 1 + sum(min(candidates, len(rows)) for rows in by_modality)
    listed = np.empty((len(known), width), dtype=np.intp)
    similarity = np.empty((len(known), width))
    for rows, to_rows in similarity_blocks(bank[known.queries], x):
        all_similar = best_columns(to_rows, documents.starts)
        listed[rows] = _nearest(all_similar, known.documents[rows], by_modality, candidates)
        similarity[rows] = np.take_along_axis(all_similar, listed[rows], axis=1)
    counted = np.ones(listed.shape, dtype=bool)
    n = len(documents)
    answers = np.isin(known.queries[:, None] * n + listed, known.queries * n + known.documents)
    counted[:, 1:] = ~answers[:, 1:]  # neither the right document twice nor another right one as a wrong one
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
