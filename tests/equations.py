"""The papers' equations written out with loops over plain numbers: slow, independent, checkable by eye."""

from __future__ import annotations

from collections.abc import Callable
from math import exp, log, sqrt

import numpy as np

from isthmus.types import Matrix, Rows, Vectors

Similarity = Callable[[Matrix, Matrix], float]


def unit(v: Matrix) -> Matrix:
    return np.asarray(v, dtype=np.float64) / sqrt(sum(float(x) ** 2 for x in v))


def parts_of(vectors: Vectors, row: int) -> dict[str, Matrix]:
    return {p: unit(vectors.parts[p][row]) for p in vectors.parts if vectors.present[p][row]}


def weight(vectors: Vectors, part: str, row: int) -> float:
    return 1.0 if vectors.weights is None else float(vectors.weights[part][row])


def raw(vectors: Vectors) -> list[Matrix]:
    """x = unit(Σ_p w_p e_p)."""
    return [
        unit(sum(weight(vectors, p, row) * e for p, e in parts_of(vectors, row).items()))  # type: ignore[arg-type]
        for row in range(len(vectors))
    ]


def part_means(vectors: Vectors) -> dict[str, Matrix]:
    """mean_p over every row that has part p."""
    means = {}
    for part in vectors.parts:
        have = [parts_of(vectors, row)[part] for row in range(len(vectors)) if vectors.present[part][row]]
        if have:
            means[part] = np.asarray(sum(have) / len(have))
    return means


def centred(vectors: Vectors, fitted_on: Vectors) -> list[Matrix]:
    """x = unit(Σ_p w_p (e_p − mean_p))."""
    return shifted(vectors, part_means(fitted_on))


def shifted(vectors: Vectors, means: dict[str, Matrix]) -> list[Matrix]:
    """x = unit(Σ_p w_p (e_p − mean_p)), with these means."""
    return [
        unit(sum(weight(vectors, p, row) * (e - means[p]) for p, e in parts_of(vectors, row).items()))  # type: ignore[arg-type]
        for row in range(len(vectors))
    ]


def passage_means(vectors: Vectors, owner: Rows) -> dict[str, Matrix]:
    """mean_p over documents of the mean over each document's passages with part p."""
    means = {}
    for part in vectors.parts:
        of_documents = []
        for d in sorted(set(owner.tolist())):
            have = [
                parts_of(vectors, row)[part]
                for row in range(len(owner))
                if owner[row] == d and vectors.present[part][row]
            ]
            if have:
                of_documents.append(sum(have) / len(have))
        if of_documents:
            means[part] = np.asarray(sum(of_documents) / len(of_documents))
    return means


def dn_of_passages(vectors: Vectors, owner: Rows, lam: float) -> list[Matrix]:
    """x − λ · the mean over the modality's documents of the mean of x over the document's passages."""
    x = raw(vectors)
    of_modality: dict[str, list[Matrix]] = {}
    for d in sorted(set(owner.tolist())):
        rows = [row for row in range(len(owner)) if owner[row] == d]
        of_modality.setdefault(str(vectors.modality[rows[0]]), []).append(sum(x[row] for row in rows) / len(rows))  # type: ignore[arg-type]
    means = {modality: sum(alike) / len(alike) for modality, alike in of_modality.items()}
    return [x[row] - lam * means[str(vectors.modality[row])] for row in range(len(owner))]


def distribution_normalized(vectors: Vectors, fitted_on: Vectors, lam: float) -> list[Matrix]:
    """x − λ · the mean of x over the modality."""
    seen = list(zip(raw(fitted_on), fitted_on.modality, strict=True))
    out = []
    for x, modality in zip(raw(vectors), vectors.modality, strict=True):
        alike = [y for y, other in seen if other == modality]
        out.append(x - lam * sum(alike) / len(alike))
    return out


def dot(a: Matrix, b: Matrix) -> float:
    return sum(float(x) * float(y) for x, y in zip(a, b, strict=True))


def mean_and_deviation(values: list[float]) -> tuple[float, float]:
    mean = sum(values) / len(values)
    return mean, sqrt(sum((v - mean) ** 2 for v in values) / len(values))  # population


def nearest_mean(similarities: list[float], k: int) -> float:
    return sum(sorted(similarities, reverse=True)[:k]) / k


def inverted_softmax(s: float, similarities: list[float], beta: float) -> float:
    return exp(beta * s) / sum(exp(beta * t) for t in similarities)


def log_inverted_softmax(s: float, similarities: list[float], beta: float) -> float:
    """The same in similarity units: log IS / β, less the constant −log(n)/β."""
    return (log(inverted_softmax(s, similarities, beta)) + log(len(similarities))) / beta


def log_dual_inverted_softmax(
    s: float, gallery: list[float], queries: list[float], beta_gallery: float, beta_query: float
) -> float:
    product = inverted_softmax(s, gallery, beta_gallery) * inverted_softmax(s, queries, beta_query)
    constant = log(len(gallery)) + log(len(queries))
    return (log(product) + constant) / (beta_gallery + beta_query)
