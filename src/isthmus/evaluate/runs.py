"""Judgements and rankings: ``Qrels`` and ``Run``, and their file formats.

    TREC run     query Q0 document rank score tag      one line per hit
    TREC qrels   query 0 document relevance            one line per judgement
    BEIR qrels   query ⇥ document ⇥ relevance          with a header line

TREC's columns are separated by spaces, so an id that contains a space cannot be written: it is rejected, not escaped,
because other programs would read the escaped id as another document. BEIR's are separated by tabs.

Files are written atomically. A damaged file raises an error with the line number.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from isthmus.atomic import replacing
from isthmus.errors import BadFile, BadInput
from isthmus.types import Matrix, Rows

Qrels: TypeAlias = Mapping[str, Mapping[str, int]]
Run: TypeAlias = Mapping[str, Mapping[str, float]]
Ids: TypeAlias = Sequence[str] | NDArray[np.str_]
Layout: TypeAlias = Literal["trec", "beir"]

BEIR_HEADER = ("query-id", "corpus-id", "score")


def ranking(hits: Mapping[str, float], k: int | None = None, query: str = "") -> list[str]:
    """Return the documents best first; those with equal scores keep the order of ``hits``.

    >>> ranking({"a": 0.5, "b": 0.9, "c": 0.5}, 2)
    ['b', 'a']
    """
    for document, score in hits.items():
        if math.isnan(score):
            raise BadInput(f"The score of document {document!r} for query {query!r} is not a number.")
    return sorted(hits, key=lambda document: -hits[document])[:k]


def best_rows(scores: Matrix, k: int) -> Rows:
    """Return the positions of the ``k`` largest scores, best first; of equal ones the first.

    >>> best_rows(np.array([0.5, 0.9, 0.5, 0.1]), 2).tolist()
    [1, 0]
    """
    near: Rows = np.arange(len(scores))
    if k < len(scores):
        near = np.flatnonzero(scores >= np.partition(scores, -k)[-k])  # the k best, and all that equal the last
    return np.asarray(near[np.argsort(-scores[near], kind="stable")][:k])


def run_of(scores: Matrix, queries: Ids, documents: Ids, k: int = 1000) -> dict[str, dict[str, float]]:
    """Return the ``k`` best documents of each query from dense scores, ``(n_queries, n_documents)``.

    Equal scores rank in the order of the documents; −inf excludes a document for this query.

    >>> run_of(np.array([[0.5, 0.9, 0.5]]), ["q"], ["a", "b", "c"], k=2)
    {'q': {'b': 0.9, 'a': 0.5}}
    """
    if k < 1:
        raise BadInput(f"k must be at least 1, not {k}.")
    scores = np.asarray(scores)
    if scores.shape != (len(queries), len(documents)):
        raise BadInput(
            f"Scores of shape {scores.shape} do not fit {len(queries)} queries and {len(documents)} documents."
        )
    _once(queries, "query")
    _once(documents, "document")
    wrong = np.isnan(scores).any(axis=1)
    if wrong.any():
        raise BadInput(f"A score of query {queries[int(np.argmax(wrong))]!r} is not a number.")
    out: dict[str, dict[str, float]] = {}
    for query, row in zip(queries, scores, strict=True):
        best = best_rows(row, k)
        out[str(query)] = {str(documents[i]): float(row[i]) for i in best if row[i] != -np.inf}
    return out


def read_run(path: str | PathLike[str]) -> dict[str, dict[str, float]]:
    """Read a TREC run. Scores determine the ranking, as in trec_eval; the rank column is ignored."""
    run: dict[str, dict[str, float]] = {}
    for number, line in _lines(path):
        columns = line.split()
        if len(columns) != 6:
            _damaged(
                path,
                number,
                f"a run has 6 columns (query Q0 document rank score tag), but this line has {len(columns)}",
            )
        query, _, document, _, written, _ = columns
        hits = run.setdefault(query, {})
        if document in hits:
            _damaged(path, number, f"document {document!r} occurs twice for query {query!r}")
        hits[document] = _score(path, number, written)
    return run


def write_run(run: Run, path: str | PathLike[str], *, tag: str = "isthmus") -> None:
    """Write a TREC run, each query's documents best first, scores in full."""
    _write(path, _run_lines(run, _word(tag, "tag")))


def read_qrels(path: str | PathLike[str]) -> dict[str, dict[str, int]]:
    """Read judgements in TREC's or BEIR's layout; tabs and a header line identify BEIR's."""
    qrels: dict[str, dict[str, int]] = {}
    beir: bool | None = None
    for number, line in _lines(path):
        if beir is None:
            beir = len(line.split("\t")) == 3
            if beir and tuple(line.split("\t")) == BEIR_HEADER:
                continue
        columns = line.split("\t") if beir else line.split()
        if len(columns) != (3 if beir else 4):
            form = "3 columns separated by tabs" if beir else "4 columns (query 0 document relevance)"
            _damaged(path, number, f"judgements have {form}, but this line has {len(columns)}")
        query, document, written = columns[0], columns[-2], columns[-1]
        if not query or not document:
            _damaged(path, number, "an id is empty")
        relevance = _score(path, number, written)
        if relevance != int(relevance):
            _damaged(path, number, f"a relevance must be a whole number, not {written!r}")
        if qrels.setdefault(query, {}).setdefault(document, int(relevance)) != relevance:
            _damaged(path, number, f"document {document!r} has two different judgements for query {query!r}")
    if not qrels:
        raise BadFile(f"{path} contains no judgements.")
    return qrels


def write_qrels(qrels: Qrels, path: str | PathLike[str], *, layout: Layout = "trec") -> None:
    """Write judgements, in TREC's layout or in BEIR's."""
    if layout not in ("trec", "beir"):
        raise BadInput(f"The layout must be 'trec' or 'beir', not {layout!r}.")
    _write(path, _trec_lines(qrels) if layout == "trec" else _beir_lines(qrels))


def _run_lines(run: Run, tag: str) -> Iterator[str]:
    for query, hits in run.items():
        query_id = _word(query, "query")
        for rank, document in enumerate(ranking(hits, query=query), start=1):
            score = float(hits[document])
            if math.isinf(score):
                raise BadInput(f"The score of document {document!r} for query {query!r} is infinite.")
            yield f"{query_id} Q0 {_word(document, 'document')} {rank} {score!r} {tag}"


def _trec_lines(qrels: Qrels) -> Iterator[str]:
    for query, judged in qrels.items():
        query_id = _word(query, "query")
        yield from (f"{query_id} 0 {_word(document, 'document')} {rel:d}" for document, rel in judged.items())


def _beir_lines(qrels: Qrels) -> Iterator[str]:
    yield "\t".join(BEIR_HEADER)
    for query, judged in qrels.items():
        query_id = _cell(query, "query")
        yield from (f"{query_id}\t{_cell(document, 'document')}\t{rel:d}" for document, rel in judged.items())


def _word(name: str, kind: str) -> str:
    if len(name.split()) != 1 or name != name.strip():
        raise BadInput(
            f"The {kind} {name!r} cannot be written to a TREC file, whose columns are separated by spaces. Use an id "
            "without them; judgements may be written with layout='beir'."
        )
    return name


def _cell(name: str, kind: str) -> str:
    if not name or len(name.splitlines()) != 1 or "\t" in name or name != name.strip("\r\n"):
        raise BadInput(
            f"The {kind} {name!r} is empty, or contains a tab or a line break, and cannot be written. Use another id."
        )
    return name


def _lines(path: str | PathLike[str]) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not empty, numbered from 1."""
    with Path(path).open("rb") as file:
        for number, raw in enumerate(file, start=1):
            try:
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
            except UnicodeDecodeError:
                _damaged(path, number, "it is not UTF-8")
            if "\0" in line:
                _damaged(path, number, "it contains a zero byte")
            if line.strip():
                yield number, line


def _score(path: str | PathLike[str], number: int, written: str) -> float:
    with suppress(ValueError):
        score = float(written)
        if math.isfinite(score):
            return score
    return _damaged(path, number, f"{written!r} is not a finite number")


def _damaged(path: Any, number: int, why: str) -> NoReturn:
    raise BadFile(f"{path}, line {number}: {why}.")


def _write(path: str | PathLike[str], lines: Iterable[str]) -> None:
    with replacing(path) as draft, draft.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in lines)


def _once(ids: Ids, kind: str) -> None:
    if len(set(ids)) < len(ids):
        seen: set[str] = set()
        twice = next(name for name in ids if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise BadInput(f"The {kind} {twice!r} occurs twice. Ids must be unique.")
