"""The quality of ``mini``: photos and drawings by words, abstracts by claims, with the shipped 8-bit files.

    python reproduce/mini.py --data DIR --packs PACKS        (needs flickr8k/ and scifact/; about 8 minutes on 2 cores)
    python reproduce/mini.py … --made OUT                    (both encoders that `isthmus train mini --out OUT` made)

PACKS holds COCO's photos and the drawings, packed (``python -m isthmus.train.data``; docs/mini.md says how).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import flickr8k
import numpy as np
import packed
from tables import Row, arguments, compared

from isthmus import encoders
from isthmus.calibration import ndcg_at_10
from isthmus.documents import Document, Query
from isthmus.encoders.base import Encoder

PER_PHOTO = 5  # captions
OPTIONS = {"packs": "folder of the packed sets"}
MADE = "folder of `isthmus train mini`: measure its encoders instead of the shipped one"


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


def made(data: Path, packs: Path, out: Path) -> list[Row]:
    """Measure both encoders that a training made, on the test sets."""
    mini = encoders.load(f"onnx:{out / 'mini'}", batch=64)
    base = encoders.load(f"onnx:{out / 'base'}", batch=64, device="auto")
    several: dict[str, packed.PicturesAndWords] = {"mini": mini, "base": base}
    measured = {name: recalls(encoder, data, packs, ("test",)) for name, encoder in several.items()}
    rows: list[Row] = [
        {"measure": measure, **{name: of[measure] for name, of in measured.items()}} for measure in measured["mini"]
    ]
    found = scifact(mini, data / "scifact")
    return [*rows, {"measure": "SciFact test, nDCG@10", "mini": found, "base": found}]


def main(data: Path, packs: Path) -> list[Row]:
    """Measure the shipped encoder."""
    encoder = encoders.load("mini", batch=64)
    rows: list[Row] = [
        {"measure": measure, "value": value}
        for measure, value in recalls(encoder, data, packs, ("dev", "test")).items()
    ]
    return [*rows, {"measure": "SciFact test, nDCG@10", "value": scifact(encoder, data / "scifact")}]


def recalls(encoder: packed.PicturesAndWords, data: Path, packs: Path, splits: Sequence[str]) -> dict[str, float]:
    """Measure photos and drawings by words, and words by them."""
    found = {f"Flickr8k {s}": flickr8k.recall(flickr8k.split(encoder, data / "flickr8k", s)) for s in splits}
    found |= {f"COCO {s}": packed.recall(encoder, packed.photos(encoder, packs, s), PER_PHOTO) for s in splits}
    found |= {kind: packed.recall(encoder, packed.named(encoder, packs, kind), 1) for kind in packed.DRAWINGS}
    return {f"{name}, {measure}": value for name, several in found.items() for measure, value in several.items()}


if __name__ == "__main__":
    options = arguments(__doc__, {**OPTIONS, "made": MADE})
    if options.made:
        rows = made(options.data, Path(options.packs), Path(options.made))
        raise SystemExit(compared("mini_made", rows, options.write))
    raise SystemExit(compared("mini", main(options.data, Path(options.packs)), options.write))
