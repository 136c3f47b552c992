"""Subsets of queries to average over: all, those of one type, those with right documents of one modality.

A slice is a smaller ``Qrels``, so every measure works on it. A query with right documents of several modalities counts
in each of them, where only the right documents of that modality are relevant. The ranking does not change.

>>> qrels = {"q": {"note": 1, "photo": 1}, "r": {"photo": 2}}
>>> slices(qrels, modality={"note": "text", "photo": "image"}, types={"q": "short", "r": "long"})["image"]
{'q': {'photo': 1}, 'r': {'photo': 2}}
"""

from __future__ import annotations

from collections.abc import Mapping

from isthmus.evaluate.runs import Qrels

OVERALL = "overall"


def slices(
    qrels: Qrels, *, modality: Mapping[str, str] | None = None, types: Mapping[str, str] | None = None
) -> dict[str, Qrels]:
    """Return the qrels of each slice: ``overall``, each document modality, each query type.

    A slice without a relevant document is left out. A query type with the name of a modality is renamed:
    ``text queries``.
    """
    found = by_modality(qrels, modality or {})
    asked = by_type(qrels, types or {})
    named = {f"{name} queries" if name in found or name == OVERALL else name: part for name, part in asked.items()}
    everything = {OVERALL: qrels} if any(rel > 0 for judged in qrels.values() for rel in judged.values()) else {}
    return everything | found | named


def by_modality(qrels: Qrels, modality: Mapping[str, str]) -> dict[str, Qrels]:
    """Return the judgements by modality of the document; documents that are not in the table are left out."""
    out: dict[str, dict[str, dict[str, int]]] = {}
    for query, judged in qrels.items():
        for document, rel in judged.items():
            if rel > 0 and document in modality:
                out.setdefault(modality[document], {}).setdefault(query, {})[document] = rel
    return {name: out[name] for name in sorted(out)}


def by_type(qrels: Qrels, types: Mapping[str, str]) -> dict[str, Qrels]:
    """Return the judgements by query type; queries that are not in the table are left out."""
    out: dict[str, dict[str, Mapping[str, int]]] = {}
    for query, judged in qrels.items():
        if query in types and any(rel > 0 for rel in judged.values()):
            out.setdefault(types[query], {})[query] = judged
    return {name: out[name] for name in sorted(out)}
