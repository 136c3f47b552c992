"""Mixtures: corpora that differ in what is text and what is picture, asked by text, by picture and by both.

    DIR/NAME/documents.jsonl       {"id", "text"?, "image"?: a path in DIR/NAME}
    DIR/NAME/queries.jsonl         the same
    DIR/NAME/qrels.tsv             query-id ⇥ corpus-id ⇥ score

``python reproduce/mixtures_set.py`` builds them; docs/evaluate.md lists them. ``mixtures:coco`` reads DIR/coco. A
question's type is its slice, ``text → image``: its own modality, and that of its best documents (``several`` if they
differ). There are no references: calibrations are fitted on the built-in bank. Methods are designed on the mixtures
whose name ends in ``-dev`` (the group ``mixtures:dev``); the others (``mixtures:held-out``) are for the final
measurement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from isthmus.documents import Document, Query
from isthmus.errors import BadInput
from isthmus.evaluate.benchmarks.base import Benchmark, Question
from isthmus.evaluate.benchmarks.files import judgements, picture, rows, words
from isthmus.registry import lookup

NAME = "mixtures"
GROUPS = ("dev", "held-out")
DOCUMENTS, QUERIES, QRELS = "documents.jsonl", "queries.jsonl", "qrels.tsv"
SEVERAL = "several"


def load(data: Path, chosen: Sequence[str]) -> Benchmark:
    """Read one mixture."""
    known = names(data)
    if len(chosen) != 1 or chosen[0] in GROUPS:
        raise BadInput(f"Choose one mixture: {', '.join(f'{NAME}:{name}' for name in known)}.")
    folder = lookup({name: data / name for name in known}, chosen[0], "mixture")
    documents = [
        Document(str(row["id"]), words(row.get("text")), picture(row.get("image"), folder))
        for row in rows(_file(folder / DOCUMENTS), "id")
    ]
    queries = {
        str(row["id"]): Query(words(row.get("text")), picture(row.get("image"), folder))
        for row in rows(_file(folder / QUERIES), "id")
    }
    qrels = judgements(_file(folder / QRELS), "query-id", "corpus-id")
    modality = {document.id: document.modality for document in documents}
    questions = [
        Question(key, query, f"{query.modality} → {best(qrels.get(key, {}), modality)}")
        for key, query in queries.items()
    ]
    return Benchmark(f"{NAME}:{chosen[0]}", documents, questions, qrels)


def names(data: Path, group: str | None = None) -> list[str]:
    """Return the mixtures of a folder: all, those to design methods on (``dev``), or the others (``held-out``)."""
    found = sorted(path.parent.name for path in data.glob(f"*/{DOCUMENTS}"))
    chosen = [name for name in found if group is None or name.endswith("-dev") == (group == "dev")]
    if not chosen:
        _file(data / ("NAME-dev" if group == "dev" else "NAME") / DOCUMENTS)
    return chosen


def _file(path: Path) -> Path:
    if not path.exists():
        raise BadInput(
            f"{NAME} needs {path}, which does not exist. Build it with: python reproduce/mixtures_set.py --out FOLDER"
        )
    return path


def best(judged: Mapping[str, int], modality: Mapping[str, str]) -> str:
    """Return the modality of the documents with the highest grade.

    >>> best({"photo": 2, "caption": 1}, {"photo": "image", "caption": "text"})
    'image'
    """
    highest = max(judged.values(), default=0)
    found = {modality[name] for name, grade in judged.items() if grade == highest and name in modality}
    return found.pop() if len(found) == 1 else SEVERAL
