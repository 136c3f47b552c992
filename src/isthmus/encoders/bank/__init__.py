"""The built-in bank: a few thousand general queries in English, for collections without queries of their own.

    bank.queries()                   the bank that is shipped
    bank.generate(seed=1)            another one, from the same words and templates

``words.toml`` holds the words, ``templates.toml`` the templates by style, ``queries.txt`` what ``generate()`` makes of
them. The comments at the top of the two files describe their format; docs/bank.md explains the design. ``views.py`` has
the pictures.

>>> len(queries())
4000
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import TypeVar

import numpy as np

from isthmus.errors import BadInput

__all__ = ["by_style", "generate", "queries"]

ALIKE = 0.5  # two queries that share this fraction of their content words are near duplicates
TRIES = 50  # a template that fails this often in a row is exhausted

Card = TypeVar("Card")
Row = dict[str, list[str]]  # column → alternatives

SLOT = re.compile(r"\{([a-z]+)(\d?)(?:\.([a-z]+))?\}")
SENTENCE = re.compile(r"(^|[.?!] )([a-z])")
ARTICLE = re.compile(r"\b([Aa])n? (?=([\w-]+))")
AN = re.compile(r"(?!uni(?!n)|us[aeiu]|eu|one\b|uk)[aeiou]|hour|honest|heir|x-ray|8|11|18", re.IGNORECASE)


@cache
def queries() -> tuple[str, ...]:
    """Return the shipped bank in its fixed, mixed order: its first thousand are a fair sample of all its styles."""
    return tuple(read("queries.txt").splitlines())


def generate(seed: int = 0, count: int = 4000) -> list[str]:
    """Make a bank of about ``count`` queries, no two of them alike, in mixed order."""
    made = [query for made_in_style in by_style(seed, count).values() for query in made_in_style]
    return shuffled(made, np.random.default_rng(seed))


def by_style(seed: int = 0, count: int = 4000) -> dict[str, list[str]]:
    """Make a bank and return its queries by style. Each style fills its share; its templates take turns."""
    words = WordDeck.read(np.random.default_rng(seed))
    seen = SeenQueries(frozenset(words.lists["stop"]))
    bank: dict[str, list[str]] = {}
    for name, style in tomllib.loads(read("templates.toml")).items():
        bank[name], wanted, alive = [], round(style["share"] * count), list(style["templates"])
        while alive and len(bank[name]) < wanted:
            template = alive.pop(0)
            for _ in range(TRIES):
                query = words.fill(template)
                if seen.takes(query):
                    finished = sentence(query, style["mark"]) if words.rng.random() < style["sentence"] else query
                    bank[name].append(finished)
                    alive.append(template)
                    break
        if len(bank[name]) < wanted:
            raise BadInput(
                f"The words give only {len(bank[name])} different queries in the style {name!r}, not {wanted}. "
                f"Ask for fewer than {count} queries, or add words and templates."
            )
    return bank


@dataclass(frozen=True, slots=True)
class WordDeck:
    """Lists and tables of words, dealt like cards: no card repeats before all have been dealt."""

    rng: np.random.Generator
    lists: dict[str, list[str]]
    tables: dict[str, list[Row]]
    decks: dict[int, list[object]] = field(default_factory=dict)

    @classmethod
    def read(cls, rng: np.random.Generator) -> WordDeck:
        """Read ``words.toml``."""
        text = tomllib.loads(read("words.toml"))
        lists = {name: [" ".join(word.split()) for word in words.split(",")] for name, words in text["lists"].items()}
        tables = {
            name: [
                dict(zip(table["columns"].split(), (cell.split(" / ") for cell in row.split(" | ")), strict=True))
                for row in table["rows"].strip().splitlines()
            ]
            for name, table in text["tables"].items()
        }
        return cls(rng, lists, tables)

    def deal(self, cards: Sequence[Card]) -> Card:
        """Return the next of these cards, shuffled again after the last."""
        deck = self.decks.setdefault(id(cards), [])
        if not deck:
            deck.extend(shuffled(cards, self.rng))
        return deck.pop()  # type: ignore[return-value]

    def fill(self, template: str) -> str:
        """Fill the slots of a template; the cells of a table come from one row, so they fit together."""
        rows: dict[str, Row] = {}

        def word(slot: re.Match[str]) -> str:
            name, second, column = slot.groups()
            if column is None:
                return SLOT.sub(word, self.deal(self.lists[name]))
            if name + second not in rows:
                rows[name + second] = self.deal(self.tables[name])
            return SLOT.sub(word, self.deal(rows[name + second][column]))

        return ARTICLE.sub(
            lambda found: f"{found[1]}n " if AN.match(found[2]) else f"{found[1]} ", SLOT.sub(word, template)
        )


@dataclass(frozen=True, slots=True)
class SeenQueries:
    """The queries so far, by the words that carry their meaning."""

    stop: frozenset[str]
    sizes: list[int] = field(default_factory=list)
    holders: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    def takes(self, query: str) -> bool:
        """Return whether a query repeats no word and resembles no earlier query; if so, remember it."""
        words = [word.rstrip("s") for word in re.findall(r"\w+", query.lower()) if word not in self.stop]
        common = Counter(i for word in words for i in self.holders[word])
        alike = any(n >= ALIKE * (len(words) + self.sizes[i] - n) for i, n in common.items())
        if alike or len(set(words)) < len(words):
            return False
        for word in words:
            self.holders[word].append(len(self.sizes))
        self.sizes.append(len(words))
        return True


def shuffled(cards: Sequence[Card], rng: np.random.Generator) -> list[Card]:
    """Return the cards in random order. It uses uniform draws only, which are the same in every version of numpy."""
    return [cards[i] for i in rng.random(len(cards)).argsort(kind="stable")]


def sentence(query: str, mark: str) -> str:
    """Write a query as a sentence or several.

    >>> sentence("my cat sneezes. what can I do", "?")
    'My cat sneezes. What can I do?'
    """
    return SENTENCE.sub(lambda start: start[1] + start[2].upper(), query) + mark


def read(name: str) -> str:
    """Return the text of a file of this package."""
    return files(__name__).joinpath(name).read_text(encoding="utf-8")
