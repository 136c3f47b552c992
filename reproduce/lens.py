"""What LENS learns from SciFact's training claims, measured on its 300 test claims: nDCG@10 with intervals.

    python reproduce/lens.py --data DIR --model OUT [--device cuda]         (needs scifact/ and the extras st and train)

OUT is what ``isthmus train lens --data DIR/scifact --out OUT`` writes; where it is not there yet, it is trained first:
about a minute on a GPU, an hour or more on two cores. Another machine's weights differ a little, and so do its numbers.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from tables import Row, arguments, compared

from isthmus import encoders
from isthmus.align import Retriever
from isthmus.align.retrievers import Bm25, Dense, Hybrid
from isthmus.evaluate import interval, paired, values
from isthmus.evaluate.benchmarks import Benchmark, load
from isthmus.train.make import make_lens
from isthmus.train.towers import minilm

MEASURE = "nDCG@10"
OPTIONS = {"model": "what `isthmus train lens` wrote; trained if it is not there", "device": "cpu or cuda"}


def retrievers(asked: Benchmark, model: Path, device: str) -> Iterator[tuple[str, Retriever]]:
    """Yield words, vectors before and after training, and words with each."""
    ids, texts = [document.id for document in asked.documents], [document.text or "" for document in asked.documents]
    words = Bm25(ids, texts)
    yield "BM25", words
    for name, folder in (("MiniLM", minilm()), ("LENS", model / "st")):
        dense = Dense(encoders.load(f"st:{folder}", device=device, batch=64), ids, texts)
        yield name, dense
        yield f"{name} + BM25", Hybrid(dense, words)


def main(data: Path, model: Path, device: str) -> list[Row]:
    if not (model / "st").exists():
        make_lens(data / "scifact", model, device=device, report=lambda line: print(line, file=sys.stderr))
    asked = load("beir:scifact", data)
    claims = [question.query.text or "" for question in asked.questions]
    found = {}
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
    for claims_of, which in (
        ("", set(found["LENS"])),
        (", documents learned", again),
        (", new", asked.qrels.keys() - again),
    ):
        after, before = ({query: found[name][query] for query in which} for name in ("LENS", "MiniLM"))
        result = paired(after, before)
        print(f"LENS against MiniLM{claims_of}: {len(which)} claims, p = {result.p:.4f}", file=sys.stderr)
        name = f"LENS − MiniLM{claims_of}"
        rows.append({"retriever": name, MEASURE: result.difference, "low": result.low, "high": result.high})
    return rows


if __name__ == "__main__":
    options = arguments(__doc__, OPTIONS)
    rows = main(options.data, Path(options.model or "out/lens"), options.device or "cpu")
    raise SystemExit(compared("lens", rows, options.write))
