"""What agents are told: hits, documents and statistics as short JSON, pictures small enough for a model's context.

A list of a string and pictures is one answer; a picture follows the text that it belongs to.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from isthmus.documents import Document
from isthmus.errors import IsthmusError
from isthmus.kinds import IMAGE, TEXT, Part
from isthmus.search import Hit, SearchInterface
from isthmus.serve.answers import last_name, public_text
from isthmus.serve.media import PartBytes
from isthmus.serve.pictures import PartSender

EXCERPT = 600  # characters of the passage of a hit
LONGEST = 20_000  # characters of a document at once


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureLimits:
    """How many pictures an answer has at most, and the pixels of their longer side."""

    side: int = 512
    count: int = 8


@dataclass(frozen=True, slots=True)
class AnswerWriter:
    """Writes answers; smaller pictures are made once and kept."""

    limits: PictureLimits = PictureLimits()
    sender: PartSender = field(default_factory=PartSender)

    def hits(self, hits: Sequence[Hit], *, pictures: bool) -> list[str | PartBytes]:
        """Write the hits of a search, each as JSON, with its first picture."""
        if not hits:
            return ["No document matches."]
        answer: list[str | PartBytes] = []
        left = self.limits.count if pictures else 0
        for hit in hits:
            answer.append(_json(_hit(hit)))
            shown = self._pictures(hit.document.parts, min(left, 1))
            left -= len(shown)
            answer += shown
        return answer

    def document(self, document: Document, start: int, *, pictures: bool) -> list[str | PartBytes]:
        """Write a document: its text from a character on, its metadata, its pictures."""
        text = document.text or ""
        piece = text[start : start + LONGEST]
        form: dict[str, Any] = {"id": document.id, "modality": document.modality, "metadata": _plain(document.metadata)}
        if text:
            form |= {TEXT: piece, "characters": len(text)}
        if start + len(piece) < len(text):
            form["next_start"] = start + len(piece)
        shown = self._pictures(document.parts, self.limits.count if pictures else 0)
        return [_json(form), *shown]

    def _pictures(self, parts: Sequence[Part], most: int) -> list[PartBytes]:
        made: list[PartBytes] = []
        for part in parts:
            if part.kind == IMAGE and len(made) < most:
                try:
                    made.append(self.sender.part(part, self.limits.side))
                except IsthmusError:  # a file that is gone: the text of the hit is still right
                    continue
        return made

    def stats(self, things: SearchInterface) -> str:
        """Write what a collection holds."""
        facts = things.stats()
        form = {
            "documents": sum(facts.documents.values()),
            "by_modality": dict(facts.documents),
            "filter_fields": things.fields(),
            "encoder": public_text(str(facts.encoder["encoder"])),
            "calibration": None if facts.calibration is None else facts.calibration["spec"],
            "skipped_inputs": len(facts.skipped),
        }
        return _json(form)


def _hit(hit: Hit) -> dict[str, Any]:
    form: dict[str, Any] = {"rank": hit.rank, "id": hit.id, "modality": hit.modality, "score": round(hit.score, 4)}
    if hit.probability is not None:
        form["probability"] = round(hit.probability, 3)
    if hit.passage is not None:
        form["passage"] = hit.passage.text[:EXCERPT]
    for name in ("page", "moment"):
        if getattr(hit, name) is not None:
            form[name] = getattr(hit, name)
    if hit.document.metadata:
        form["metadata"] = _plain(hit.document.metadata)
    return form


def _plain(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out where a file is on this machine; its id says which one it is."""
    return {name: last_name(one) if name == "path" and isinstance(one, str) else one for name, one in metadata.items()}


def _json(form: Mapping[str, Any]) -> str:
    return json.dumps(form, ensure_ascii=False, default=str)


def added(report: Any) -> str:
    """Write what became of documents."""
    form = asdict(report)
    return _json({name: one for name, one in form.items() if one})
