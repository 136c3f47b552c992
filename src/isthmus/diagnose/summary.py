"""A diagnosis in a dozen lines for the terminal, and as plain values for machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from textwrap import fill
from typing import Any

from isthmus.diagnose.advice import RAW
from isthmus.diagnose.collection import Examination, MovedQuery
from isthmus.diagnose.hubs import Hub

WIDTH = 110
HUBS = 3  # that are named


def as_text(found: Examination) -> str:
    """Return the verdict, the findings behind it, and what to do."""
    one = found.diagnosis
    lines = [one.advice.verdict, ""]
    lines += [_hanging("- ", finding) for finding in one.advice.findings]
    for shares in one.shares[:1]:
        calibrated = one.state.spec != RAW
        lines += ["", f"{'top 10':<14}{'equal chance':>13}{'raw cosine':>12}" + f"{'calibrated':>12}" * calibrated]
        lines += [
            f"{name:<14}{shares.corpus[name]:>13.0%}{shares.before[name]:>12.0%}"
            + f"{shares.after[name]:>12.0%}" * calibrated
            for name in shares.corpus
        ]
    if one.hubs.worst:
        lines += ["", _most_frequent(found, "most frequent: ", one.hubs.worst)]
        if one.state.spec != RAW:
            lines += [_most_frequent(found, "after calibration: ", one.hubs.worst_after)]
    lines += ["", *(_hanging("what to do: ", step) for step in one.advice.steps)]
    return "\n".join(lines)


def _most_frequent(found: Examination, mark: str, several: Sequence[Hub]) -> str:
    """Name the documents that are in most lists."""
    one = found.diagnosis
    named = [(found.cards[hub.document].id, hub.before, hub.after) for hub in several[:HUBS]]
    then = "" if one.state.spec == RAW else " (raw → calibrated)"
    counts = ", ".join(f"{name!r} {old}" + (f" → {new}" if then else "") for name, old, new in named)
    return _hanging(mark, f"{counts} of {one.hubs.questions:,} lists{then}")


def _hanging(mark: str, text: str) -> str:
    return fill(text, WIDTH, initial_indent=mark, subsequent_indent=" " * len(mark))


def summary(found: Examination) -> dict[str, Any]:
    """Return every number and word of a diagnosis as JSON values, without pictures."""
    one = found.diagnosis
    return {
        "collection": asdict(one.state) | {"documents": dict(one.corpus), "sampled": found.sampled},
        "verdict": one.advice.verdict,
        "level": str(one.advice.level),
        "findings": list(one.advice.findings),
        "steps": list(one.advice.steps),
        "gap": {"raw": asdict(one.gap_before), "calibrated": asdict(one.gap_after)},
        "shares": [
            asdict(shares) | {"off_chance": shares.off_chance, "off_relevance": shares.off_relevance}
            for shares in one.shares
        ],
        "hubs": asdict(one.hubs)
        | {
            "worst": [_hub(found, asdict(hub)) for hub in one.hubs.worst],
            "worst_after": [_hub(found, asdict(hub)) for hub in one.hubs.worst_after],
        },
        "moves": asdict(one.moves)
        | {"gain": one.moves.gain, "certain": one.moves.certain}
        | {"up": [_moved(m) for m in found.up], "down": [_moved(m) for m in found.down]},
    }


def _hub(found: Examination, hub: Mapping[str, Any]) -> dict[str, Any]:
    card = found.cards[hub["document"]]
    return {"id": card.id, "modality": card.modality, "before": hub["before"], "after": hub["after"]}


def _moved(one: MovedQuery) -> dict[str, Any]:
    ids = {"raw": [line.card.id for line in one.raw], "calibrated": [line.card.id for line in one.calibrated]}
    places = {"before": one.before, "after": one.after}
    return {"query": one.words, "right": one.source.id, "modality": one.target, **places, **ids}
