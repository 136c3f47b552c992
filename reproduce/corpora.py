"""Two mixed corpora, CLIP's of ``clip_f8k.py`` and mini's of ``mini_mix.py``, and the data for fitting calibrations."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import flickr8k
import numpy as np
from clip_f8k import F8k
from mini_mix import references

from isthmus import calibration
from isthmus.calibration import Fitted
from isthmus.encoders.base import Encoder
from isthmus.types import Mask, Matrix, Names, Rows, Vectors


@dataclass(frozen=True)
class Mixed:
    """Documents, queries and which are right; reference queries, the documents they go with, and the pairs of these."""

    name: str
    documents: Vectors
    queries: Vectors
    relevant: Mask
    seen: Vectors
    asked: Vectors
    pairs: Rows  # (reference query, document seen)
    gallery: Vectors  # documents that are not searched, for dbnorm

    @property
    def kind(self) -> Names:
        """The modality of each document."""
        return self.documents.modality

    def fit(self, spec: str, *, labelled: bool = False, hidden: bool = True) -> Fitted:
        """Fit a calibration; a reference query's own source is ignored, or their pair is passed as known."""
        positives, sources = self.pairs if labelled else None, self.pairs if hidden else None
        return calibration.fit(
            spec, self.seen, self.asked, positives=positives, sources=sources, reference_documents=self.gallery
        )

    def scores(self, fitted: Fitted) -> Matrix:
        """Return the scores of all documents for all queries."""
        met_again = self.seen is self.documents and fitted.spec.bias is not None  # only biases use the references
        sources = self.pairs if met_again else None
        return fitted.scores(self.queries, self.documents, sources=sources)


def clip(data: Path) -> Mixed:
    """Return 100 photos and 100 captions with CLIP's vectors; every query has a right photo and a right text."""
    f8k = F8k(data)
    pairs = np.array(f8k.sources)
    return Mixed("CLIP", f8k.documents, f8k.queries, f8k.relevant, f8k.documents, f8k.references, pairs, f8k.gallery)


def mini(encoder: Encoder, data: Path) -> Mixed:
    """Return 999 texts, photos and both with ``mini``'s vectors; every query has one right document."""
    documents, queries, right = flickr8k.mix(encoder, data)
    relevant = np.zeros((len(queries), len(documents)), dtype=bool)
    relevant[right[:, 0], right[:, 1]] = True
    seen, asked, sources = references(flickr8k.split(encoder, data / "flickr8k", "dev"))
    pairs = np.column_stack([np.arange(len(sources)), sources])
    return Mixed("mini", documents, queries, relevant, seen, asked, pairs, seen)
