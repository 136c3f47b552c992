"""Aligning noisy queries: each claim of SciFact is sent as a chat with a screenshot, and searches its abstract.

    python reproduce/bridge.py --data DIR        (needs scifact/, flickr8k/; extras align, st, train; half an hour)

300 test claims over 5,183 abstracts. Half of a claim's content words are only in a rendered screenshot, the
others in a message with at least 25 words of chatter, whose lines training never saw (``isthmus.evaluate.chat``).
Screenshots are read by the embedded captioner (OCR). nDCG@10 with 95% intervals; *closed* is the share of the gap
between the plain concatenation and the clean claim that is closed. ``models/`` has two variants of forge-mini: trained
by a teacher only, and by reinforcement only.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tables import Row, arguments, compared

from isthmus import encoders
from isthmus.align import Retriever, caption, joined, mini
from isthmus.align.retrievers import Bm25, Dense, Hybrid
from isthmus.evaluate import interval, values
from isthmus.evaluate.benchmarks import flickr8k, load
from isthmus.evaluate.benchmarks.files import BenchmarkFolder
from isthmus.evaluate.chat import Chat, chats
from isthmus.train.towers import minilm

MEASURE = "nDCG@10"
MODELS = Path(__file__).parent / "models"
PLAIN, CEILING = "+ caption", "the clean claim"
REWRITTEN = ("+ supervised rewriter", "+ reinforcement alone", "+ forge-mini")


def versions(sent: Sequence[Chat]) -> dict[str, list[str]]:
    """Return the searched texts of each way of aligning."""
    read = caption.load("embedded").caption([chat.image for chat in sent])
    whole = [joined(chat.text, [words]) for chat, words in zip(sent, read, strict=True)]
    perfect = [joined(chat.text, [chat.screen]) for chat in sent]
    clean = [chat.claim for chat in sent]
    shipped, taught, alone = mini.load(), mini.load(MODELS / "forge-sft.onnx"), mini.load(MODELS / "forge-rl.onnx")
    return {
        "text only": [chat.text for chat in sent],
        PLAIN: whole,
        "+ perfect caption": perfect,
        "+ supervised rewriter": _rewritten(taught, whole),
        "+ reinforcement alone": _rewritten(alone, whole),
        "+ forge-mini": _rewritten(shipped, whole),
        "text only, forge-mini": _rewritten(shipped, [chat.text for chat in sent]),
        CEILING: clean,
        "the clean claim, forge-mini": _rewritten(shipped, clean),
    }


def _rewritten(rewriter: mini.ForgeMini, texts: Sequence[str]) -> list[str]:
    return [each.text for each in rewriter.rewrite(texts)]


def retrievers(ids: Sequence[str], texts: Sequence[str]) -> Iterator[tuple[str, Retriever]]:
    """Yield retrievers by words, by vectors, and by both."""
    words = Bm25(ids, texts)
    yield "BM25", words
    for name, encoder in (("mini", "mini"), ("MiniLM", f"st:{minilm()}")):
        dense = Dense(encoders.load(encoder, batch=64), ids, texts)
        yield name, dense
        yield f"{name} + BM25", Hybrid(dense, words)


def main(data: Path) -> list[Row]:
    """Return a row for each retriever and way of aligning."""
    asked = load("beir:scifact", data)
    sent = chats({each.id: each.query.text or "" for each in asked.questions}, split="test")
    made = versions(sent)
    rows: list[Row] = []
    for name, retriever in retrievers(
        [each.id for each in asked.documents], [each.text or "" for each in asked.documents]
    ):
        print(name, file=sys.stderr)
        numbers = {way: _values(retriever, sent, texts, asked.qrels) for way, texts in made.items()}
        mean = {way: sum(of.values()) / len(of) for way, of in numbers.items()}
        for way, of in numbers.items():
            value, low, high = interval(of)
            closed = (value - mean[PLAIN]) / (mean[CEILING] - mean[PLAIN])
            shown = f"{closed:.0%}" if way in REWRITTEN else ""
            rows.append({"retriever": name, "searched": way, MEASURE: value, "low": low, "high": high, "closed": shown})
    return rows


def everyday(data: Path) -> list[Row]:
    """Return what alignment costs queries without noise: a caption of each Flickr8k test photo searches another."""
    photos = flickr8k.split(BenchmarkFolder(data / "flickr8k", "flickr8k", flickr8k.HOME), "test")
    ids, texts = [photo.id for photo in photos], [photo.captions[0] for photo in photos]
    asked = [photo.captions[1] for photo in photos]
    qrels = {name: {name: 1} for name in ids}
    rows: list[Row] = []
    for name, retriever in (("BM25", Bm25(ids, texts)), ("mini", Dense(encoders.load("mini", batch=64), ids, texts))):
        for way, searched in (("a caption", asked), ("a caption, forge-mini", _rewritten(mini.load(), asked))):
            run = {each: dict(hits) for each, hits in zip(ids, retriever.search(searched, 10), strict=True)}
            value, low, high = interval(values(MEASURE, run, qrels))
            rows.append({"retriever": name, "searched": way, MEASURE: value, "low": low, "high": high, "closed": ""})
    return rows


def _values(
    retriever: Retriever, sent: Sequence[Chat], texts: Sequence[str], qrels: Mapping[str, Mapping[str, int]]
) -> dict[str, float]:
    found = retriever.search(texts, 10)
    return values(MEASURE, {chat.id: dict(hits) for chat, hits in zip(sent, found, strict=True)}, qrels)


if __name__ == "__main__":
    options = arguments(__doc__)
    raise SystemExit(compared("bridge", [*main(options.data), *everyday(options.data)], options.write))
