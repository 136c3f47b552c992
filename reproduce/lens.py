"""What LENS learns from SciFact's training claims, measured on its 300 test claims: nDCG@10 with intervals.

    python reproduce/lens.py --data DIR --model OUT [--device cuda]         (needs scifact/ and the extras st and train)

Two recipes: the paper's seven hard negatives (OUT), and a gentler one, two from further down the lists (OUT-gentle).
Missing models are trained first, as by ``isthmus train lens --data DIR/scifact --out OUT``: a minute each on a GPU, an
hour or more on two cores. Weights, and so numbers, differ a little between machines.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from tables import Row, arguments, compared

from isthmus import encoders
from isthmus.align import Retriever
from isthmus.align.retrievers import Bm25, Dense, Hybrid
from isthmus.evaluate import interval, paired, values
from isthmus.evaluate.benchmarks import Benchmark, load
from isthmus.train.lens import LensRecipe
from isthmus.train.make import make_lens
from isthmus.train.towers import minilm

MEASURE = "nDCG@10"
OPTIONS = {"model": "the output of `isthmus train lens`; trained if it does not exist", "device": "cpu or cuda"}
RECIPES = {"LENS": ("", LensRecipe()), "gentle": ("-gentle", LensRecipe(negatives=2, skip=12, batch=64))}
Found = dict[str, dict[str, float]]


def retrievers(asked: Benchmark, model: Path, device: str) -> Iterator[tuple[str, Retriever]]:
    """Yield retrievers by words, by vectors before and after training, and by words with each."""
    ids, texts = [document.id for document in asked.documents], [document.text or "" for document in asked.documents]
    words = Bm25(ids, texts)
    yield "BM25", words
    trained = ((name, Path(f"{model}{end}") / "st") for name, (end, _) in RECIPES.items())
    for name, folder in (("MiniLM", minilm()), *trained):
        dense = Dense(encoders.load(f"st:{folder}", device=device, batch=64), ids, texts)
        yield name, dense
        yield f"{name} + BM25", Hybrid(dense, words)


def main(data: Path, model: Path, device: str) -> list[Row]:
    for end, recipe in RECIPES.values():
        if not (Path(f"{model}{end}") / "st").exists():
            tell = partial(print, file=sys.stderr)
            make_lens(data / "scifact", Path(f"{model}{end}"), recipe=recipe, device=device, report=tell)
    asked = load("beir:scifact", data)
    claims = [question.query.text or "" for question in asked.questions]
    found: Found = {}
    for name, retriever in retrievers(asked, model, device):
        hits = retriever.search(claims, 100)
        run = {question.id: dict(several) for question, several in zip(asked.questions, hits, strict=True)}
        found[name] = values(MEASURE, run, asked.qrels)
    rows: list[Row] = []
    for name, numbers in found.items():
        value, low, high = interval(numbers)
        rows.append({"retriever": name, MEASURE: value, "low": low, "high": high})
    learned = {name for judged in load("beir:scifact,train", data).qrels.values() for name in judged}
    again = {query for query, judged in asked.qrels.items() if learned & judged.keys()}
    return [
        *rows,
        *gains(found, {"": set(asked.qrels), ", documents learned": again, ", new": set(asked.qrels) - again}),
    ]


def gains(found: Found, parts: Mapping[str, set[str]]) -> Iterator[Row]:
    """Yield the gain of each recipe over its start, on all claims and on those of each part."""
    for name in RECIPES:
        for part, which in parts.items():
            after, before = ({query: found[each][query] for query in which} for each in (name, "MiniLM"))
            result = paired(after, before)
            print(f"{name} against MiniLM{part}: {len(which)} claims, p = {result.p:.4f}", file=sys.stderr)
            yield {
                "retriever": f"{name} − MiniLM{part}",
                MEASURE: result.difference,
                "low": result.low,
                "high": result.high,
            }


if __name__ == "__main__":
    options = arguments(__doc__, OPTIONS)
    rows = main(options.data, Path(options.model or "out/lens"), options.device or "cpu")
    raise SystemExit(compared("lens", rows, options.write))
