"""Any BEIR set: texts, in the layout of most published retrieval sets.

    DIR/corpus.jsonl               {"_id", "title", "text"}
    DIR/queries.jsonl              {"_id", "text"}, of every split
    DIR/qrels/test.tsv             query-id ⇥ corpus-id ⇥ score

``beir:scifact`` reads the folder DIR/scifact, ``beir:dev`` the split dev. Documents are title and text, as BEIR
joins them. References are the queries of the train split (or of dev), each with its first right document. A document
without title and text is left out; some sets have a few. Reference: Thakur et al., NeurIPS 2021.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from isthmus.documents import Document, Query
from isthmus.errors import BadInput
from isthmus.evaluate.benchmarks.base import Benchmark, Question
from isthmus.evaluate.benchmarks.files import BenchmarkFolder, judgements, rows, words

HOME = "https://github.com/beir-cellar/beir"
SPLITS = ("test", "dev", "train")


def load(data: Path, chosen: Sequence[str]) -> Benchmark:
    """Read a set; the names select a folder of ``data`` and a split."""
    split = next((word for word in chosen if word in SPLITS), "test")
    names = [word for word in chosen if word not in SPLITS]
    if len(names) > 1:
        raise BadInput(f"beir reads one set at a time, not {' and '.join(names)}.")
    folder = BenchmarkFolder(data / names[0] if names else data, "beir", HOME)
    documents = [
        Document(str(row["_id"]), text)
        for row in rows(folder.file("corpus.jsonl"), "_id", "text")
        if (text := words(f"{row.get('title') or ''} {row['text'] or ''}"))
    ]
    asked = {str(row["_id"]): row["text"] for row in rows(folder.file("queries.jsonl"), "_id", "text")}
    qrels = _split(folder, split, asked)
    other = next((name for name in ("train", "dev") if name != split and folder.find(f"qrels/{name}.tsv")), None)
    held = {document.id for document in documents}
    references = [
        (Query(asked[key]), next((right for right, score in judged.items() if score > 0 and right in held), None))
        for key, judged in (_split(folder, other, asked) if other else {}).items()
        if key not in qrels
    ]
    questions = [Question(key, Query(asked[key])) for key in qrels]
    return Benchmark(":".join(["beir", *names]), documents, questions, qrels, references)


def _split(folder: BenchmarkFolder, name: str, asked: dict[str, str]) -> dict[str, dict[str, int]]:
    path = folder.file(f"qrels/{name}.tsv")
    judged = judgements(path, "query-id", "corpus-id")
    if unknown := judged.keys() - asked.keys():
        raise BadInput(f"{path} judges {min(unknown)!r}, which is not in queries.jsonl. Download both from {HOME}.")
    return judged
