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
from isthmus.kinds import TEXT, atoms, joined
from isthmus.queries import Embedded, about
from isthmus.search.query_vectors import query_vectors
from isthmus.search.trials import GENERATED, Alone, Plan, on_trial, planned
from isthmus.storage.base import Block
from isthmus.storage.protocols import Store
from isthmus.types import Mask, Matrix, Rows, Vectors

DOCUMENTS = 1500  # sampled of each modality
ENOUGH = SHIPPED_QUERIES  # reference queries of one modality; the bank fills up to here
SEED = 20240607
FEWEST_MIXED = 32  # reference queries of several kinds; below, they are made from queries of one kind

Own: TypeAlias = Sequence[tuple[Query, str | None]]  # the user's queries, and the id of the right document if known


@dataclass(frozen=True, slots=True, eq=False)
class ReferenceCorpus:
    """Documents by passage, queries, and the document each query was made from (-1 if unknown).

    ``judges``: the queries whose source is a fair answer; a picture that searches for itself is not fair.
    """

    ids: list[str]
    documents: Vectors
    owner: Rows
    queries: Vectors
    sources: Rows
    judges: Mask
    words: list[str]  # what each query says; empty if it has no words, or they were not stored

    def of_judges(self) -> ReferenceCorpus:
        """Return the corpus with the queries that can judge, and those without a source, alone."""
        kept = self.judges | (self.sources < 0)
        words = [said for said, keep in zip(self.words, kept, strict=True) if keep]
        queries = self.queries.take(kept)
        return ReferenceCorpus(
            self.ids, self.documents, self.owner, queries, self.sources[kept], self.judges[kept], words
        )

    def targets(self, judges: Mask | None = None) -> dict[str, int]:
        """Return how many queries judge by a document of each modality; of all judges, or of these."""
        first = np.searchsorted(self.owner, np.arange(len(self.ids)))
        known = self.documents.modality[first[self.sources[self.judges if judges is None else judges]]]
        names, counts = np.unique(known, return_counts=True)
        return dict(zip(names.tolist(), counts.tolist(), strict=True))

    def counts(self) -> dict[str, int]:
        """Return how many documents there are of each modality."""
        first = np.searchsorted(self.owner, np.arange(len(self.ids)))
        names, counts = np.unique(self.documents.modality[first], return_counts=True)
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
    answered: int = 0  # queries of the user's own, in words, whose right document is known


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
    asked.mixed(rng)
    questions = asked.vectors()
    real = ReferenceCorpus(block.ids, block.vectors, block.owner, *questions)
    known = set(block.ids)
    answered = sum(name in known and query.modality == TEXT for query, name in own)
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
        self.kinds: set[str] = set()  # other than text, of which queries were made
        self.readable: set[str] = set()  # each of them with words, where the encoder reads both

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
        by_words = plan.by[TEXT]
        texts = _texts(store, self.block.rows[by_words])
        parser = Embedded()  # not whatever is installed: the same documents calibrate alike everywhere
        asked = [about(text, rng, parser) for text in texts]
        sources = by_words[[row for row, said in enumerate(asked) if said]]
        words = [said for said in asked if said]
        text: dict[int, Matrix] = {}
        if words and encoder is not None and TEXT in encoder.modalities:
            encoded = encoder.encode_queries(words)
            self.add(encoded, sources, words=words)
            text = dict(zip(sources.tolist(), encoded.parts[TEXT], strict=True))
        elif TEXT in self.block.vectors.parts:  # no encoder of words: a document's own vector is the query
            self._own_vectors(TEXT, by_words, plan.hidden[TEXT])
            there = self.block.vectors.present[TEXT][self.first[by_words]]
            own = self.block.vectors.parts[TEXT][self.first[by_words[there]]]
            text = dict(zip(by_words[there].tolist(), own, strict=True))
        for kind in plan.by:
            if kind != TEXT and (encoder is None or kind in encoder.modalities):
                self.kinds.add(kind)
                self.readable |= {joined((TEXT, kind))} & {*(() if encoder is None else encoder.modalities)}
                self._own_vectors(kind, plan.by[kind], plan.hidden[kind])
                self._encoded_alone(kind, plan)
                self._both(text, kind, plan)

    def _own_vectors(self, part: str, documents: Rows, hidden: Mask) -> None:
        """Ask with documents' own vectors; a fair question only where the document hides that part."""
        rows = self.first[documents]
        if part in self.block.vectors.parts:
            there = self.block.vectors.present[part][rows]
            asked = documents[there]
            self.add(Vectors.of(self.block.vectors.parts[part][rows[there]], part), asked, hidden[asked])

    def _encoded_alone(self, kind: str, plan: Plan) -> None:
        """Search with the parts that were encoded alone."""
        rows = self.alone.kind(kind)
        asked = np.array([at for at in plan.by[kind].tolist() if at in rows], dtype=np.intp)
        if len(asked):
            vectors = np.concatenate([rows[at][:1] for at in asked.tolist()])
            self.add(Vectors.of(vectors, kind), asked, plan.hidden[kind][asked])

    def _both(self, text: dict[int, Matrix], kind: str, plan: Plan) -> None:
        """Search with words and a part of another kind at once, where a document has both."""
        if kind not in self.block.vectors.parts:
            return
        there, hidden = self.block.vectors.present[kind], plan.hidden[TEXT]
        rows = [row for row in text if there[self.first[row]] and not hidden[row]]
        if rows:
            other = self.block.vectors.parts[kind][self.first[rows]]
            both = Vectors({TEXT: np.stack([text[row] for row in rows]), kind: other})
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
        """Search for parts that no encoder reads, and for joint vectors, with documents' own."""
        some = np.arange(len(self.block.ids))[: 2 * GENERATED]
        for part in self.block.vectors.parts:
            if part not in (TEXT, *self.kinds) and not self.count(part):
                self._own_vectors(part, some, np.zeros(len(self.block.ids), dtype=bool))

    def mixed(self, rng: np.random.Generator) -> None:
        """Fill up queries of several kinds that are too few for a bias, by parts of queries of one kind each."""
        there = {name for vectors in self.several for name in vectors.modalities if "+" in name}
        for modality in sorted(there | self.readable):
            missing = FEWEST_MIXED - self.count(modality)
            single = {kind: self._of(kind) for kind in atoms(modality)}
            if missing <= 0 or modality in self.block.vectors.parts or not all(map(len, single.values())):
                continue
            drawn = {kind: rows[rng.integers(len(rows), size=missing)] for kind, rows in single.items()}
            self.add(Vectors(drawn), np.full(missing, -1))

    def _of(self, kind: str) -> Matrix:
        """Return the vectors of the queries that are of one kind alone."""
        found = [vectors.parts[kind][vectors.modality == kind] for vectors in self.several if kind in vectors.parts]
        return np.concatenate(found) if found else np.zeros((0, self.dim), np.float32)

    def vectors(self) -> tuple[Vectors, Rows, Mask, list[str]]:
        if not self.several:
            none = Vectors({TEXT: np.zeros((0, self.dim), np.float32)})
            return none, np.empty(0, dtype=np.intp), np.empty(0, dtype=bool), []
        return Vectors.concat(self.several), np.concatenate(self.sources), np.concatenate(self.judges), self.words


def _texts(store: Store, rows: Rows) -> list[str]:
    found = store.texts([int(row) for row in rows])
    return [found.get(int(row)) or "" for row in rows]
