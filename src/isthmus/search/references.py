"""Reference queries of a collection: the user's own, then made from its documents, then the built-in bank.

A query made from a document knows its source, which lets calibrations be judged.

    real      the sampled documents as they are, and queries with their sources: what is fitted on
    trial     the same with hidden parts: what candidates are judged on, and what ``learned`` is fitted on (trials.py)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from isthmus.documents import Query
from isthmus.encoders import Encoder
from isthmus.encoders.references import SHIPPED_QUERIES, bank_vectors
from isthmus.queries import Embedded, about
from isthmus.search.query_vectors import query_vectors
from isthmus.search.trials import GENERATED, Alone, Plan, on_trial, planned
from isthmus.storage.base import Block
from isthmus.storage.protocols import Store
from isthmus.types import Mask, Matrix, Rows, Vectors

DOCUMENTS = 1500  # sampled of each modality
ENOUGH = SHIPPED_QUERIES  # reference queries of one modality; the bank fills up to here
SEED = 20240607

Own: TypeAlias = Sequence[tuple[Query, str | None]]  # the user's queries, and the id of the right document if known


@dataclass(frozen=True, slots=True, eq=False)
class ReferenceCorpus:
    """Documents by passage, queries, and the document each query was made from (-1 when nobody knows).

    ``judges``: the queries whose source is a fair answer; a picture that asks for itself is none.
    """

    ids: list[str]
    documents: Vectors
    owner: Rows
    queries: Vectors
    sources: Rows
    judges: Mask
    words: list[str]  # what each query says; empty where it says nothing, or nobody kept it

    def of_judges(self) -> ReferenceCorpus:
        """Return the corpus with the queries that can judge, and those without a source, alone."""
        kept = self.judges | (self.sources < 0)
        words = [said for said, keep in zip(self.words, kept, strict=True) if keep]
        queries = self.queries.take(kept)
        return ReferenceCorpus(
            self.ids, self.documents, self.owner, queries, self.sources[kept], self.judges[kept], words
        )

    def targets(self) -> dict[str, int]:
        """Return how many queries judge by a document of each modality."""
        first = np.searchsorted(self.owner, np.arange(len(self.ids)))
        known = self.documents.modality[first[self.sources[self.judges]]]
        names, counts = np.unique(known, return_counts=True)
        return dict(zip(names.tolist(), counts.tolist(), strict=True))

    def by_document(self) -> dict[str, list[int]]:
        """Return the reference queries made from each document, by its id."""
        made: dict[str, list[int]] = {}
        for row in np.flatnonzero(self.sources >= 0):
            made.setdefault(self.ids[self.sources[row]], []).append(int(row))
        return made


@dataclass(frozen=True, slots=True, eq=False)
class ReferenceSets:
    """What a collection's calibration is fitted and judged on."""

    real: ReferenceCorpus
    trial: ReferenceCorpus
    answered: int = 0  # queries of the user's own whose right document is known


def gather(store: Store, encoder: Encoder | None, own: Own = ()) -> ReferenceSets:
    """Sample documents, make queries of them, encode these, and fill up from the bank."""
    rng = np.random.default_rng(SEED)
    block = _sampled(store, rng, [name for _, name in own if name])
    plan, alone = planned(block, store, encoder, rng)
    asked = _ReferenceQueries(block, alone)
    asked.users(own, encoder)
    asked.made(store, encoder, plan, rng)
    asked.bank(encoder)
    asked.others()
    questions = asked.vectors()
    real = ReferenceCorpus(block.ids, block.vectors, block.owner, *questions)
    known = set(block.ids)
    answered = sum(name in known for _, name in own)
    documents, owner = on_trial(block, plan, alone)
    return ReferenceSets(real, ReferenceCorpus(block.ids, documents, owner, *questions), answered)


def _sampled(store: Store, rng: np.random.Generator, wanted: Sequence[str]) -> Block:
    """Take some documents of every modality; of a part that none of them has, some as well: it needs a mean, too."""
    rows = set(store.rows_of(wanted).values())
    for name in store.counts():
        rows |= set(rng.permutation(store.rows(name))[:DOCUMENTS].tolist())
    block = store.sample(sorted(rows))
    rare = store.statistics().parts.keys() - block.vectors.parts.keys()
    if not rare:
        return block
    return store.sample(sorted(rows.union(*(store.rows_with(part, DOCUMENTS) for part in rare))))


class _ReferenceQueries:
    """Queries as they come together: text and image vectors, and whose they are."""

    def __init__(self, block: Block, alone: Alone) -> None:
        self.block, self.alone = block, alone
        self.dim = block.vectors.dim
        self.first = np.searchsorted(block.owner, np.arange(len(block.ids)))
        self.place = {name: row for row, name in enumerate(block.ids)}
        self.several: list[Vectors] = []
        self.sources: list[Rows] = []
        self.judges: list[Mask] = []
        self.words: list[str] = []

    def add(self, vectors: Vectors, sources: Rows, fair: Mask | bool = True, words: Sequence[str] = ()) -> None:
        if len(vectors):
            self.words += words or [""] * len(vectors)
            self.several.append(vectors)
            self.sources.append(np.asarray(sources, dtype=np.intp))
            self.judges.append((self.sources[-1] >= 0) & fair)

    def count(self, modality: str) -> int:
        return sum(int((vectors.modality == modality).sum()) for vectors in self.several)

    def users(self, own: Own, encoder: Encoder | None) -> None:
        if own:
            vectors = query_vectors([query for query, _ in own], lambda: encoder, self.dim)
            sources = np.array([self.place.get(name, -1) if name else -1 for _, name in own])
            self.add(vectors, sources, words=[query.text or "" for query, _ in own])

    def made(self, store: Store, encoder: Encoder | None, plan: Plan, rng: np.random.Generator) -> None:
        texts = _texts(store, self.block.rows[plan.by_words])
        parser = Embedded()  # not whatever is installed: the same documents calibrate alike everywhere
        asked = [about(text, rng, parser) for text in texts]
        sources = plan.by_words[[row for row, said in enumerate(asked) if said]]
        words = [said for said in asked if said]
        text: dict[int, Matrix] = {}
        if words and encoder is not None and "text" in encoder.modalities:
            encoded = encoder.encode_queries(words)
            self.add(encoded, sources, words=words)
            text = dict(zip(sources.tolist(), encoded.parts["text"], strict=True))
        elif "text" in self.block.vectors.parts:  # nobody to encode words: a document's own vector asks
            self._own_vectors("text", plan.by_words, plan.no_text)
            there = self.block.vectors.present["text"][self.first[plan.by_words]]
            own = self.block.vectors.parts["text"][self.first[plan.by_words[there]]]
            text = dict(zip(plan.by_words[there].tolist(), own, strict=True))
        if encoder is not None and "image" not in encoder.modalities:
            return
        self._own_vectors("image", plan.by_image, plan.no_image)
        self._pictures(plan)
        self._both(text, plan)

    def _own_vectors(self, part: str, documents: Rows, hidden: Mask) -> None:
        """Ask with documents' own vectors; a fair question only where the document hides that part."""
        rows = self.first[documents]
        if part in self.block.vectors.parts:
            there = self.block.vectors.present[part][rows]
            asked = documents[there]
            self.add(Vectors.of(self.block.vectors.parts[part][rows[there]], part), asked, hidden[asked])

    def _pictures(self, plan: Plan) -> None:
        """Ask with the pictures that were encoded alone."""
        asked = np.array([at for at in plan.by_image.tolist() if at in self.alone.image], dtype=np.intp)
        if len(asked):
            rows = np.concatenate([self.alone.image[at] for at in asked.tolist()])
            self.add(Vectors.of(rows, "image"), asked, plan.no_image[asked])

    def _both(self, text: dict[int, Matrix], plan: Plan) -> None:
        """Ask with words and a picture at once, where a document has both."""
        if "image" not in self.block.vectors.parts:
            return
        rows = [row for row in text if self.block.vectors.present["image"][self.first[row]] and not plan.no_text[row]]
        if rows:
            image = self.block.vectors.parts["image"][self.first[rows]]
            both = Vectors({"text": np.stack([text[row] for row in rows]), "image": image})
            self.add(both, np.array(rows), fair=False)

    def bank(self, encoder: Encoder | None) -> None:
        """Fill up from the built-in bank: words, pictures, and both."""
        if encoder is None:
            return
        general = bank_vectors(encoder, limit=SHIPPED_QUERIES)
        for modality in encoder.modalities:
            missing = ENOUGH - self.count(modality)
            of_modality = np.flatnonzero(general.modality == modality)
            if missing > 0 and len(of_modality):
                some = of_modality[np.linspace(0, len(of_modality) - 1, min(missing, len(of_modality))).astype(int)]
                self.add(general.take(some), np.full(len(some), -1))

    def others(self) -> None:
        """Ask for parts that no encoder reads, and for joint vectors, with documents' own."""
        some = np.arange(len(self.block.ids))[: 2 * GENERATED]
        for part in self.block.vectors.parts:
            if part not in ("text", "image") and not self.count(part):
                self._own_vectors(part, some, np.zeros(len(self.block.ids), dtype=bool))

    def vectors(self) -> tuple[Vectors, Rows, Mask, list[str]]:
        if not self.several:
            none = Vectors({"text": np.zeros((0, self.dim), np.float32)})
            return none, np.empty(0, dtype=np.intp), np.empty(0, dtype=bool), []
        return Vectors.concat(self.several), np.concatenate(self.sources), np.concatenate(self.judges), self.words


def _texts(store: Store, rows: Rows) -> list[str]:
    found = store.texts([int(row) for row in rows])
    return [found.get(int(row)) or "" for row in rows]
