"""Align a query: turn its pictures into words, and remove words that do not matter.

    Query ──caption──▸ question ‖ image description ──rewrite──▸ the query that is searched

    aligner = align.load("forge-mini", encoder=encoder)
    aligner.align([Query(text="what does this mean", image="shot.png")])      [Aligned(query=Query(text="…"), …)]

Three stages: a ``Captioner`` reads pictures, a ``Rewriter`` writes the query, a ``Retriever`` finds documents.
Reference: BRIDGE (arXiv 2604.07201), whose stages are called caption, FORGE and LENS.
"""

from isthmus.align.aligner import Stages, load
from isthmus.align.base import Aligned, Aligner, Captioner, Counts, Retriever, Rewriter, Rewritten, joined

__all__ = [
    "Aligned",
    "Aligner",
    "Captioner",
    "Counts",
    "Retriever",
    "Rewriter",
    "Rewritten",
    "Stages",
    "joined",
    "load",
]
