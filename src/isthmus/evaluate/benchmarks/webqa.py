"""WebQA: questions answered by snippets of text (TextQ) or by pictures (ImageQ).

    DIR/WebQA_train_val.json       {guid: {"Q", "split", "txt_posFacts": [{"snippet_id", "fact"}], "txt_negFacts",
                                    "img_posFacts": [{"image_id", "caption"}], "img_negFacts"}}
    DIR/images/30000001.jpg        the pictures by ``image_id``

WebQA publishes its pictures as one table, ``imgs.tsv`` (id ⇥ base64): write them to files first, which takes 50 GB
either way. The queries are the questions of the val split. The corpus is every fact of every question, of the train
split too, right or wrong, as in Yamashita et al. (§5.1: all that is "relevant to all queries", 787,000 texts and
389,000 images). ``webqa:val`` searches only the facts of the val split. The questions of the train split are
references, each with its right facts (with ``val``, without).
``webqa:captions`` makes a picture and its caption one image+text document; without it captions are not used. The test
split has no judgements and is not read. Reference: Chang et al., WebQA, CVPR 2022; TextQ and ImageQ as in similarity
standardisation (Yamashita et al.).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from isthmus.documents import Document, Query
from isthmus.errors import BadFile, BadInput
from isthmus.evaluate.benchmarks.base import Benchmark, Question, Source
from isthmus.evaluate.benchmarks.files import BenchmarkFolder, content, words
from isthmus.registry import lookup

HOME = "https://github.com/WebQnA/WebQA"
FILE = "WebQA_train_val.json"


def load(data: Path, chosen: Sequence[str]) -> Benchmark:
    """Read the questions of the val split, and the facts of all."""
    for word in chosen:
        lookup({"captions": True, "val": True}, word, "variant of webqa")
    folder = BenchmarkFolder(data, "webqa", HOME)
    path = folder.file(FILE)
    if not (pictures := folder.find("images", "imgs")) and folder.find("imgs.tsv"):
        raise BadInput(f"webqa needs its pictures as files: write those in {data / 'imgs.tsv'} to {data / 'images'}.")
    pictures = pictures or folder.file("images")
    held = content(path)
    if not isinstance(held, Mapping):
        raise BadFile(f"{path} has no questions by guid. It is not {FILE}.")
    documents: dict[str, Document] = {}
    questions, qrels = [], {}
    references: list[tuple[Query, Source]] = []
    try:
        for guid, row in held.items():
            asked, searched = Query(_unquoted(row["Q"])), row["split"] == "val"
            if not searched and "val" in chosen:
                references.append((asked, None))
                continue
            right = _facts(row, "pos", pictures, "captions" in chosen)
            for fact in [*right, *_facts(row, "neg", pictures, "captions" in chosen)]:
                documents.setdefault(fact.id, fact)
            if not searched:
                references.append((asked, tuple(fact.id for fact in right)))
            elif right:
                questions.append(Question(guid, asked, "ImageQ" if row["img_posFacts"] else "TextQ"))
                qrels[guid] = {fact.id: 1 for fact in right}
    except (KeyError, TypeError) as error:
        raise BadFile(f"{path}: question {guid!r} does not have WebQA's layout: {error}.") from None
    name = ":".join(["webqa", *chosen])
    return Benchmark(name, list(documents.values()), questions, qrels, references)


def _facts(row: Mapping[str, Any], sign: str, pictures: Path, captions: bool) -> list[Document]:
    """Return the facts that are right (``pos``) or wrong (``neg``)."""
    texts = [Document(str(each["snippet_id"]), words(each["fact"])) for each in row[f"txt_{sign}Facts"]]
    images = [
        Document(str(each["image_id"]), words(each["caption"]) if captions else None, _picture(pictures, each))
        for each in row[f"img_{sign}Facts"]
    ]
    return [*texts, *images]


def _picture(pictures: Path, fact: Mapping[str, Any]) -> Path:
    return pictures / f"{fact['image_id']}.jpg"


def _unquoted(question: str) -> str:
    """Remove the quotation marks around every question of WebQA."""
    inner = question.strip()
    return inner[1:-1] if len(inner) > 2 and inner[0] == inner[-1] == '"' else inner
