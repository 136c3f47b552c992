"""Advice in words from the numbers: is there a gap, does it matter, does the calibration help, what to do.

In words: a number about vectors alone is never enough to call a search unfair. There is a **gap** if modality
explains more than ``GAP`` of the variance between documents, and clearly more than chance. A search is **unfair** if
more than ``UNFAIR`` of the first places would have to go to another modality for each to match its share of right
answers. Calibration **helps** or **harms** if first places gained and lost differ significantly, with equal weight for
each modality. If fewer than ``KNOWN`` right answers of some modality are known, shares can only be compared with
chance. Users may search for one kind more than for another, so only deviations above ``FAR`` count as unfair then.
Below ``FEW`` documents there is no verdict.

>>> advise(Numbers(documents=5, modalities=("text",), spec="none", gap=Gap((), 0.0, 0.0), gap_after=Gap((), 0.0, 0.0),
...                shares=None, hubs=None, moves=None)).verdict
'With 5 documents it is too early to say whether this search is fair.'
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from isthmus.diagnose.gap import Gap
from isthmus.diagnose.hubs import Hubs
from isthmus.diagnose.moves import Moves
from isthmus.diagnose.share import ModalityShares

FEW = 30  # documents
KNOWN = 16  # right answers of each modality
GAP = 0.05  # share of the variance between documents that modality may explain
UNFAIR = 0.10  # share of positions that the wrong modality may have
FAR = 0.25  # the same, compared with chance
CROWDED = 1.0  # skewness of the counts above that of a random ranking; Radovanović et al. call more than that strong
CERTAIN = 2.0  # standard errors
RAW = "none"


class Level(StrEnum):
    """The verdict as one word."""

    FAIR = "fair"
    CORRECTED = "corrected"
    PARTLY = "partly"
    UNFAIR = "unfair"
    UNSURE = "unsure"


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """The input of ``advise``."""

    documents: int
    modalities: tuple[str, ...]
    spec: str
    gap: Gap
    gap_after: Gap
    shares: ModalityShares | None  # of the most common kind of query
    hubs: Hubs | None
    moves: Moves | None
    drifted: bool = False

    @property
    def has_gap(self) -> bool:
        """Whether modality explains more of the variance between vectors than it should."""
        return len(self.modalities) > 1 and self.gap.share > max(GAP, 3 * self.gap.chance)

    @property
    def judged(self) -> bool:
        """Whether enough right answers of every modality are known."""
        known = {one.modality: one.questions for one in self.moves.by_modality} if self.moves else {}
        return self.shares is not None and all(known.get(name, 0) >= KNOWN for name in self.modalities)

    @property
    def unfair(self) -> tuple[float, float]:
        """The share of positions that the wrong modality has, before and after."""
        if self.shares is None:
            return 0.0, 0.0
        return self.shares.off_relevance if self.judged else self.shares.off_chance

    @property
    def helped(self) -> int:
        """1 if calibration helps, −1 if it harms, 0 if it makes no clear difference."""
        if not self.judged or self.moves is None or abs(self.moves.certain) < CERTAIN:
            return 0
        return 1 if self.moves.certain > 0 else -1


@dataclass(frozen=True, slots=True)
class Advice:
    """A verdict in one sentence, the findings behind it, and what to do."""

    level: Level
    verdict: str
    findings: tuple[str, ...]
    steps: tuple[str, ...]


def advise(numbers: Numbers) -> Advice:
    """Return what the numbers mean, in words."""
    level, verdict = _verdict(numbers)
    findings = [_gap(numbers), _places(numbers), _hubs(numbers), _answers(numbers)]
    return Advice(level, verdict, tuple(finding for finding in findings if finding), tuple(_steps(numbers, level)))


def _verdict(n: Numbers) -> tuple[Level, str]:
    before, after = n.unfair
    if n.documents < FEW or n.shares is None:
        return Level.UNSURE, f"With {n.documents} documents it is too early to say whether this search is fair."
    if n.helped < 0:
        return Level.UNFAIR, "The calibration in use does more harm than good here."
    if len(n.modalities) == 1:
        return Level.FAIR, f"There are only {n.modalities[0]} documents, so no kind can be ranked below another."
    if not n.judged:
        return _by_chance(n, before, after)
    if n.spec == RAW and before >= UNFAIR:
        return Level.UNFAIR, "Raw cosine ranks these documents unfairly, and no calibration is in use."
    if before < UNFAIR:
        return Level.FAIR, "Each kind of document comes first about as often as it should: this search is fair."
    if n.helped == 0 and after > before - UNFAIR / 2:
        return Level.UNFAIR, "This search is unfair, and the calibration in use makes no clear difference."
    level, part = (Level.CORRECTED, "corrects") if after < UNFAIR else (Level.PARTLY, "partly corrects")
    return level, f"Raw cosine would rank these documents unfairly; the calibration in use {part} that."


def _by_chance(n: Numbers, before: float, after: float) -> tuple[Level, str]:
    """Compare with the number of documents of each kind: only large deviations count."""
    if max(before, after) < UNFAIR:
        return Level.FAIR, "As far as can be seen without known answers, each kind of document gets its share."
    if before >= FAR and (n.spec == RAW or after > before / 2):
        return Level.UNFAIR, "Some kinds of documents hardly get into the top 10, whatever the query is."
    if before >= FAR:
        return (
            Level.CORRECTED,
            "By raw cosine some kinds of documents would hardly be found; calibration corrects that.",
        )
    return Level.UNSURE, "Too few right answers are known to decide whether this search is fair."


def _gap(n: Numbers) -> str:
    if len(n.modalities) < 2:
        return "There is one kind of document, so there can be no gap between kinds."
    if not n.has_gap:
        return f"There is no gap: the kind of document explains only {n.gap.share:.0%} of the variance."
    after = f"{n.gap_after.share:.0%} after calibration"
    if n.spec == RAW:
        return f"There is a gap: the kind of document alone explains {n.gap.share:.0%} of the variance."
    if n.gap_after.share > n.gap.share / 2:
        after += " (it corrects scores more than vectors)"
    return f"There is a gap: the kind of document alone explains {n.gap.share:.0%} of the variance, {after}."


def _places(n: Numbers) -> str:
    if n.shares is None or len(n.modalities) < 2:
        return ""
    before, after = n.unfair
    then = "" if n.spec == RAW else f" and {after:.0%} after calibration"
    if n.judged:
        return f"{before:.0%} of the first places go to the wrong kind of document by raw cosine{then}."
    return (
        f"Compared with an equal chance for every document, {before:.0%} of the positions in the top 10 have another "
        f"kind by raw cosine{then}."
    )


def _hubs(n: Numbers) -> str:
    if n.hubs is None or not n.hubs.worst:
        return ""
    even = f"{n.hubs.expected:.0f}" if n.hubs.expected >= 1 else f"{n.hubs.expected:.1f}"
    chance = f"of {n.hubs.questions:,} top-10 lists; with equal chances it would be in {even}"
    served = (n.hubs.skew_before, n.hubs.most_before) if n.spec == RAW else (n.hubs.skew_after, n.hubs.most_after)
    if max(n.hubs.skew_before, served[0]) < n.hubs.skew_by_lot + CROWDED:
        return f"No document crowds out others: the most frequent one is in {served[1]} {chance}."
    then = "" if n.spec == RAW else f"; after calibration the most frequent is in {n.hubs.most_after}"
    return f"There are hubs: one document is in {n.hubs.most_before} {chance}{then}."


def _answers(n: Numbers) -> str:
    if n.moves is None or not n.moves.questions or n.spec == RAW:
        return ""
    luck = (
        ""
        if abs(n.moves.certain) >= CERTAIN
        else " With equal weight for each kind of document, the difference may be chance."
    )
    return (
        f"Calibration moves the right document to the first place for {n.moves.gained} of {n.moves.questions} "
        f"queries, and away from it for {n.moves.lost}.{luck}"
    )


def _steps(n: Numbers, level: Level) -> list[str]:
    steps: list[str] = []
    if n.documents < FEW:
        return ["Add documents, then run `isthmus diagnose` again."]
    if n.drifted:
        steps.append("The documents have changed since the calibration: run `isthmus calibrate`.")
    if level is Level.UNFAIR and n.spec == RAW:
        steps.append("Run `isthmus calibrate`: it tries several calibrations and keeps one only if it helps.")
    elif level is Level.UNFAIR:
        steps.append(
            "Run `isthmus calibrate --queries FILE` with real queries of your users and the ids of their right "
            "documents; if that does not help, `isthmus calibrate none` returns to raw cosine."
        )
    elif level is Level.PARTLY:
        steps.append(
            "Keep the calibration. To improve it, use real queries: `isthmus calibrate --queries FILE`, with the ids "
            "of the right documents, or log them from now on with `isthmus calibrate --log-queries`."
        )
    if not n.judged:
        steps.append(
            f"Fewer than {KNOWN} right answers are known for some kind of document. To compare with relevance instead "
            "of chance, provide queries with the ids of their right documents: `isthmus diagnose --queries FILE`."
        )
    crowded = n.hubs is not None and n.hubs.skew_after >= n.hubs.skew_by_lot + CROWDED
    if crowded and n.hubs is not None and n.hubs.most_after > max(5 * n.hubs.expected, 0.05 * n.hubs.questions):
        steps.append(
            "Look at the documents that appear most often after calibration (they are named here): remove blank pages, "
            "boilerplate and logos from the collection."
        )
    return steps or [
        "Nothing needs to be done. Run `isthmus diagnose` again after many documents were added or deleted."
    ]
