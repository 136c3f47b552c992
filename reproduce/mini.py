"""The quality of ``mini``: photos by captions, captions by photos, abstracts by claims, with the shipped 8-bit files.

python reproduce/mini.py --data DIR        (needs flickr8k/ and scifact/; about 6 minutes on 2 cores)
"""

from __future__ import annotations

import json
from pathlib import Path

import flickr8k
import numpy as np
from tables import Row, arguments, compared

from isthmus import encoders
from isthmus.calibration import ndcg_at_10
from isthmus.documents import Document, Query
from isthmus.encoders.base import Encoder


def scifact(encoder: Encoder, folder: Path) -> float:
    """Return nDCG@10 of the test claims over all abstracts; a long abstract is the mean of its passages."""
    corpus = [json.loads(line) for line in (folder / "corpus.jsonl").read_text("utf-8").splitlines()]
    claims = {q["_id"]: q["text"] for q in map(json.loads, (folder / "queries.jsonl").read_text("utf-8").splitlines())}
    row = {d["_id"]: i for i, d in enumerate(corpus)}
    judged: dict[str, list[int]] = {}
    for line in (folder / "qrels" / "test.tsv").read_text("utf-8").splitlines()[1:]:
        query, document, grade = line.split("\t")
        if int(grade) > 0:
            judged.setdefault(query, []).append(row[document])
    texts = [Document(id=d["_id"], text=f"{d['title']}. {d['text']}") for d in corpus]
    documents = encoder.encode_documents(texts).parts["text"]
    queries = encoder.encode_queries([Query(text=claims[q]) for q in judged]).parts["text"]
    relevant = np.zeros((len(judged), len(corpus)), dtype=bool)
    for i, rows in enumerate(judged.values()):
        relevant[i, rows] = True
    return float(ndcg_at_10(queries @ documents.T, relevant).mean())


def main(data: Path) -> list[Row]:
    encoder = encoders.load("mini", batch=64)
    rows: list[Row] = [
        {"measure": f"Flickr8k {name}, {measure}", "value": value}
        for name in ("dev", "test")
        for measure, value in flickr8k.recall(flickr8k.split(encoder, data / "flickr8k", name)).items()
    ]
    return [*rows, {"measure": "SciFact test, nDCG@10", "value": scifact(encoder, data / "scifact")}]


if __name__ == "__main__":
    options = arguments(__doc__)
    raise SystemExit(compared("mini", main(options.data), options.write))
