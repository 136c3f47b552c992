"""Queries with known right documents: read them, split them, and find hard negatives.

read(folder)                      a set in BEIR's layout, its train split
split(judged, share, seed)        queries to train on, and held-out queries
mined(judged, retrievers, depth)  hard negatives: wrong documents that retrievers rank first
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path

import numpy as np

from isthmus.align import Retriever
from isthmus.errors import BadInput
from isthmus.evaluate.benchmarks import beir


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """Texts by id, and the right documents of each query; every query has one."""

    documents: Mapping[str, str]
    queries: Mapping[str, str]
    right: Mapping[str, Sequence[str]]


def read(folder: Path) -> Judged:
    """Read ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/train.tsv``. No other split is read."""
    whole = beir.load(folder, ["train"])
    documents = {document.id: document.text or "" for document in whole.documents}
    right = {
        query: [name for name, score in judged.items() if score > 0 and name in documents]
        for query, judged in whole.qrels.items()
    }
    queries = {question.id: question.query.text or "" for question in whole.questions if right[question.id]}
    if len(queries) < 2:
        raise BadInput(
            f"{folder}/qrels/train.tsv has fewer than two queries with a right document. Training needs more."
        )
    return Judged(documents, queries, {query: right[query] for query in queries})


def split(judged: Judged, share: float, seed: int, *, apart: bool = False) -> tuple[list[str], list[str]]:
    """Return the queries to train on and the held-out ones, about ``share`` of all.

    With ``apart``, queries that share a right document, directly or through others, stay together: held-out queries
    share no right document with the others. Without it they may, like future queries about the same documents.
    """
    groups = _groups(judged.right) if apart else [[query] for query in judged.queries]
    wanted = round(share * len(judged.queries))
    held: set[str] = set()
    for at in np.random.default_rng(seed).permutation(len(groups)):
        if len(held) + len(groups[at]) <= wanted:
            held.update(groups[at])
    if not held or len(held) == len(judged.queries):
        raise BadInput(
            f"{share:.0%} of {len(judged.queries)} queries cannot be held out: there are {len(groups)} groups, the "
            f"smallest of {min(map(len, groups))}. Hold out another share."
        )
    learned = [query for query in judged.queries if query not in held]
    return learned, [query for query in judged.queries if query in held]


def mined(judged: Judged, retrievers: Sequence[Retriever], depth: int) -> dict[str, list[str]]:
    """Return hard negatives of each query: wrong documents among the first ``depth`` of each retriever.

    The lists are interleaved, best first, each document once: BM25's first, the checkpoint's first, BM25's second …
    """
    most = depth + max(map(len, judged.right.values()))
    texts = list(judged.queries.values())
    found = [retriever.search(texts, most) for retriever in retrievers]
    negatives: dict[str, list[str]] = {}
    for query, *lists in zip(judged.queries, *found, strict=True):
        right = set(judged.right[query])
        wrong = [[name for name, _ in several if name not in right][:depth] for several in lists]
        negatives[query] = list(dict.fromkeys(name for name in chain.from_iterable(zip_longest(*wrong)) if name))
    return negatives


def _groups(right: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Return groups of queries connected by right documents, in the order of their first."""
    first: dict[str, str] = {}  # of each document, some query that has it

    def root(query: str) -> str:
        while above[query] != query:
            query = above[query]
        return query

    above = {query: query for query in right}
    for query, names in right.items():
        for name in names:
            above[root(query)] = root(first.setdefault(name, query))
    groups: dict[str, list[str]] = {}
    for query in right:
        groups.setdefault(root(query), []).append(query)
    return list(groups.values())
