"""Collect the input of a diagnosis from a store: the gap of a sample, and the top 10 of queries over all rows.

Queries are rows of the store, or vectors from a file. Each is ranked over the whole store by raw cosine and, if
there is a fold, by its scores: exactly, batch by batch. A query that is a row of the store does not find itself.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np

from isthmus.calibration import drift
from isthmus.calibration.none import Raw
from isthmus.diagnose.advice import Level
from isthmus.diagnose.collection import Card, Examination
from isthmus.diagnose.diagnosis import TOP, CollectionState, Evidence, Side, diagnose
from isthmus.stores import references as reference_queries
from isthmus.stores.address import StoreAddress
from isthmus.stores.base import Batch, Id
from isthmus.stores.calibrate import DRIFT
from isthmus.stores.fold import Fold
from isthmus.stores.kinds import explained, open_source
from isthmus.stores.references import ReferenceVectors
from isthmus.stores.sampling import Modality, Progress, StorePass, StoreSample, batches, no_progress, scan
from isthmus.types import Matrix, Names, Rows

DRAWN = 1500  # rows of each modality whose gap is measured, as in collections


def examine(
    store: str,
    query_modality: str,
    *,
    queries: Path | None = None,
    fold: Fold | None = None,
    progress: Progress = no_progress,
) -> tuple[Examination, str]:
    """Diagnose a store; return the findings, and what the queries are. ``fold`` shows what it changes."""
    address = StoreAddress.read(store)
    with explained(address), closing(open_source(address)) as source:
        description = source.describe()
        modality = Modality(address, description.fields)
        seen = scan(source, description, modality, progress)
        asked = (
            reference_queries.sampled(seen.sample, query_modality)
            if queries is None
            else reference_queries.given(queries, description.dim)
        )
        lists = _Lists(asked, fold)
        for batch in batches(source, description):
            lists.add(batch, modality.of(batch))
    return _examination(address, seen, asked, lists, query_modality, fold), asked.note


class _Lists:
    """The best rows of each query so far, by raw cosine and by the fold."""

    def __init__(self, asked: ReferenceVectors, fold: Fold | None) -> None:
        raw = asked.vectors / np.linalg.norm(asked.vectors, axis=1, keepdims=True)
        self.fold, self.own = fold, {key: row for row, key in enumerate(asked.ids)}
        self.queries = [raw, raw if fold is None else fold.query(asked.vectors)]
        self.scores = [np.full((len(raw), TOP), -np.inf) for _ in self.queries]
        self.rows = [np.full((len(raw), TOP), -1, dtype=np.intp) for _ in self.queries]
        self.named: dict[int, tuple[Id, str]] = {}
        self.seen = 0

    def add(self, batch: Batch, names: Names) -> None:
        """Rank the rows of a batch among the best so far."""
        raw = batch.vectors / np.linalg.norm(batch.vectors, axis=1, keepdims=True)
        folded = raw if self.fold is None else self.fold.rows(batch.vectors, names, batch.ids)
        numbers = np.arange(self.seen, self.seen + len(batch))
        own = [(self.own[str(key)], at) for at, key in enumerate(batch.ids) if str(key) in self.own]
        for side, rows in enumerate((raw, folded)):
            found = self.queries[side] @ rows.T  # (queries, batch)
            for query, at in own:
                found[query, at] = -np.inf
            self._merge(side, found, numbers)
        self.named |= {int(n): (batch.ids[at], str(names[at])) for at, n in enumerate(numbers)}
        there = np.union1d(*self.rows)
        self.named = {int(n): self.named[int(n)] for n in there if n >= 0}
        self.seen += len(batch)

    def _merge(self, side: int, found: Matrix, numbers: Rows) -> None:
        scores = np.hstack([self.scores[side], found])
        rows = np.hstack([self.rows[side], np.broadcast_to(numbers, found.shape)])
        order = np.argsort(-scores, axis=1, kind="stable")[:, :TOP]
        self.scores[side] = np.take_along_axis(scores, order, axis=1)
        self.rows[side] = np.where(np.isneginf(self.scores[side]), -1, np.take_along_axis(rows, order, axis=1))

    def numbered(self) -> tuple[list[Rows], list[tuple[Id, str]]]:
        """Return the lists with rows numbered from 0, and the id and modality of each."""
        known = sorted(self.named)
        place = {row: at for at, row in enumerate(known)} | {-1: -1}
        lists = [np.vectorize(place.__getitem__, otypes=[np.intp])(rows) for rows in self.rows]
        return lists, [self.named[row] for row in known]


def _examination(
    address: StoreAddress,
    seen: StorePass,
    asked: ReferenceVectors,
    lists: _Lists,
    query_modality: str,
    fold: Fold | None,
) -> Examination:
    drawn = _drawn(seen.sample)
    documents = drawn.documents()
    numbered, named = lists.numbered()
    shifts = (Raw(), Raw() if fold is None else fold.fitted.shift)
    unknown = np.zeros(len(asked.vectors), dtype=np.intp)
    raw, calibrated = (
        Side(shift.documents(documents, np.float32), rows, unknown)
        for shift, rows in zip(shifts, numbered, strict=True)
    )
    evidence = Evidence(
        raw=raw,
        calibrated=calibrated,
        sampled=drawn.modality,
        modality=np.array([kind for _, kind in named], dtype=str),
        corpus=seen.counts,
        query_modality=np.full(len(asked.vectors), query_modality),
        target=np.full(len(asked.vectors), ""),
    )
    moved = {} if fold is None else drift(fold.statistics, seen.statistics)
    drifted = bool(moved) and max(moved.values()) > DRIFT
    spec = "none" if fold is None else str(fold.fitted.spec)
    found = diagnose(evidence, CollectionState(str(address), spec, drift=moved, drifted=drifted))
    found = replace(found, advice=replace(found.advice, steps=_steps(address, found.advice.level, fold, drifted)))
    cards = {
        hub.document: Card(str(named[hub.document][0]), named[hub.document][1])
        for hub in (*found.hubs.worst, *found.hubs.worst_after)
    }
    return Examination(found, cards, (), (), len(drawn.ids), not asked.ids)


def _drawn(sample: StoreSample) -> StoreSample:
    """Return some rows of each modality, evenly spread."""
    rows = [
        of_name[np.linspace(0, len(of_name) - 1, min(len(of_name), DRAWN)).astype(np.intp)]
        for of_name in (np.flatnonzero(sample.modality == name) for name in np.unique(sample.modality))
    ]
    chosen = np.sort(np.concatenate(rows))
    return StoreSample([sample.ids[row] for row in chosen], sample.vectors[chosen], sample.modality[chosen])


def _steps(address: StoreAddress, level: Level, fold: Fold | None, drifted: bool) -> tuple[str, ...]:
    if fold is None and level in (Level.UNFAIR, Level.UNSURE):
        return (
            f"Run `isthmus calibrate {address.quoted} --into {address.kind}:NEW`: it writes calibrated vectors beside "
            "these, and a file that turns queries. `isthmus diagnose --fold FILE` shows what it changes.",
        )
    if fold is not None and drifted:
        return (f"The vectors have drifted: run `isthmus calibrate {address.quoted} --into {fold.target} --update`.",)
    return ("Nothing needs to be done. Diagnose the store again after many rows were added or deleted.",)
