"""A benchmark: documents, queries, and judgements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from isthmus.documents import Document, Query
from isthmus.errors import BadInput

Source: TypeAlias = str | tuple[str, ...] | None


@dataclass(frozen=True)
class Question:
    """A query of a benchmark; ``kind`` is its type if the benchmark has types, such as TextQ."""

    id: str
    query: Query
    kind: str = ""


@dataclass(frozen=True)
class Benchmark:
    """Documents, queries, and the relevance of documents by query.

    ``references`` are queries to calibrate on, from another split, each with the id of the document it was made from or
    that is right for it, several ids, or None if unknown: of ``reference_documents``, or of ``documents`` if there are
    none. ``domains`` holds the domain of each query, for benchmarks that average over domains. ``excluded`` holds the
    documents that are removed from the ranking of a query.

    >>> Benchmark("one", [Document("d", "a cat")], [Question("q", Query("cat"))], {"q": {"d": 1}})
    <Benchmark one: 1 text; 1 question>
    """

    name: str
    documents: Sequence[Document]
    questions: Sequence[Question]
    qrels: Mapping[str, Mapping[str, int]]
    references: Sequence[tuple[Query, Source]] = ()
    reference_documents: Sequence[Document] = ()
    domains: Mapping[str, str] = field(default_factory=dict)
    excluded: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        asked = _distinct(self.name, "question", [question.id for question in self.questions])
        known = _distinct(self.name, "document", [document.id for document in self.documents])
        if unasked := self.qrels.keys() - asked:
            raise BadInput(f"The qrels of {self.name} judge {min(unasked)!r}, which is not one of its queries.")
        if unjudged := asked - self.qrels.keys():
            raise BadInput(f"The query {min(unjudged)!r} of {self.name} has no qrels.")
        sources = {document.id for document in self.reference_documents} or known
        if astray := {key for _, source in self.references for key in keys(source)} - sources:
            raise BadInput(
                f"A reference query of {self.name} was made from {min(astray)!r}, which is not one of its documents."
            )

    def __repr__(self) -> str:
        modalities = Counter(document.modality for document in self.documents)
        held = ", ".join(f"{count} {modality}" for modality, count in sorted(modalities.items()))
        n = len(self.questions)
        return f"<Benchmark {self.name}: {held}; {n} question{'s' if n != 1 else ''}>"


def keys(source: Source) -> tuple[str, ...]:
    """Return the documents of a reference query.

    >>> keys("a"), keys(("a", "b")), keys(None)
    (('a',), ('a', 'b'), ())
    """
    return (source,) if isinstance(source, str) else source or ()


def _distinct(name: str, kind: str, ids: Sequence[str]) -> set[str]:
    distinct = set(ids)
    if len(distinct) < len(ids):
        twice = next(key for key, count in Counter(ids).items() if count > 1)
        raise BadInput(f"{name} has two {kind}s with the id {twice!r}. Download its files again.")
    return distinct
