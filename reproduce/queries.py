"""Two kinds of generated reference queries: some words of a sentence, or a piece of one as in Mr. Right.

    python reproduce/queries.py --data DIR        (needs flickr8k/, mix/ and scifact/)

nDCG@10 of real queries, with the calibration that `auto` chooses, with words in addition (BM25), and with a fixed one,
for both kinds of reference queries; mean, minimum and maximum over three seeds. ``pieces`` are the collection's
default: a clause or noun phrase of a sentence if it is short enough not to count as copied, else some words.
"""

from __future__ import annotations

import csv
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import numpy as np
from collection import gain
from mixture import collection, questions
from tables import Row, arguments, compared

from isthmus import Collection
from isthmus.queries import Parser, about
from isthmus.queries.phrases import phrase
from isthmus.search import references

Maker = Callable[[str, np.random.Generator, Parser], str | None]
Asked = list[tuple[str, dict[str, int]]]  # each question, and its right documents
SEEDS = (references.SEED, 1, 2)
FIXED = "center+nnn(k=16)+standardize"


def words(text: str, rng: np.random.Generator, _parser: Parser) -> str | None:
    return phrase(text, rng)


MAKERS: dict[str, Maker] = {"words": words, "pieces": about}


def claims(data: Path) -> Asked:
    """Return SciFact's test claims."""
    lines = (data / "scifact/queries.jsonl").read_text().splitlines()
    text = {query["_id"]: query["text"] for query in map(json.loads, lines)}
    right: dict[str, dict[str, int]] = {}
    with (data / "scifact/qrels/test.tsv").open() as file:
        for row in csv.DictReader(file, delimiter="\t"):
            right.setdefault(row["query-id"], {})[row["corpus-id"]] = int(row["score"])
    return [(text[key], judged) for key, judged in right.items()]


def ndcg(things: Collection, asked: Asked, *, hybrid: bool) -> float:
    found = things.search_many([question for question, _ in asked], hybrid=hybrid)
    return float(np.mean([gain(hits, right) for hits, (_, right) in zip(found, asked, strict=True)]))


def rows(name: str, things: Collection, asked: Asked) -> list[Row]:
    """Calibrate and search, with each generator, three times."""
    out: list[Row] = []
    for made, maker in MAKERS.items():
        values: dict[str, list[float]] = {}
        for seed in SEEDS:
            for spec in ("auto", FIXED):
                with patch.object(references, "about", maker), patch.object(references, "SEED", seed):
                    things.calibrate(spec)
                values.setdefault(spec, []).append(ndcg(things, asked, hybrid=False))
                if spec == "auto":
                    values.setdefault("auto, hybrid", []).append(ndcg(things, asked, hybrid=True))
        for spec, several in values.items():
            row: Row = {"corpus": name, "reference queries": made, "ranking": spec}
            out.append({**row, "nDCG@10": float(np.mean(several)), "least": min(several), "most": max(several)})
    return out


def main(data: Path, folder: Path) -> list[Row]:
    with collection(data, folder) as things:
        found = rows("mixed", things, [(one.text, {one.right: 1}) for one in questions(data)])
    with Collection.open(folder / "scifact.isthmus", follow=False) as things:
        things.index(data / "scifact")
        return found + rows("SciFact", things, claims(data))


if __name__ == "__main__":
    options = arguments(__doc__)
    with tempfile.TemporaryDirectory() as scratch:
        measured = main(options.data, Path(scratch))
    raise SystemExit(compared("queries", measured, options.write))
