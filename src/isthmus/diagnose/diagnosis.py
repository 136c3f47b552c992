"""From arrays to a diagnosis: all measurements and the advice in one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from isthmus.diagnose.advice import Advice, Numbers, advise
from isthmus.diagnose.gap import Gap, flat, gap
from isthmus.diagnose.hubs import Hubs, hubs
from isthmus.diagnose.moves import Moves, moves
from isthmus.diagnose.share import ModalityShares, balanced, shares
from isthmus.kinds import TEXT
from isthmus.types import Matrix, Names, Rows

POINTS = 250  # of each modality in the picture
TOP = 10


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """One way of ranking, raw or calibrated.

    ``lists``: the best documents of each query by number, without its own source; −1 marks an empty position.
    ``ranks``: the rank of each query's source; 0 if it is unknown.
    """

    vectors: Matrix  # (sampled, d), a row per document
    lists: Rows  # (questions, 10)
    ranks: Rows  # (questions,)


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """The input of a diagnosis; documents in ``lists`` are numbered from 0, in any order."""

    raw: Side
    calibrated: Side
    sampled: Names  # (sampled,): the modality of each row of the vectors
    modality: Names  # (numbered documents,)
    corpus: Mapping[str, int]  # how many documents there are of each modality
    query_modality: Names  # (questions,)
    target: Names  # (questions,): the modality of its source; empty if it is unknown


@dataclass(frozen=True, slots=True)
class CollectionState:
    """Facts about the collection other than its arrays."""

    place: str
    spec: str
    made: str = ""
    note: str = ""
    drift: Mapping[str, float] = field(default_factory=dict)
    drifted: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Projection:
    """Sampled documents in two dimensions, before and after calibration, ``(n, 2)`` each."""

    modality: Names
    before: Matrix
    after: Matrix


@dataclass(frozen=True, slots=True, eq=False)
class Diagnosis:
    """The result. ``questions`` are the rows of the queries with a known source, to which ``moves`` refers."""

    state: CollectionState
    corpus: Mapping[str, int]
    gap_before: Gap
    gap_after: Gap
    picture: Projection
    shares: tuple[ModalityShares, ...]  # by kind of query, text queries first
    hubs: Hubs
    moves: Moves
    questions: Rows
    advice: Advice


def diagnose(evidence: Evidence, state: CollectionState) -> Diagnosis:
    """Measure everything and give advice. Hubs and advice use text queries if there are any."""
    before, after = gap(evidence.raw.vectors, evidence.sampled), gap(evidence.calibrated.vectors, evidence.sampled)
    kinds = sorted(set(evidence.query_modality.tolist()), key=lambda name: (name != TEXT, name))
    by_kind = tuple(_shares(evidence, kind) for kind in kinds)
    main = evidence.query_modality == kinds[0] if kinds else np.zeros(0, dtype=bool)
    documents = max(
        sum(evidence.corpus.values()), len(evidence.modality)
    )  # some may have been added or deleted meanwhile
    crowd = hubs(evidence.raw.lists[main], evidence.calibrated.lists[main], documents)
    known = np.flatnonzero(main & (evidence.target != "")) if kinds else np.zeros(0, dtype=np.intp)
    moved = moves(evidence.raw.ranks[known], evidence.calibrated.ranks[known], evidence.target[known])
    numbers = Numbers(
        documents=sum(evidence.corpus.values()),
        modalities=tuple(sorted(evidence.corpus)),
        spec=state.spec,
        gap=before,
        gap_after=after,
        shares=by_kind[0] if by_kind else None,
        hubs=crowd,
        moves=moved,
        drifted=state.drifted,
    )
    picture = _picture(evidence)
    return Diagnosis(state, evidence.corpus, before, after, picture, by_kind, crowd, moved, known, advise(numbers))


def _shares(evidence: Evidence, kind: str) -> ModalityShares:
    names = sorted(evidence.corpus)
    total = max(sum(evidence.corpus.values()), 1)
    mine = evidence.query_modality == kind
    known = mine & (evidence.target != "")
    named = np.append(evidence.modality, "")  # −1 means no document
    before, after = named[evidence.raw.lists], named[evidence.calibrated.lists]
    first = [
        np.where(side.ranks == 1, evidence.target, holders[:, 0] if holders.shape[1] else "")
        for side, holders in ((evidence.raw, before), (evidence.calibrated, after))
    ]
    weight = balanced(evidence.target[known])
    return ModalityShares(
        query_modality=kind,
        questions=int(mine.sum()),
        corpus={name: evidence.corpus[name] / total for name in names},
        before=shares(before[mine], names),
        after=shares(after[mine], names),
        known=int(known.sum()),
        right=shares(evidence.target[known], names, weight),
        first_before=shares(first[0][known], names, weight),
        first_after=shares(first[1][known], names, weight),
    )


def _picture(evidence: Evidence) -> Projection:
    shown = [
        place
        for name in np.unique(evidence.sampled)
        for place in _spread(np.flatnonzero(evidence.sampled == name), POINTS)
    ]
    rows = np.array(shown, dtype=np.intp)
    before, after = flat(evidence.raw.vectors)[rows], flat(evidence.calibrated.vectors)[rows]
    return Projection(evidence.sampled[rows], before, after)


def _spread(places: Rows, most: int) -> Rows:
    """Return at most ``most`` of them, evenly spread."""
    return places[np.linspace(0, len(places) - 1, min(len(places), most)).astype(np.intp)]
