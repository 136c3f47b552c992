"""Rerankers by name: ``st:NAME_OR_PATH``, a cross-encoder of sentence-transformers, and ``http:cohere:MODEL[@URL]``.

They read the words of a query and of a document. A long document is scored by its best passage; one without text
cannot be scored (NaN).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from isthmus._optional import need
from isthmus.devices import torch_device
from isthmus.documents import Document, Query
from isthmus.encoders.abilities import PairMatcher
from isthmus.encoders.base import Settings
from isthmus.encoders.byte_splitter import byte_splitter
from isthmus.encoders.http import HttpModel
from isthmus.encoders.http_usage import HttpUsage
from isthmus.encoders.items import readable
from isthmus.encoders.st import EXTRA, splitter
from isthmus.encoders.texts import Splitter, Strings
from isthmus.encoders.torch_models import BatchLimit, from_hub, torch_threads
from isthmus.errors import BadInput
from isthmus.types import Matrix

AT_ONCE = 1000  # documents in one request
SERVICE_TOKENS = 4096  # of a document, beyond which services cut
SERVICES = ("cohere", "jina")  # formats with the same request for reranking


def load_reranker(name: str, settings: Settings) -> PairMatcher | None:
    """Load a reranker; None if the name is not one of a reranker, such as that of an encoder with a matcher."""
    kind, _, rest = name.partition(":")
    return RERANKERS[kind](rest, settings) if kind in RERANKERS and rest else None


@dataclass(frozen=True, slots=True, eq=False)
class PassageReranker:
    """Scores documents by their best passage."""

    pairs: Callable[[str, Sequence[str]], Matrix]  # (query, passages) → (n,)
    passages: Callable[[str, str], Sequence[str]]  # (query, text)

    def scores(self, query: Query, documents: Sequence[Document]) -> Matrix:
        """Return a score for each document, ``(n,)``; NaN for one without text."""
        scores = np.full(len(documents), np.nan)
        asked = readable(query.text or "")
        texts = [self.passages(asked, readable(document.text or "")) for document in documents]
        together = [passage for several in texts for passage in several]
        if together:
            owner = np.repeat(np.arange(len(texts)), [len(several) for several in texts])
            np.fmax.at(scores, owner, self.pairs(asked, together))
        return scores


@dataclass(frozen=True, slots=True, eq=False)
class ServiceReranker(PassageReranker):
    """A reranker behind a service, with the count of what it used."""

    usage: HttpUsage


def _cross_encoder(name: str, settings: Settings) -> PassageReranker:
    st = need("sentence_transformers", extra=EXTRA)
    device = torch_device(settings.device, EXTRA)
    model = from_hub(name, partial(st.CrossEncoder, device=device), "sentence-transformers")
    made_for = model.config.architectures or []
    if any(each.endswith("Model") for each in made_for):  # its head would be random
        raise BadInput(f"{name} is a {made_for[0]}, an encoder without a head for pairs. Name a cross-encoder.")
    model.eval()
    limit, own = BatchLimit(settings.batch_size), splitter(model, name)

    def predict(query: str, passages: Sequence[str]) -> Matrix:
        with torch_threads(settings.threads):
            found = model.predict(
                [(query, passage) for passage in passages], batch_size=len(passages), show_progress_bar=False
            )
        if np.ndim(found) != 1:
            raise BadInput(f"{name} gives {np.shape(found)[1]} numbers for a pair, not one score. Name a reranker.")
        return np.asarray(found, dtype=np.float32)

    def pairs(query: str, passages: Sequence[str]) -> Matrix:
        return np.concatenate(
            [
                limit.run(partial(predict, query), passages[start : start + settings.batch_size])
                for start in range(0, len(passages), settings.batch_size)
            ]
        )

    return PassageReranker(pairs, partial(_beside_query, own))


def _beside_query(own: Splitter | None, query: str, text: str) -> list[str]:
    """Return the passages that fit beside the query; a query of more than half the length counts as half."""
    if own is None:
        return [text] if text.strip() else []
    used = len(next(own.tokens([query]))[0])
    room = max(own.length - used - 1, own.length // 2)  # one more special token stands between the two
    return _pieces(Splitter(own.tokenizer, room, own.before, own.after), text)


def _pieces(fitting: Splitter, text: str) -> list[str]:
    passages = Strings(fitting, {"document": "", "query": ""}).split([text], "document")[0]
    return [text[passage.start : passage.end] for passage in passages]


def _service(name: str, settings: Settings) -> ServiceReranker:  # noqa: ARG001 - it runs elsewhere
    model = HttpModel.parse(name)
    if name.partition(":")[0] not in SERVICES:
        raise BadInput(
            f"http:{name} has no format for reranking. Write http:FORMAT:MODEL with {' or '.join(SERVICES)}."
        )
    whole = byte_splitter(SERVICE_TOKENS, name)

    def pairs(query: str, passages: Sequence[str]) -> Matrix:
        parts = [list(passages[start : start + AT_ONCE]) for start in range(0, len(passages), AT_ONCE)]
        return np.concatenate([_asked(model, query, part) for part in parts])

    return ServiceReranker(pairs, lambda _, text: _pieces(whole, text), model.usage)


def _asked(model: HttpModel, query: str, passages: list[str]) -> Matrix:
    body = {"model": model.model, "query": query, "documents": passages, "top_n": len(passages)}

    def read(answer: Any) -> Matrix:
        scores = np.full(len(passages), np.nan, dtype=np.float32)
        try:
            for one in answer["results"]:
                scores[one["index"]] = one["relevance_score"]
            tokens, searches = model.format.used(answer), model.format.searches(answer)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"its answer has no scores ({type(error).__name__}: {error})"[:200]) from None
        if np.isnan(scores).any():
            raise ValueError("its answer leaves out documents")
        model.usage.add(tokens, searches)
        return scores

    return model.service.post("/rerank", body, read)


RERANKERS: Mapping[str, Callable[[str, Settings], PassageReranker]] = MappingProxyType(
    {"st": _cross_encoder, "http": _service}
)
