"""Aligning noisy queries: clean queries are sent as chats with screenshots, in styles and domains seen and unseen.

    python reproduce/bridge.py --data DIR [--cache DIR]       (needs scifact/, docvqa/, flickr8k/, medquad/, liveqa/)

Half of a query's content words are only on a screenshot, the others in a message (``isthmus.evaluate.chat``). *Seen*:
the style of training's chats, with other lines; *unseen*: mail threads, tickets, dictation, boards with code, which no
training and no choice saw. Training knows SciFact's training claims, titles and captions; questions about scanned
pages (DocVQA) were used to choose; questions about health are new. The last set are real messages. ``chat_sets.py``
describes the sets. Screenshots are given as their text. nDCG@10 with 95% intervals; *closed* is the share of the
difference between the plain concatenation and the clean query that is closed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from chat_sets import ChatSet, Documents, docvqa, liveqa, medquad, plain, scifact, written
from kept import Kept
from tables import Row, arguments, compared

from isthmus import encoders
from isthmus.align import Retriever, mini
from isthmus.align.retrievers import Bm25, Dense, Hybrid
from isthmus.evaluate import interval, values
from isthmus.evaluate.benchmarks import flickr8k
from isthmus.evaluate.benchmarks.files import BenchmarkFolder
from isthmus.evaluate.chat import Chat

MEASURE = "nDCG@10"
PLAIN, CEILING, SHIPPED = "+ caption", "the clean query", "+ forge-mini"


def sets(data: Path) -> Iterator[ChatSet]:
    """Yield the sets of queries."""
    claims, pages, health = scifact(data), docvqa(data), medquad(data)
    yield plain("claims, seen style", claims)
    yield written("claims, unseen styles", claims, "test")
    yield written("pages, unseen styles", pages, "test")
    yield written("health, unseen styles", health, "test")
    yield liveqa(data)


def everyday(data: Path) -> ChatSet:
    """Return queries without noise: a caption of each Flickr8k test photo searches another."""
    photos = flickr8k.split(BenchmarkFolder(data / "flickr8k", "flickr8k", flickr8k.HOME), "test")
    held = Documents(
        [photo.id for photo in photos], [photo.captions[0] for photo in photos], {}, {p.id: {p.id: 1} for p in photos}
    )
    return ChatSet("captions, no noise", held, [Chat(photo.id, photo.captions[1], "", ()) for photo in photos])


def retrievers(documents: Documents, cache: Path | None) -> Iterator[tuple[str, Retriever]]:
    """Yield retrievers by words, by vectors, and by both."""
    words = Bm25(documents.ids, documents.texts)
    dense = Dense(Kept(encoders.load("mini", batch=32), cache), documents.ids, documents.texts)
    yield "BM25", words
    yield "mini", dense
    yield "mini + BM25", Hybrid(dense, words)


def rewritten(texts: Sequence[str]) -> list[str]:
    """Return what forge-mini makes of texts."""
    return [each.text for each in mini.load().rewrite(texts)]


def measured(chosen: ChatSet, ways: dict[str, list[str]], cache: Path | None) -> Iterator[Row]:
    """Yield a row for each retriever and way of searching."""
    for name, retriever in retrievers(chosen.documents, cache):
        print(chosen.name, name, file=sys.stderr)
        found = {way: retriever.search(texts, 10) for way, texts in ways.items()}
        names = [chat.id for chat in chosen.sent]
        numbers = {
            way: values(MEASURE, dict(zip(names, map(dict, lists), strict=True)), chosen.documents.qrels)
            for way, lists in found.items()
        }
        mean = {way: sum(of.values()) / len(of) for way, of in numbers.items()}
        for way, of in numbers.items():
            value, low, high = interval(of)
            closed = f"{(mean[way] - mean[PLAIN]) / (mean[CEILING] - mean[PLAIN]):.0%}" if way == SHIPPED else ""
            yield {
                "set": chosen.name, "retriever": name, "searched": way, MEASURE: value, "low": low, "high": high,
                "closed": closed,
            }  # fmt: skip


def main(data: Path, cache: Path | None) -> list[Row]:
    """Return a row for each set, retriever and way of searching."""
    rows: list[Row] = []
    for chosen in sets(data):
        ways = chosen.ways
        if not any(chat.screen for chat in chosen.sent):
            del ways["text only"]  # there are no pictures: it is the same as with captions
        ways = {**ways, SHIPPED: rewritten(ways[PLAIN]), "the clean query, forge-mini": rewritten(ways[CEILING])}
        rows += measured(chosen, ways, cache)
    clean = everyday(data)
    ways = {CEILING: clean.ways[CEILING], "the clean query, forge-mini": rewritten(clean.ways[CEILING])}
    return [*rows, *measured(clean, ways, cache)]


if __name__ == "__main__":
    options = arguments(__doc__, {"cache": "a folder for the vectors of documents, to run it again faster"})
    kept = options.cache and Path(options.cache)
    raise SystemExit(compared("bridge", main(options.data, kept), options.write))
