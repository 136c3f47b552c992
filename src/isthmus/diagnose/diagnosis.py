"""From arrays to a diagnosis: everything that is measured, and the advice, in one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from isthmus.diagnose.advice import Advice, Numbers, advise
from isthmus.diagnose.gap import Gap, flat, gap
from isthmus.diagnose.hubs import Hubs, hubs
from isthmus.diagnose.moves import Moves, moves
from isthmus.diagnose.share import Shares, balanced, shares
from isthmus.types import Matrix, Names, Rows

POINTS = 250  # of each modality in the picture
TOP = 10


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """One way of ranking, raw or calibrated.

    ``lists``: the best documents of each question by number, its own source left out, −1 where there are no more.
    ``ranks``: where each question's source stands; 0 where it is not known.
    """

    vectors: Matrix  # (sampled, d), a row per document
    lists: Rows  # (questions, 10)
    ranks: Rows  # (questions,)


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """What a diagnosis is made from; documents in ``lists`` are numbered from 0, in any order."""

    raw: Side
    calibrated: Side
    sampled: Names  # (sampled,): the modality of each row of the vectors
    modality: Names  # (numbered documents,)
    corpus: Mapping[str, int]  # how many documents there are of each modality
    asked: Names  # (questions,): the modality of each
    target: Names  # (questions,): the modality of its source; empty where it is not known


@dataclass(frozen=True, slots=True)
class State:
    """What is known of the collection beside its arrays."""

    place: str
    spec: str
    made: str = ""
    note: str = ""
    drift: Mapping[str, float] = field(default_factory=dict)
    drifted: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """Sampled documents on paper, before and after calibration, ``(n, 2)`` each."""

    modality: Names
    before: Matrix
    after: Matrix


@dataclass(frozen=True, slots=True, eq=False)
class Diagnosis:
    """What was found. ``questions`` are the places of the questions with a known source that ``moves`` counts by."""

    state: State
    corpus: Mapping[str, int]
    gap_before: Gap
    gap_after: Gap
    picture: Picture
    shares: tuple[Shares, ...]  # by kind of question, the most telling first
    hubs: Hubs
    moves: Moves
    questions: Rows
    advice: Advice


def diagnose(evidence: Evidence, state: State) -> Diagnosis:
    """Measure everything and say what it means. Hubs and advice look at questions in words where there are any."""
    before, after = gap(evidence.raw.vectors, evidence.sampled), gap(evidence.calibrated.vectors, evidence.sampled)
    kinds = sorted(set(evidence.asked.tolist()), key=lambda name: (name != "text", name))
    by_kind = tuple(_shares(evidence, kind) for kind in kinds)
    main = evidence.asked == kinds[0] if kinds else np.zeros(0, dtype=bool)
    documents = max(sum(evidence.corpus.values()), len(evidence.modality))  # some may have come or gone meanwhile
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


def _shares(evidence: Evidence, kind: str) -> Shares:
    names = sorted(evidence.corpus)
    total = max(sum(evidence.corpus.values()), 1)
    mine = evidence.asked == kind
    known = mine & (evidence.target != "")
    named = np.append(evidence.modality, "")  # what −1 stands for
    before, after = named[evidence.raw.lists], named[evidence.calibrated.lists]
    first = [
        np.where(side.ranks == 1, evidence.target, holders[:, 0] if holders.shape[1] else "")
        for side, holders in ((evidence.raw, before), (evidence.calibrated, after))
    ]
    weight = balanced(evidence.target[known])
    return Shares(
        asked=kind,
        questions=int(mine.sum()),
        corpus={name: evidence.corpus[name] / total for name in names},
        before=shares(before[mine], names),
        after=shares(after[mine], names),
        known=int(known.sum()),
        right=shares(evidence.target[known], names, weight),
        first_before=shares(first[0][known], names, weight),
        first_after=shares(first[1][known], names, weight),
    )


def _picture(evidence: Evidence) -> Picture:
    shown = [
        place
        for name in np.unique(evidence.sampled)
        for place in _spread(np.flatnonzero(evidence.sampled == name), POINTS)
    ]
    rows = np.array(shown, dtype=np.intp)
    before, after = flat(evidence.raw.vectors)[rows], flat(evidence.calibrated.vectors)[rows]
    return Picture(evidence.sampled[rows], before, after)


def _spread(places: Rows, most: int) -> Rows:
    """Return at most so many of them, evenly spread."""
    return places[np.linspace(0, len(places) - 1, min(len(places), most)).astype(np.intp)]
