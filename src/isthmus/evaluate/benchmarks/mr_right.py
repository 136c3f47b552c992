"""Mr. Right: 806,357 Wikipedia documents of text and image, and three queries for each of 2,047 of them.

    DIR/multimodal_documents.json        [{"id", "title", "doc_text", "img_url", "doc_image"}]
    DIR/multimodal_test_queries.json     [{"id", "query_text", "query_img", "query_multi"}]
    DIR/multimodal_val_queries.json      the same, of 100
    DIR/multimodal_finetune_pairs.json   the same with the document, 900, written by humans
    DIR/multimodal_pretrain_pairs.json   351,979 with ``query_text`` and ``query_img``, made by models

``id`` is the id of the document. ``doc_image``, the picture's file in DIR/images (or in DIR), is not in the download:
its README says to add it after fetching the pictures of ``img_url``. A document without it has only text. The queries
are words: text-related, image-related and mixed. References are the queries of the fine-tuning pairs (or of val, if
these are missing); ``mr-right:pretrain`` uses those made by models.
Reference: Hsieh et al., Mr. Right, 2022 (arXiv 2209.13764).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from isthmus.documents import Document, Query
from isthmus.evaluate.benchmarks.base import Benchmark, Question
from isthmus.evaluate.benchmarks.files import BenchmarkFolder, Row, rows, words
from isthmus.registry import lookup

HOME = "https://github.com/hsiehjackson/Mr.Right"
KINDS = {"query_text": "text-related", "query_img": "image-related", "query_multi": "mixed"}
REFERENCES = ("multimodal_finetune_pairs.json", "multimodal_val_queries.json")
PRETRAIN = "multimodal_pretrain_pairs.json"


def load(data: Path, chosen: Sequence[str]) -> Benchmark:
    """Read the test queries."""
    for word in chosen:
        lookup({"pretrain": True}, word, "variant of mr-right")
    folder = BenchmarkFolder(data, "mr-right", HOME)
    pictures = folder.find("images") or data
    documents = [
        Document(str(row["id"]), words(row["doc_text"]), _image(row, pictures), {"title": row.get("title", "")})
        for row in rows(folder.file("multimodal_documents.json"), "id", "doc_text")
    ]
    held = {document.id for document in documents}
    questions, qrels = [], {}
    for number, row in enumerate(rows(folder.file("multimodal_test_queries.json"), "id", *KINDS)):
        for kind, text in _queries(row):
            key = f"{number}-{kind}"
            questions.append(Question(key, Query(text), kind))
            qrels[key] = {str(row["id"]): 1}
    others = folder.file(PRETRAIN) if chosen else folder.find(*REFERENCES)
    references = [
        (Query(text), str(row["id"]) if str(row["id"]) in held else None)
        for row in (rows(others, "id") if others else ())
        for _, text in _queries(row)
    ]
    return Benchmark(":".join(["mr-right", *chosen]), documents, questions, qrels, references)


def _queries(row: Row) -> Iterator[tuple[str, str]]:
    for name, kind in KINDS.items():
        if text := words(row.get(name)):
            yield kind, text


def _image(row: Row, pictures: Path) -> Path | None:
    return pictures / row["doc_image"] if row.get("doc_image") else None
