"""``Models``: the encoders and rerankers that requests may name, each loaded once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock

import numpy as np

from isthmus.calibration.none import Raw
from isthmus.documents import Document, Query
from isthmus.encoders import Encoder
from isthmus.encoders.abilities import CanMatch, PairMatcher
from isthmus.encoders.clip_source import find_clip
from isthmus.encoders.folder import describe
from isthmus.encoders.locations import EMBEDDED
from isthmus.encoders.runtime import Runtime
from isthmus.errors import IsthmusError
from isthmus.registry import lookup
from isthmus.serve.settings import MODELS, ServeSettings
from isthmus.types import Matrix


@dataclass(slots=True, eq=False)
class Models:
    """Loads models by name. A name can be a path or a URL, so only those of the settings are loaded."""

    settings: ServeSettings
    runtime: Runtime
    _matchers: dict[int, PairMatcher] = field(default_factory=dict)  # by their encoders, which stay loaded
    _lock: RLock = field(default_factory=RLock)

    @property
    def names(self) -> list[str]:
        """The names of the models."""
        return list(dict.fromkeys((*MODELS, *self.settings.models)))

    @property
    def installed(self) -> list[str]:
        """The names of the models that can be loaded: ``base`` needs CLIP's image tower, which comes separately."""
        return [name for name in self.names if name not in EMBEDDED or _is_complete(EMBEDDED[name])]

    def encoder(self, name: str) -> Encoder:
        """Return an encoder."""
        lookup(dict.fromkeys(self.names), name, "model of this server")
        return self.runtime.encoder(name)

    def relevance(self, name: str, query: Query, documents: Sequence[Document]) -> Matrix:
        """Return how well documents answer a query, ``(n,)``, from 0 to 1 unless the model is a cross-encoder.

        A cross-encoder scores as it was trained to; a matcher's logits become probabilities; an encoder without a
        matcher gives the cosine, as (1 + cos) / 2.
        """
        lookup(dict.fromkeys(self.names), name, "model of this server")
        reranker = self.runtime.reranker(name)
        if reranker is not None:
            return np.nan_to_num(reranker.scores(query, documents), nan=0.0)
        encoder = self.encoder(name)
        if isinstance(encoder, CanMatch) and query.text:
            logits = np.asarray(self._matcher(encoder).scores(query, documents), dtype=np.float64)
            return np.nan_to_num(1 / (1 + np.exp(-np.clip(logits, -60, 60))), nan=0.0)
        asked = Raw().queries(encoder.encode_queries([query]), np.float32)[0]
        cosine = Raw().documents(encoder.encode_documents(documents), np.float32) @ asked
        return np.asarray((1 + cosine) / 2)

    def _matcher(self, encoder: CanMatch) -> PairMatcher:
        with self._lock:
            if id(encoder) not in self._matchers:
                self._matchers[id(encoder)] = encoder.matcher()
            return self._matchers[id(encoder)]


def _is_complete(folder: Path) -> bool:
    """Whether an encoder of the package has all its files."""
    try:
        if describe(folder).clip is not None:
            find_clip()
    except IsthmusError:
        return False
    return True
