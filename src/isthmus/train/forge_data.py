"""The training data of forge-mini: queries of several domains, in many styles and clean; and its retrievers.

    claims      SciFact's training claims                                     search the abstracts
    titles      first sentences of other abstracts                            search the abstracts
    questions   words of such sentences, and random nouns, in many forms      search nothing: supervised steps only
    captions    second captions of Flickr8k's training photos                 search first captions
    general     the built-in bank of general queries                          search nothing

Of every other query the content words are exchanged for others of the same part of speech, and so are some words of the
chatter: the model cannot memorise the words of a field, or of our lines. An exchanged query searches nothing.

The sentences between a query's own come from the templates of its style, and from texts of both sources. Some are about
the query's own field, so that a field alone says nothing about what is asked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from isthmus import encoders
from isthmus.align.base import Retriever, joined
from isthmus.align.reading import AROUND, WindowReader
from isthmus.align.retrievers import Bm25, Dense
from isthmus.encoders import bank
from isthmus.errors import BadInput
from isthmus.evaluate.benchmarks import beir, flickr8k
from isthmus.evaluate.benchmarks.files import BenchmarkFolder
from isthmus.evaluate.chat import chats, habits, styled, styles
from isthmus.queries.lexicon import guess, shipped
from isthmus.queries.phrases import SENTENCE, content_words
from isthmus.train.forge_mini import Example

TURNS = 6  # chats of each claim
HELD_OUT = 109  # claims of the training split that are held out
CAPTIONS = 2500
TITLES = 2000
ASKED = 4000  # questions
GENERAL = 2500
EXCHANGED = 0.2  # share of the words of the chatter
CLEAN = 2500  # queries of all domains that stay as they are
FREE = 4000  # sentences of abstracts, and as many captions, that stand between a query's own
LONGEST = 25  # words of such a sentence
HIDDEN = (0.0, 0.3, 0.5, 0.5, 0.7)  # shares of words on the screenshot, one for each turn
QUESTIONS = (
    "What is the {} of the {}?", "What is the {}?", "What is the {} of {} in {}?", "What does {} stand for?",
    "What are the effects of {} on {}?", "What kind of {} is {}?", "What happens to {} after {}?", "What {} did {} {}?",
    "What is known about {}?", "Who is the {} of {}?", "Who has the {} {}?", "Who wrote the {}?", "To whom is {} sent?",
    "When was the {} of {}?", "When is the {}?", "When does {} {}?", "Where is the {} of {}?", "Where can {} be {}?",
    "Which {} has the highest {}?", "Which {} is given in the {}?", "Which of the {} is {}?", "From which {} is {}?",
    "How many {} are there in the {}?", "How much {} does the {} need?", "How is {} used in {}?", "How do I {} a {}?",
    "How long does {} last?", "Why do {} {}?", "Why is {} so {}?", "Does {} change {}?", "Is {} safe with {}?",
    "Can {} lead to {}?", "Are {} related to {}?", "Is there evidence for {}?", "how to {} {}", "{} vs {}", "{} {}",
    "best {} for {}", "{} {} {}", "{}", "{}",
)  # fmt: skip


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


@dataclass(frozen=True, slots=True, eq=False)
class ForgeDomain:
    """Clean queries of one kind, the right documents of each, and the corpus."""

    queries: Mapping[str, str]
    right: Mapping[str, frozenset[str]]
    corpus: int
    turns: int = 1


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


def photos(data: Path) -> tuple[ForgeCorpus, ForgeDomain]:
    """Return first captions of Flickr8k's training photos, and second ones as queries: everyday words."""
    several = flickr8k.split(BenchmarkFolder(data / "flickr8k", "flickr8k", flickr8k.HOME), "train")
    corpus = ForgeCorpus([photo.id for photo in several], [photo.captions[0] for photo in several])
    said = {photo.id: photo.captions[1] for photo in several[:CAPTIONS] if len(photo.captions) > 1}
    return corpus, ForgeDomain(said, {name: frozenset([name]) for name in said}, 1)


def titles(corpus: ForgeCorpus, seed: int = 0) -> ForgeDomain:
    """Return first sentences of abstracts."""
    order = np.random.default_rng(seed).permutation(len(corpus.ids))[:TITLES]
    said = {corpus.ids[row]: SENTENCE.split(corpus.texts[row])[0].rstrip(".") for row in order}
    return ForgeDomain(said, {name: frozenset([name]) for name in said}, 0)


def questions(sentences: Sequence[str], seed: int = 0) -> ForgeDomain:
    """Return questions and keywords with words of sentences, or random nouns; no document answers them."""
    rng = np.random.default_rng(seed)
    said = {f"asked {row}": _question(sentences, rng) for row in range(ASKED)}
    return ForgeDomain(said, dict.fromkeys(said, frozenset()), 0)


def _question(sentences: Sequence[str], rng: np.random.Generator) -> str:
    form = QUESTIONS[int(rng.integers(len(QUESTIONS)))]
    return form.format(*(_some_words(sentences, rng) for _ in range(form.count("{}"))))


def _some_words(sentences: Sequence[str], rng: np.random.Generator) -> str:
    if rng.random() < 0.5:
        nouns = _by_code()["N"]
        return nouns[int(rng.integers(len(nouns)))]
    words = content_words(sentences[int(rng.integers(len(sentences)))]) or ["it"]
    start, count = int(rng.integers(len(words))), int(rng.integers(1, 4))
    return " ".join(words[start : start + count])


def sentences(corpus: ForgeCorpus, seed: int = 0) -> list[str]:
    """Return short sentences of a corpus, to stand between a query's own."""
    rng = np.random.default_rng(seed)
    some = [corpus.texts[row] for row in rng.permutation(len(corpus.ids))[:FREE]]
    several = [SENTENCE.split(text) for text in some]
    drawn = [each[int(rng.integers(len(each)))] for each in several]
    return [each for each in drawn if len(each.split()) <= LONGEST]


def general() -> ForgeDomain:
    """Return queries of the built-in bank, which no document answers."""
    several = bank.queries()[:GENERAL]
    names = [str(row) for row in range(len(several))]
    return ForgeDomain(dict(zip(names, several, strict=True)), dict.fromkeys(names, frozenset()), 0)


def training(data: Path, held_out: int = HELD_OUT) -> tuple[tuple[ForgeCorpus, ForgeCorpus], list[ForgeQuery]]:
    """Return the corpora and all queries of training; the last ``held_out`` claims are not among them."""
    abstracts, claims, right = scifact(data)
    captions, everyday = photos(data)
    train = claims["train"]
    kept = {name: train[name] for name in list(train)[: max(0, len(train) - held_out)]}
    if not kept:
        raise BadInput(
            f"{data / 'scifact'} has {len(train)} training claims, and {held_out} are held out. Hold out fewer."
        )
    free = [*sentences(abstracts), *captions.texts[:FREE]]
    rng = np.random.default_rng(3)
    free += [exchanged(each, rng) for each in free]
    domains = [ForgeDomain(kept, right, 0, TURNS), titles(abstracts), questions(free), everyday, general()]
    several = [each for at, domain in enumerate(domains) for each in asked(domain, free, seed=10 * at)]
    return (abstracts, captions), _fewer_clean(several)


def _fewer_clean(several: Sequence[ForgeQuery]) -> list[ForgeQuery]:
    mixed = [several[row] for row in np.random.default_rng(0).permutation(len(several))]
    return [*(each for each in mixed if not each.clean), *[each for each in mixed if each.clean][:CLEAN]]


def asked(domain: ForgeDomain, free: Sequence[str], seed: int = 0) -> list[ForgeQuery]:
    """Return the queries of a domain as chats of the training styles, and unchanged."""
    noisy = [each for turn in range(domain.turns) for each in _sent(domain, seed + turn, free)]
    clean = [ForgeQuery(text, text, domain.right[name], domain.corpus) for name, text in domain.queries.items()]
    return [*noisy, *clean]


def _sent(domain: ForgeDomain, seed: int, free: Sequence[str]) -> Iterator[ForgeQuery]:
    """Yield each query in a style of its own; a fifth are plain chats, half have their words exchanged."""
    rng = np.random.default_rng([seed, 1])
    names = list(domain.queries)
    odd = {name for name in names if rng.random() < 0.5}
    claims = {name: exchanged(text, rng) if name in odd else text for name, text in domain.queries.items()}
    share = HIDDEN[seed % len(HIDDEN)]
    plain = {name: claims[name] for place, name in enumerate(names) if (place + seed) % 5 == 0}
    others = {name: claims[name] for name in names if name not in plain}
    made = chats(plain, split="train", seed=seed, hidden=share, tangents=free) if plain else []
    made += styled(others, styles("train"), seed=seed, hidden=share, free=free, habit=_other_words)
    for chat in made:
        shown = chat.screen and (share or chat.id in others)
        right = frozenset() if chat.id in odd else domain.right[chat.id]
        yield ForgeQuery(joined(chat.text, [chat.screen] if shown else []), chat.claim, right, domain.corpus)


def exchanged(text: str, rng: np.random.Generator, share: float = 1.0) -> str:
    """Exchange content words for other words of the same part of speech.

    >>> exchanged("A brown dog runs on the grass.", np.random.default_rng(0))
    'A form-creating banks prepares on the tie-breaker.'
    """
    return " ".join(_exchanged(word, rng) if rng.random() < share else word for word in text.split())


def _exchanged(word: str, rng: np.random.Generator) -> str:
    if not content_words(word) or not (core := word.strip(".,;:!?()\"'")).isalpha():
        return word
    several = _by_code()[shipped().get(core.lower()) or guess(core.lower())]
    other = several[int(rng.integers(len(several)))] if several else core
    return word.replace(core, other.capitalize() if core[0].isupper() else other)


@cache
def _by_code() -> Mapping[str, list[str]]:
    codes: defaultdict[str, list[str]] = defaultdict(list)
    for word, code in shipped().items():
        codes[code].append(word)
    return codes


def _other_words(text: str, rng: np.random.Generator) -> str:
    return habits.others(text, lambda word: _exchanged(word, rng) if rng.random() < EXCHANGED else word)


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
    meant = {bare(word) for word in query.claim.split() if content_words(word)}
    return np.array([bare(word) in meant for word in words])


def bare(word: str) -> str:
    """Return a word without punctuation around it, and without capitals."""
    return word.strip(AROUND).lower()
