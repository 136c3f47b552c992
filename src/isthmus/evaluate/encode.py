"""From a benchmark to arrays: the only place in ``evaluate`` that uses an encoder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from isthmus.documents import Document
from isthmus.encoders import Encoder
from isthmus.encoders.references import SHIPPED_QUERIES, bank_vectors
from isthmus.errors import BadInput
from isthmus.evaluate.benchmarks import Benchmark
from isthmus.evaluate.benchmarks.base import keys
from isthmus.evaluate.compare import Corpus, References
from isthmus.types import Rows, Vectors


def encoded(
    benchmark: Benchmark,
    encoder: Encoder,
    skip: Callable[[str, BadInput], None] | None = None,
    *,
    gallery: bool = False,
) -> Corpus:
    """Encode documents by passage, queries, and reference queries; ``skip`` receives what cannot be read.

    A benchmark without reference queries is calibrated on the built-in bank. ``gallery``: also provide the bank of
    documents that ``dbnorm`` needs, none of them searched: those of the other split if the benchmark has it as
    documents of their own, the built-in bank otherwise.
    """
    ids, documents, owner = passages(encoder, benchmark.documents, skip)
    questions = benchmark.questions
    references = _references(benchmark, encoder, ids, skip)
    if gallery:
        other = references.documents
        bank = bank_vectors(encoder, limit=SHIPPED_QUERIES) if other is None else other
        references = replace(references, gallery=bank)
    return Corpus(
        document_ids=ids,
        documents=documents,
        owner=owner,
        query_ids=[question.id for question in questions],
        queries=encoder.encode_queries([question.query for question in questions]),
        qrels=benchmark.qrels,
        types={question.id: question.kind for question in questions if question.kind},
        references=references,
        excluded=benchmark.excluded,
        benchmark=benchmark.name,
        encoder=encoder.name,
    )


def _references(
    benchmark: Benchmark, encoder: Encoder, ids: Sequence[str], skip: Callable[[str, BadInput], None] | None
) -> References:
    if not benchmark.references:
        return References(queries=bank_vectors(encoder, limit=SHIPPED_QUERIES))
    queries = encoder.encode_queries([query for query, _ in benchmark.references])
    documents = owner = None
    if benchmark.reference_documents:
        ids, documents, owner = passages(encoder, benchmark.reference_documents, skip)
    place = {name: row for row, name in enumerate(ids)}
    pairs = [
        (query, place[key])
        for query, (_, source) in enumerate(benchmark.references)
        for key in keys(source)
        if key in place
    ]
    return References(queries=queries, sources=pairs or None, documents=documents, owner=owner)


def passages(
    encoder: Encoder, documents: Sequence[Document], skip: Callable[[str, BadInput], None] | None
) -> tuple[list[str], Vectors, Rows]:
    """Return the ids of the documents that could be encoded, a row per passage, and the owner of each row."""
    tell = None if skip is None else (lambda row, problem: skip(documents[row].id, problem))
    vectors, owner = encoder.encode_passages(documents, skip=tell)
    kept, numbers = np.unique(owner, return_inverse=True)
    return [documents[row].id for row in kept], vectors, numbers
