"""MultiModalQA: questions about Wikipedia, answered by a paragraph (TextQ) or a picture (ImageQ).

    DIR/MMQA_dev.jsonl.gz          {"qid", "question", "metadata": {"type"}, "supporting_context": [{"doc_id", "doc_part"}]}
    DIR/MMQA_texts.jsonl.gz        {"id", "title", "text"}
    DIR/MMQA_images.jsonl.gz       {"id", "title", "path"}
    DIR/final_dataset_images/…     the pictures

or the same without ``.gz``. The corpus is every paragraph and every picture; the queries are the
questions of those two types of the dev split (the others need tables, or several documents at once); those of the train
split are references, each with its supporting documents. Reference: Talmor et al., MultiModalQA, ICLR 2021; TextQ and ImageQ as in
similarity standardisation (Yamashita et al.).
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from isthmus.documents import Document, Query
from isthmus.errors import BadFile, BadInput
from isthmus.evaluate.benchmarks.base import Benchmark, Question
from isthmus.evaluate.benchmarks.files import BenchmarkFolder, rows, words

HOME = "https://github.com/allenai/multimodalqa"
KINDS = {"TextQ": "text", "ImageQ": "image"}


def load(data: Path, chosen: Sequence[str]) -> Benchmark:
    """Read the dev split."""
    if chosen:
        raise BadInput(f"mmqa has no variants; none is called {chosen[0]!r}.")
    folder = BenchmarkFolder(data, "mmqa", HOME)
    if (inner := folder.inside("dataset")).path.is_dir():
        folder = inner
    pictures = BenchmarkFolder(data, "mmqa", HOME).file(
        "final_dataset_images", "dataset/final_dataset_images", "images"
    )
    documents = [
        Document(row["id"], text, metadata={"title": row.get("title", "")})
        for row in rows(_file(folder, "texts"), "id", "text")
        if (text := words(row["text"]))
    ]
    documents += [
        Document(row["id"], image=pictures / row["path"], metadata={"title": row.get("title", "")})
        for row in rows(_file(folder, "images"), "id", "path")
    ]
    asked = list(_asked(_file(folder, "dev")))
    held = {document.id for document in documents}
    train = folder.find("MMQA_train.jsonl", "MMQA_train.jsonl.gz")
    return Benchmark(
        "mmqa",
        documents,
        [question for question, _ in asked],
        {question.id: dict.fromkeys(right, 1) for question, right in asked},
        [
            (question.query, tuple(key for key in right if key in held))
            for question, right in (_asked(train) if train else ())
        ],
    )


def _file(folder: BenchmarkFolder, name: str) -> Path:
    return folder.file(f"MMQA_{name}.jsonl", f"MMQA_{name}.jsonl.gz")


def _asked(path: Path) -> Iterator[tuple[Question, list[str]]]:
    """Yield the questions of the two types, with their right documents of that kind."""
    for row in rows(path, "qid", "question", "metadata", "supporting_context"):
        try:
            kind = row["metadata"]["type"]
            right = [each["doc_id"] for each in row["supporting_context"] if each["doc_part"] == KINDS.get(kind)]
        except (KeyError, TypeError) as error:
            raise BadFile(f"{path}: question {row['qid']!r} does not have MultiModalQA's layout: {error}.") from None
        if right:
            yield Question(row["qid"], Query(row["question"]), kind), right
