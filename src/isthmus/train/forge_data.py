"""The training data of forge-mini: claims and captions, as chats and clean; and its retrievers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from isthmus import encoders
from isthmus.align.base import Retriever, joined
from isthmus.align.reading import WindowReader
from isthmus.align.retrievers import Bm25, Dense
from isthmus.evaluate.benchmarks import beir, flickr8k
from isthmus.evaluate.benchmarks.files import BenchmarkFolder
from isthmus.evaluate.chat import chats
from isthmus.queries.phrases import content_words
from isthmus.train.forge_mini import Example

TURNS = 8  # chats of each claim
HELD_OUT = 109  # claims of the training split that are held out
CAPTIONS = 3000


@dataclass(frozen=True, slots=True, eq=False)
class ForgeQuery:
    """A query: the message, the clean query, the right documents, and the corpus."""

    text: str
    claim: str
    right: frozenset[str]
    corpus: int = 0

    @property
    def clean(self) -> bool:
        """Whether the message is the clean query."""
        return self.text == self.claim


@dataclass(frozen=True, slots=True, eq=False)
class ForgeCorpus:
    """The texts that are searched."""

    ids: list[str]
    texts: list[str]

    def retrievers(self) -> list[Retriever]:
        """Return BM25, and `mini`'s vectors."""
        return [Bm25(self.ids, self.texts), Dense(encoders.load("mini", batch=64), self.ids, self.texts)]


def scifact(data: Path) -> tuple[ForgeCorpus, dict[str, dict[str, str]], dict[str, frozenset[str]]]:
    """Return the abstracts, the claims of each split by id, and the right abstracts of each."""
    read = {split: beir.load(data, ["scifact", split]) for split in ("train", "test")}
    abstracts = read["train"].documents
    right = {
        query: frozenset(document for document, relevance in judged.items() if relevance > 0)
        for benchmark in read.values()
        for query, judged in benchmark.qrels.items()
        if any(relevance > 0 for relevance in judged.values())
    }
    claims = {
        split: {each.id: each.query.text or "" for each in benchmark.questions if each.id in right}
        for split, benchmark in read.items()
    }
    return ForgeCorpus([each.id for each in abstracts], [each.text or "" for each in abstracts]), claims, right


def captions(data: Path) -> tuple[ForgeCorpus, list[ForgeQuery]]:
    """Return first captions of Flickr8k's training photos, and second ones as queries: everyday words."""
    photos = flickr8k.split(BenchmarkFolder(data / "flickr8k", "flickr8k", flickr8k.HOME), "train")
    corpus = ForgeCorpus([photo.id for photo in photos], [photo.captions[0] for photo in photos])
    said = {photo.id: photo.captions[1] for photo in photos[:CAPTIONS] if len(photo.captions) > 1}
    sent = [*_sent(said, 100, 0.5), *_sent(said, 101, 0.0)]
    queries = [ForgeQuery(text, said[name], frozenset([name]), 1) for name, text in sent]
    return corpus, [*queries, *(ForgeQuery(claim, claim, frozenset([name]), 1) for name, claim in said.items())]


def claims_asked(
    claims: Mapping[str, str], right: Mapping[str, frozenset[str]], everyday: Sequence[str] = ()
) -> list[ForgeQuery]:
    """Return each claim as several chats, with a screenshot and without, and unchanged.

    Every second chat also uses ``everyday`` sentences as tangents, for variety.
    """
    sent = [
        pair
        for turn in range(TURNS)
        for pair in _sent(claims, turn, 0.5 if turn % 4 else 0.0, everyday if turn % 2 else ())
    ]
    noisy = [ForgeQuery(text, claims[name], right[name]) for name, text in sent]
    return [*noisy, *(ForgeQuery(claim, claim, right[name]) for name, claim in claims.items())]


def _sent(
    claims: Mapping[str, str], seed: int, hidden: float, everyday: Sequence[str] = ()
) -> Iterator[tuple[str, str]]:
    for chat in chats(claims, split="train", seed=seed, hidden=hidden, tangents=everyday):
        yield chat.id, joined(chat.text, [chat.screen] if hidden else [])


def examples(
    queries: Sequence[ForgeQuery], reader: WindowReader, threads: int, report: Callable[[str], object] = str
) -> list[Example]:
    """Tokenize every query; those longer than one window are left out."""
    report(f"reading {len(queries)} queries")
    with ThreadPoolExecutor(threads) as pool:
        read = list(pool.map(lambda each: reader.read(each.text), queries))
    return [
        Example(windows[0], taught(each, windows[0].words), each.right, each.corpus)
        for each, windows in zip(queries, read, strict=True)
        if len(windows) == 1
    ]


def taught(query: ForgeQuery, words: Sequence[str]) -> np.ndarray:
    """Return the words that the teacher keeps: the claim's content words; all words of a clean query."""
    if query.clean:
        return np.ones(len(words), dtype=bool)
    meant = {_bare(word) for word in query.claim.split() if content_words(word)}
    return np.array([_bare(word) in meant for word in words])


def _bare(word: str) -> str:
    return word.strip(".,;:!?()").lower()
