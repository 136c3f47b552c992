"""Small test data: documents and queries of every modality, in cones of their own, seeded."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isthmus.types import Matrix, Rows, Vectors

DIM = 8
SPECS = [
    "none",
    "center",
    "dn(lam=0.5)",
    "standardize",
    "nnn(k=3)",
    "qbnorm(beta=7.0)",
    "dbnorm(beta_gallery=5.0,beta_query=9.0)",
    "dbnorm(beta_gallery=0,beta_query=9.0)",
    "dbnorm(beta_gallery=5.0,beta_query=0)",
    "center+standardize",
    "center+nnn(k=3,alpha=0.5)",
    "center+qbnorm(beta=7.0)",
    "center+dbnorm",
    "dn+nnn(k=2)",
    "standardize+nnn(k=3)",
    "standardize+qbnorm(beta=2.0)",
    "standardize+dbnorm(beta_gallery=1.0,beta_query=2.0)",
    "nnn(k=3)+standardize",
    "qbnorm(beta=7.0)+standardize",
    "dbnorm(beta_gallery=3.0,beta_query=7.0)+standardize",
    "center+standardize+nnn(k=3,alpha=1.25)",
    "center+nnn(k=3)+standardize",
    "learned(k=3)",
    "center+learned(k=3,l2=1.0)",
    "dn(lam=1.0)+learned(k=2)",
    "blend(k=3)",
    "blend(k=3,strength=0.4,lower=0.5,upper=0.5)",
    "center+blend(k=2,strength=0.7)",
]
DYNAMIC_SPECS = [
    "qbnorm(beta=7.0,dynamic=true)",
    "center+qbnorm(dynamic=true)",
    "standardize+qbnorm(beta=2.0,dynamic=true)",
    "dbnorm(dynamic=true)",
    "standardize+dbnorm(beta_gallery=1.0,beta_query=2.0,dynamic=true)",
]


@dataclass(frozen=True)
class World:
    documents: Vectors
    queries: Vectors  # reference queries
    asked: Vectors  # queries never seen by a fit
    unseen: Vectors  # documents never seen by a fit
    gallery: Vectors
    positives: Rows


def rows(rng: np.random.Generator, n: int, *, cones: Matrix, weights: bool = False) -> Vectors:
    """Make n rows of random modalities: text and image each in a cone of their own, at any scale."""
    has = rng.integers(1, 4, size=n)  # 1 text, 2 image, 3 both
    has[:12] = np.tile([1, 2, 3], 4)[:n]  # a few of each
    topic = rng.normal(size=(n, DIM))
    parts = {
        part: (topic + 0.5 * rng.normal(size=(n, DIM)) + 3 * cones[i]) * rng.uniform(0.1, 10, size=(n, 1))
        for i, part in enumerate(("text", "image"))
    }
    present = {"text": (has & 1) > 0, "image": (has & 2) > 0}
    for part, matrix in parts.items():
        matrix[~present[part]] = np.nan  # absent rows may hold anything
    return Vectors(parts, present, {p: rng.uniform(0.1, 2, size=n) for p in parts} if weights else None)


def world(seed: int = 0, *, documents: int = 30, queries: int = 24, weights: bool = False) -> World:
    rng = np.random.default_rng(seed)
    cones = rng.normal(size=(2, DIM))
    cones /= np.linalg.norm(cones, axis=1, keepdims=True)
    query_cones = cones + 0.3 * rng.normal(size=(2, DIM))
    return World(
        documents=rows(rng, documents, cones=cones, weights=weights),
        queries=rows(rng, queries, cones=query_cones, weights=weights),
        asked=rows(rng, 11, cones=query_cones, weights=weights),
        unseen=rows(rng, 13, cones=cones, weights=weights),
        gallery=rows(rng, 9, cones=cones),
        positives=rng.integers(0, documents, size=queries),
    )


def one_modality(seed: int = 0, *, documents: int = 25, queries: int = 20) -> tuple[Matrix, Matrix, Matrix]:
    """Return plain document, reference and query matrices of one modality each."""
    rng = np.random.default_rng(seed)
    centre = rng.normal(size=DIM)
    return (
        rng.normal(size=(documents, DIM)) + centre,
        rng.normal(size=(queries, DIM)) + centre,
        rng.normal(size=(7, DIM)) + centre,
    )
