"""Aligning noisy queries: clean queries are sent as chats with screenshots, in styles and domains seen and unseen.

    python reproduce/bridge.py --data DIR [--cache DIR]       (needs scifact/, docvqa/, flickr8k/, medquad/, liveqa/)

Half of a query's content words are only on a screenshot, the others in a message (``isthmus.evaluate.chat``). *Seen*:
the style of training's chats, with other lines; *unseen*: mail threads, tickets, dictation, boards with code, which no
training and no choice saw. Training knows SciFact's training claims, titles and captions; questions about scanned
pages (DocVQA) were used to choose; questions about health are new. The last set are real messages. ``chat_sets.py``
describes the sets. Screenshots are given as their text. nDCG@10 with 95% intervals; *closed* is the share of the
difference between the plain concatenation and the clean query that is closed.

*auto* aligns a message that needs it, as ``align="auto"``. *+ image* keeps the vector of the drawn screenshot beside
that of the words, as ``align="forge-mini+image"``, with ``mini``, which reads both.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from chat_sets import ChatSet, Documents, docvqa, liveqa, medquad, plain, scifact, written
from kept import Kept
from tables import Row, arguments, compared

from isthmus import Document, Query, calibration, encoders
from isthmus.align import Retriever, Stages, mini
from isthmus.align.aligner import needed
from isthmus.align.base import Found
from isthmus.align.embedded import full_of_text
from isthmus.align.retrievers import Bm25, Dense, Hybrid, best
from isthmus.documents import ImageLike
from isthmus.evaluate import interval, values
from isthmus.evaluate.benchmarks import flickr8k
from isthmus.evaluate.benchmarks.files import BenchmarkFolder
from isthmus.evaluate.chat import Chat

MEASURE = "nDCG@10"
PLAIN, CEILING, SHIPPED, AUTO = "+ caption", "the clean query", "+ forge-mini", "auto"
SEEN = ", + image"
CLOSED = (SHIPPED, AUTO, SHIPPED + SEEN)


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


@dataclass(frozen=True)
class Screens:
    """A captioner that knows the text of each screenshot."""

    texts: Mapping[bytes, str]
    name: str = "screens"
    identity: str = "screens"

    def caption(self, images: Sequence[ImageLike]) -> list[str]:
        """Return the text of each screenshot."""
        return [self.texts[image] for image in images if isinstance(image, bytes)]


def automatic(chosen: ChatSet) -> list[Query]:
    """Return what ``align="auto"`` searches."""
    screens = {chat.image: chat.screen if full_of_text(chat.lines) else "" for chat in chosen.sent}
    aligner = Stages(Screens(screens), mini.load(), needed)
    found = aligner.align([_sent(chat, chat.text) for chat in chosen.sent])
    print(chosen.name, sum(each.untouched is None for each in found), "aligned by auto", file=sys.stderr)
    return [each.query for each in found]


def pictured(chosen: ChatSet) -> dict[str, list[Query]]:
    """Return the queries that keep their pictures: with the message, with caption, and rewritten (``+image``)."""
    said = [_sent(chat, chat.text) for chat in chosen.sent]
    captions = [_sent(chat, text) for chat, text in zip(chosen.sent, chosen.ways[PLAIN], strict=True)]
    aligner = Stages(Screens({chat.image: chat.screen for chat in chosen.sent}), mini.load(), keep_images=True)
    rewritten = [each.query for each in aligner.align(said)]
    return {"text only" + SEEN: said, PLAIN + SEEN: captions, SHIPPED + SEEN: rewritten}


def _sent(chat: Chat, text: str) -> Query:
    return Query(text=text, image=chat.image) if chat.lines else Query(text=text)


def by_both(encoder: Kept, documents: Documents, queries: Sequence[Query]) -> list[Found]:
    """Return the best documents for words and pictures: raw cosine with the unit mean of both vectors."""
    texts = [Document(name, text) for name, text in zip(documents.ids, documents.texts, strict=True)]
    vectors, owner = encoder.encode_passages(texts)
    asked = encoder.encode_queries(queries)
    scores = calibration.fit("none", vectors, asked, owner=owner).scores(asked, vectors, owner=owner)
    return [[(documents.ids[at], float(row[at])) for at in best(row, 10)] for row in scores]


def retrievers(documents: Documents, encoder: Kept) -> Iterator[tuple[str, Retriever]]:
    """Yield retrievers by words, by vectors, and by both."""
    words = Bm25(documents.ids, documents.texts)
    dense = Dense(encoder, documents.ids, documents.texts)
    yield "BM25", words
    yield "mini", dense
    yield "mini + BM25", Hybrid(dense, words)


def rewritten(texts: Sequence[str]) -> list[str]:
    """Return what forge-mini makes of texts."""
    return [each.text for each in mini.load().rewrite(texts)]


def measured(
    chosen: ChatSet, ways: Mapping[str, Sequence[str]], seen: Mapping[str, Sequence[Query]], encoder: Kept
) -> Iterator[Row]:
    """Yield a row for each retriever and way of searching; ``seen`` are queries with pictures, for ``mini`` alone."""
    for name, retriever in retrievers(chosen.documents, encoder):
        print(chosen.name, name, file=sys.stderr)
        found = {way: retriever.search(texts, 10) for way, texts in ways.items()}
        if name == "mini":
            found |= {way: by_both(encoder, chosen.documents, queries) for way, queries in seen.items()}
        names = [chat.id for chat in chosen.sent]
        numbers = {
            way: values(MEASURE, dict(zip(names, map(dict, lists), strict=True)), chosen.documents.qrels)
            for way, lists in found.items()
        }
        mean = {way: sum(of.values()) / len(of) for way, of in numbers.items()}
        for way, of in numbers.items():
            value, low, high = interval(of)
            closed = f"{(mean[way] - mean[PLAIN]) / (mean[CEILING] - mean[PLAIN]):.0%}" if way in CLOSED else ""
            yield {
                "set": chosen.name, "retriever": name, "searched": way, MEASURE: value, "low": low, "high": high,
                "closed": closed,
            }  # fmt: skip


def main(data: Path, cache: Path | None) -> list[Row]:
    """Return a row for each set, retriever and way of searching."""
    rows: list[Row] = []
    encoder = Kept(encoders.load("mini", batch=32), cache)
    for chosen in sets(data):
        ways, found = chosen.ways, automatic(chosen)
        seen = {AUTO: found}  # with the pictures that are not of text
        if any(chat.screen for chat in chosen.sent):
            seen |= pictured(chosen)
        else:
            del ways["text only"]  # there are no pictures: it is the same as with captions
        ways = {**ways, SHIPPED: rewritten(ways[PLAIN]), "the clean query, forge-mini": rewritten(ways[CEILING])}
        ways[AUTO] = [query.text or "" for query in found]
        rows += measured(chosen, ways, seen, encoder)
    clean = everyday(data)
    ways = {CEILING: clean.ways[CEILING], "the clean query, forge-mini": rewritten(clean.ways[CEILING])}
    return [*rows, *measured(clean, ways, {}, encoder)]


if __name__ == "__main__":
    options = arguments(__doc__, {"cache": "a folder for the vectors of documents, to run it again faster"})
    kept = options.cache and Path(options.cache)
    raise SystemExit(compared("bridge", main(options.data, kept), options.write))
