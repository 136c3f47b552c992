"""M-BEIR: sixteen tasks over ten sets, from one pool of 5.6 million documents of every modality.

    DIR/cand_pool/global/mbeir_union_test_cand_pool.jsonl       {"did": "9:2", "txt"?, "img_path"?, "modality"}
    DIR/cand_pool/local/mbeir_mscoco_task0_test_cand_pool.jsonl the documents of one task (some without ``_test``)
    DIR/query/test/mbeir_mscoco_task0_test.jsonl                {"qid": "9:1", "query_txt"?, "query_img_path"?,
                                                                 "pos_cand_list": ["9:2", …]}
    DIR/qrels/test/mbeir_mscoco_task0_test_qrels.txt            9:1 0 9:2 1 0
    DIR/mbeir_images/…                                          the pictures that the rows name

``m-beir`` searches the global pool with every test query; ``m-beir:mscoco_task0`` searches the pool of one task with
its queries, and ``m-beir:mscoco_task0,global`` the global one. If the qrels are missing, the queries' own lists are
used. The kind of a query is its task. References are the val queries of the same tasks, without their documents. The
instructions are not used. Reference: Wei et al., UniIR, ECCV 2024.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from isthmus.documents import Document, Query
from isthmus.errors import BadFile, BadInput
from isthmus.evaluate.benchmarks.base import Benchmark, Question
from isthmus.evaluate.benchmarks.files import BenchmarkFolder, Row, lines, picture, relevance, rows, words

HOME = "https://huggingface.co/datasets/TIGER-Lab/M-BEIR"
POOL = "cand_pool/global/mbeir_union_test_cand_pool.jsonl"


def load(data: Path, chosen: Sequence[str]) -> Benchmark:
    """Read the test queries of all tasks, or of those named."""
    folder = BenchmarkFolder(data, "m-beir", HOME)
    tasks = [word for word in chosen if word != "global"] or _tasks(folder)
    documents: dict[str, Document] = {}
    for pool in _pools(folder, [word for word in chosen if word != "global"], "global" in chosen):
        for row in rows(pool, "did"):
            found = Document(row["did"], words(row.get("txt")), picture(row.get("img_path"), data))
            documents.setdefault(found.id, found)
    questions: list[Question] = []
    qrels: dict[str, dict[str, int]] = {}
    references: list[tuple[Query, str | None]] = []
    for task in tasks:
        asked = list(rows(folder.file(f"query/test/mbeir_{task}_test.jsonl"), "qid", "pos_cand_list"))
        judged = _judged(folder, task)
        for row in asked:
            key = f"{task}/{row['qid']}"
            questions.append(Question(key, _query(row, data), task))
            qrels[key] = judged.get(row["qid"]) or dict.fromkeys(_right(row), 1)
        if others := folder.find(f"query/val/mbeir_{task}_val.jsonl"):
            references += [(_query(row, data), None) for row in rows(others, "qid")]
    name = ":".join(["m-beir", *([",".join(chosen)] if chosen else [])])
    return Benchmark(name, list(documents.values()), questions, qrels, references)


def _tasks(folder: BenchmarkFolder) -> list[str]:
    found = folder.file("query/test").glob("mbeir_*_test.jsonl")
    tasks = sorted(path.name.removeprefix("mbeir_").removesuffix("_test.jsonl") for path in found)
    if not tasks:
        raise BadInput(f"{folder.path / 'query/test'} has no queries of m-beir. Download them from {HOME}.")
    return tasks


def _pools(folder: BenchmarkFolder, tasks: Sequence[str], whole: bool) -> list[Path]:
    if whole or not tasks:
        return [folder.file(POOL)]
    local = "cand_pool/local/mbeir_"
    return [folder.file(f"{local}{task}_test_cand_pool.jsonl", f"{local}{task}_cand_pool.jsonl") for task in tasks]


def _query(row: Row, data: Path) -> Query:
    return Query(words(row.get("query_txt")), picture(row.get("query_img_path"), data))


def _right(row: Row) -> list[str]:
    """Return the right documents; the dataset card shows objects with a ``did``, the files hold only ids."""
    return [each["did"] if isinstance(each, Mapping) else str(each) for each in row["pos_cand_list"]]


def _judged(folder: BenchmarkFolder, task: str) -> dict[str, dict[str, int]]:
    """Read TREC's qrels: query, 0, document, relevance, and the number of the task."""
    judged: dict[str, dict[str, int]] = {}
    path = folder.find(f"qrels/test/mbeir_{task}_test_qrels.txt")
    for line in lines(path) if path else ():
        fields = line.split()
        if len(fields) < 4:
            raise BadFile(f"{path} has a line that is not a judgement: {line!r}. Download it again.")
        judged.setdefault(fields[0], {})[fields[2]] = relevance(fields[3], path or folder.path)
    return judged
