"""A collection that calibrates itself, compared with raw cosine, with and without words (BM25).

    python reproduce/collection.py --data DIR        (needs flickr8k/, mix/ and scifact/)

The collections get only their documents: reference queries are generated from these and from the built-in bank.
nDCG@10, by the modality of the right document for the mixed corpus.
"""

from __future__ import annotations

import csv
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
from mixture import collection, questions
from tables import Row, arguments, compared

from isthmus import Collection
from isthmus.search import Hit

MODALITIES = ("text", "image", "image+text")
SETTINGS = (("raw cosine", "none", False), ("auto", None, False), ("auto, hybrid", None, True))


def gain(hits: list[Hit], right: dict[str, int]) -> float:
    """Return nDCG@10 of one list."""
    found = sum(right.get(hit.id, 0) / np.log2(1 + hit.rank) for hit in hits)
    return float(found / sum(1 / np.log2(2 + place) for place in range(min(10, len(right)))))


def mixed(data: Path, folder: Path) -> list[Row]:
    """Search the mixed corpus of Flickr8k."""
    asked = questions(data)
    rows: list[Row] = []
    with collection(data, folder) as things:
        print(f"mixed corpus: {things.calibrate().fitted.spec}", file=sys.stderr)
        for name, calibration, hybrid in SETTINGS:
            hits = things.search_many([one.text for one in asked], hybrid=hybrid, calibration=calibration)
            values = np.array([gain(found, {one.right: 1}) for found, one in zip(hits, asked, strict=True)])
            kind = np.array([one.modality for one in asked])
            by_kind = {modality: float(values[kind == modality].mean()) for modality in MODALITIES}
            rows.append({"corpus": "mixed", "ranking": name, "all": float(values.mean()), **by_kind})
    return rows


def texts(data: Path, folder: Path) -> list[Row]:
    """Search SciFact, which has only text: calibration must not lose anything there."""
    right: dict[str, dict[str, int]] = {}
    with (data / "scifact/qrels/test.tsv").open() as file:
        for row in csv.DictReader(file, delimiter="\t"):
            right.setdefault(row["query-id"], {})[row["corpus-id"]] = int(row["score"])
    lines = (data / "scifact/queries.jsonl").read_text().splitlines()
    claims = {query["_id"]: query["text"] for query in map(json.loads, lines)}
    rows: list[Row] = []
    with Collection.open(folder / "scifact.isthmus", follow=False) as things:
        things.index(data / "scifact")
        print(f"SciFact: {things.calibrate().fitted.spec}", file=sys.stderr)
        for name, calibration, hybrid in SETTINGS:
            hits = things.search_many([claims[key] for key in right], hybrid=hybrid, calibration=calibration)
            value = float(np.mean([gain(found, right[key]) for found, key in zip(hits, right, strict=True)]))
            rows.append(
                {"corpus": "SciFact", "ranking": name, "all": value, "text": value, "image": "", "image+text": ""}
            )
    return rows


if __name__ == "__main__":
    options = arguments(__doc__)
    with tempfile.TemporaryDirectory() as scratch:
        found = [*mixed(options.data, Path(scratch)), *texts(options.data, Path(scratch))]
    raise SystemExit(compared("collection", found, options.write))
