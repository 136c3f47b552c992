"""``Models``: the encoders and rerankers that requests may name, each loaded once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import RLock

import numpy as np

from isthmus import encoders
from isthmus.calibration.none import Raw
from isthmus.documents import Document, Query
from isthmus.encoders import Encoder
from isthmus.encoders.abilities import CanMatch, PairMatcher
from isthmus.encoders.rerankers import load_reranker
from isthmus.registry import lookup
from isthmus.serve.settings import MODELS, ServeSettings
from isthmus.types import Matrix


@dataclass(slots=True, eq=False)
class Models:
    """Loads models by name. A name can be a path or a URL, so only those of the settings are loaded."""

    settings: ServeSettings
    _encoders: dict[str, Encoder] = field(default_factory=dict)
    _rerankers: dict[str, PairMatcher | None] = field(default_factory=dict)
    _lock: RLock = field(default_factory=RLock)

    @property
    def names(self) -> list[str]:
        """The names of the models."""
        return list(dict.fromkeys((*MODELS, *self.settings.models)))

    def encoder(self, name: str) -> Encoder:
        """Return an encoder."""
        lookup(dict.fromkeys(self.names), name, "model of this server")
        with self._lock:
            if name not in self._encoders:
                run = self.settings.runtime
                loaded = encoders.open_named(name, run.settings)
                self._encoders[name] = loaded
            return self._encoders[name]

    def relevance(self, name: str, query: Query, documents: Sequence[Document]) -> Matrix:
        """Return how well documents answer a query, ``(n,)``, from 0 to 1 unless the model is a cross-encoder.

        A cross-encoder scores as it was trained to; a matcher's logits become probabilities; an encoder without a
        matcher gives the cosine, as (1 + cos) / 2.
        """
        lookup(dict.fromkeys(self.names), name, "model of this server")
        with self._lock:
            if name not in self._rerankers:
                self._rerankers[name] = load_reranker(name, self.settings.runtime.settings)
            reranker = self._rerankers[name]
        if reranker is not None:
            return np.nan_to_num(reranker.scores(query, documents), nan=0.0)
        encoder = self.encoder(name)
        if isinstance(encoder, CanMatch) and query.text:
            logits = np.asarray(encoder.matcher().scores(query, documents), dtype=np.float64)
            return np.nan_to_num(1 / (1 + np.exp(-np.clip(logits, -60, 60))), nan=0.0)
        asked = Raw().queries(encoder.encode_queries([query]), np.float32)[0]
        cosine = Raw().documents(encoder.encode_documents(documents), np.float32) @ asked
        return np.asarray((1 + cosine) / 2)
