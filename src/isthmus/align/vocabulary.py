"""Phrases that are nearer to a picture than chance, by an encoder of words and pictures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isthmus.documents import ImageLike, Query
from isthmus.encoders import Encoder
from isthmus.encoders.bank import WordDeck
from isthmus.encoders.references import Reference, kept, references
from isthmus.types import Matrix

LISTS = (
    "landmark",
    "fruitveg",
    "instrument",
    "nature",
    "clothes",
    "garment",
    "sky",
    "artform",
    "pet",
    "wild",
    "workplace",
)
TABLES = {"animal": "name", "vehicle": "name", "dish": "name", "object": "name", "device": "name", "paper": "name"}
TABLES |= {"chart": "kind", "scene": "what", "person": "who", "child": "who", "worker": "who", "athlete": "who"}
CHANCE = 3.3  # deviations above the mean: by chance one in two thousand
MOST = 3
NORMAL = 1.4826  # the deviation of a normal distribution over its median deviation


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    r"""Phrases, and how near pictures are to each by chance.

    In words: some phrases are near every picture, and some pictures near every phrase. A phrase is chosen for a picture
    if it is nearer than other pictures are to the phrase, and nearer than the picture is to other phrases.

    Formula, with s the cosine, B the built-in bank's pictures and V the phrases::

        z(v | x) = (s(v, x) − median over B of s(v, b)) / 1.48 · median of |s(v, b) − that median|
        z(x | v) = (s(v, x) − mean over V of s(u, x)) / deviation of the same
        taken: min of the two ≥ 3.3, the best three, none that repeats a word of a better one

    The median and the median deviation, because the bank itself has a dog and a bird: they must not make dogs and birds
    look likely by chance.

    So an encoder that does not understand a picture mostly adds nothing: see ``CHANCE``.

    Reference: standardisation of similarities, here of one query over a bank in both directions; the phrases are the
    visible things among the words of the built-in bank (docs/bank.md).
    """

    phrases: tuple[str, ...]
    vectors: Matrix  # (p, d)
    middle: Matrix  # (p,): of the bank's pictures
    deviation: Matrix  # (p,)

    @classmethod
    def of(cls, encoder: Encoder) -> Vocabulary | None:
        """Return the vocabulary encoded; None if the encoder does not read both words and pictures."""
        if not {"image", "text"} <= set(encoder.modalities):
            return None
        phrases = visible()
        vectors = kept(encoder, "text", [Reference(phrase) for phrase in phrases]).parts["text"]
        pictures = kept(encoder, "image", references()["image"]).parts["image"]
        chance = pictures @ vectors.T  # (bank, p)
        middle = np.median(chance, axis=0)
        deviation = NORMAL * np.median(np.abs(chance - middle), axis=0)
        return cls(phrases, vectors, middle, np.maximum(deviation, 1e-6))

    def nearest(self, encoder: Encoder, image: ImageLike) -> list[str]:
        """Return the phrases that are clearly nearest to a picture, best first; often none."""
        picture = encoder.encode_queries([Query(image=image)]).parts["image"][0]
        similarity = self.vectors @ picture  # (p,)
        of_phrase = (similarity - self.middle) / self.deviation
        of_picture = (similarity - similarity.mean()) / max(float(similarity.std()), 1e-6)
        return self.taken(np.minimum(of_phrase, of_picture))

    def taken(self, z: Matrix) -> list[str]:
        """Return the best phrases above chance, without those that repeat a word of a better one."""
        said: set[str] = set()
        found: list[str] = []
        for row in np.argsort(-z, kind="stable"):
            words = set(self.phrases[row].lower().split()) - {"a", "an", "the", "of", "with", "in"}
            if z[row] < CHANCE or len(found) == MOST:
                break
            if not words & said:
                found.append(self.phrases[row])
                said |= words
        return found


def visible() -> tuple[str, ...]:
    """Return the things among the bank's words that a picture can show.

    >>> {"cat", "lighthouse", "bar chart"} <= {phrase.removeprefix("a ") for phrase in visible()}
    True
    """
    words = WordDeck.read(np.random.default_rng(0))
    listed = [word for name in LISTS for word in words.lists[name]]
    tabled = [word for name, column in TABLES.items() for row in words.tables[name] for word in row[column]]
    return tuple(word for word in dict.fromkeys([*listed, *tabled]) if "{" not in word)
