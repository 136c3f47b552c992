"""Align the query: what is in its pictures becomes words, and what does not matter goes.

    Query ──caption──▸ question ‖ image description ──rewrite──▸ the query that is searched

Three stages: a `Captioner` reads pictures, a `Rewriter` says what is asked for, a `Retriever` finds it.
Reference: BRIDGE, whose stages are called caption, FORGE and LENS.
"""

from isthmus.align.base import Aligned, Aligner, Captioner, Retriever, Rewriter, Rewritten, joined

__all__ = ["Aligned", "Aligner", "Captioner", "Retriever", "Rewriter", "Rewritten", "joined"]
