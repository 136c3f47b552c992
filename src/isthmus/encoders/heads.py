"""What joins two towers: a document of text and image becomes one vector, and so does a query.

    Documents   text tokens and image cells → a vector, and tokens that have seen both
    Queries     words → a vector; parted first, where some words ask for the text and others for the image

Each takes units: a passage, a picture, or a passage beside a picture. What a unit has not is one token under a mask
that is false. The models are exported by ``isthmus.train.fusion``, where the mathematics stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isthmus.encoders.base import Settings
from isthmus.encoders.folder import Description, FusionSection
from isthmus.encoders.images import Pixels
from isthmus.encoders.once import VectorInput
from isthmus.encoders.onnx import Model
from isthmus.encoders.texts import TextPassage
from isthmus.encoders.tokens import TokenStates, TokenTowers
from isthmus.types import Mask, Matrix, Rows

SIDES = ("text", "image")  # what the words of a query ask for, in the order of the model's inputs
FEW = 2  # words that do not stand for themselves
DOCUMENT = ("text", "text_mask", "patches", "patch_mask", "image")


class Fused(NamedTuple):
    """Documents whose text and image have seen each other."""

    vectors: Matrix  # (n, out), unit
    tokens: Matrix  # (n, s, d)
    masks: Mask  # (n, 2, s): which tokens are text, which are image


class TokenShares(NamedTuple):
    """What each token of a unit adds to its unit vector, by way of a mean; summed over the tokens it is the vector."""

    shares: Matrix  # (s, out)
    mean: Rows  # (s,): the mean that a token is in; -1: in none, it fills a place
    token: Rows  # (s,): the token of the passage that it is; -1: it is none
    cell: Rows  # (s,): the cell of the picture that it is; -1: it is none


class Cells(NamedTuple):
    """What is seen of pictures."""

    cells: Matrix  # (n, p, channels)
    mask: Mask  # (n, p)
    vectors: Matrix  # (n, d), unit; 0 where there is no picture


@dataclass(frozen=True, slots=True, eq=False)
class DocumentHead:
    """Documents' vectors, by ``document.onnx``."""

    towers: TokenTowers
    model: Model

    @classmethod
    def open(cls, described: Description, towers: TokenTowers, settings: Settings) -> DocumentHead:
        """Load the model."""
        return cls(towers, Model.described(described, "document.onnx", DOCUMENT, "vectors", settings))

    def encode(self, units: Sequence[VectorInput]) -> Matrix:
        """Return one row per unit."""
        return self.model.run(self._feed(units))

    def fuse(self, units: Sequence[VectorInput]) -> Fused:
        """Return the vectors and the tokens behind them."""
        vectors, tokens, masks = self.model.several(self._feed(units), ["vectors", "tokens", "masks"])
        return Fused(vectors, tokens, masks.astype(bool))

    def added(self, unit: VectorInput) -> TokenShares:
        """Return what each token of a text and each cell of a picture adds."""
        feed = self._feed([unit])
        (shares,) = self.model.several(feed, ["shares"])  # (1, t + p, out)
        text, image = np.flatnonzero(feed["text_mask"][0]), np.flatnonzero(feed["patch_mask"][0])
        behind = feed["text_mask"].shape[1] + image
        mean, token, cell = (np.full(shares.shape[1], -1) for _ in range(3))
        apart = shares.shape[2] > self.towers.dim  # the mean of each kind has a half of the vector; else there is one
        mean[text], mean[behind] = 0, int(apart)
        token[text], cell[behind] = text, image
        return TokenShares(shares[0], mean, token, cell)

    def _feed(self, units: Sequence[VectorInput]) -> Mapping[str, NDArray[Any]]:
        text = states(self.towers, [unit.passage for unit in units])
        seen = cells(self.towers, [unit.pixels for unit in units], self.model.width("patches"))
        return dict(zip(DOCUMENT, (text.states, text.mask, seen.cells, seen.mask, seen.vectors), strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class QueryHead:
    """Queries' vectors, by ``query.onnx``; with a chooser, ``choose.onnx``, of two sides that are read apart.

    A word asks for what it has a positive logit for, text or image or both; where both are negative, for the larger.
    Each side's tokens are read by the text tower as a passage of their own; a side that nothing asks for is masked. A
    picture is one token, its tower's vector, on the side of the image, and counts as much as all words of that side.
    """

    towers: TokenTowers
    model: Model
    chooser: Model | None

    @classmethod
    def open(cls, described: Description, section: FusionSection, towers: TokenTowers, settings: Settings) -> QueryHead:
        """Load the models."""
        model = Model.described(described, "query.onnx", inputs_of(section.sides), "vectors", settings)
        if section.sides == 1:
            return cls(towers, model, None)
        return cls(towers, model, Model.described(described, "choose.onnx", ["words", "mask"], "logits", settings))

    def encode(self, units: Sequence[VectorInput]) -> Matrix:
        """Return one row per unit."""
        return self.model.run(self.feed(units))

    def added(self, unit: VectorInput) -> TokenShares:
        """Return what each token adds, side after side; a word that asks for both stands on both."""
        feed, (asks,) = self.feed([unit]), self.asks([unit.passage])
        (shares,) = self.model.several(feed, ["shares"])  # (1, s, out)
        mean, token = [], []
        for side, asked in enumerate(asks.T):
            there, places = feed[f"mask_{side}"][0], np.flatnonzero(asked)  # words, and behind them a picture
            mean.append(np.where(there, side, -1))
            token.append(np.append(places, np.full(len(there) - len(places), -1)))
        return TokenShares(shares[0], np.concatenate(mean), np.concatenate(token), np.full(shares.shape[1], -1))

    def sides(self, passages: Sequence[TextPassage | None]) -> list[list[TextPassage | None]]:
        """Return, for each side, what is asked of it; all of it where there is one side."""
        several = list(zip(passages, self.asks(passages), strict=True))
        return [[_some(passage, asks[:, side]) for passage, asks in several] for side in range(self.count)]

    def asks(self, passages: Sequence[TextPassage | None]) -> list[Mask]:
        """Say which tokens of each passage stand on which side, ``(t, sides)``; its frame stands beside them."""
        asked = [passage for passage in passages if passage is not None]
        chosen = iter(self._chosen(asked) if asked else [])
        return [np.zeros((0, self.count), bool) if passage is None else next(chosen) for passage in passages]

    @property
    def count(self) -> int:
        """How many sides there are."""
        return 1 if self.chooser is None else len(SIDES)

    def _chosen(self, passages: Sequence[TextPassage]) -> Iterator[Mask]:
        if self.chooser is None:
            yield from (np.ones((len(passage.tokens), 1), bool) for passage in passages)
            return
        read = self.towers.read(passages)
        logits = self.chooser.run({"words": read.states, "mask": read.mask})  # (n, t, 2)
        for passage, rows in zip(passages, logits, strict=True):
            inside = self.towers.inside(passage, "query")
            words = self.towers.word_ids(passage, "query")
            own = asked_for(settled(whole_words(rows[inside], words), words))
            asks = np.tile(own.any(axis=0), (len(passage.tokens), 1))
            asks[inside] = own
            yield asks

    def feed(self, units: Sequence[VectorInput]) -> dict[str, NDArray[Any]]:
        """Return what the models read of queries: the words of each side and their mask, ``words_0``, ``mask_0`` …."""
        shown = np.array([unit.pixels is not None for unit in units])
        pictures = looked_at(self.towers, [unit.pixels for unit in units])  # (n, d)
        feed: dict[str, NDArray[Any]] = {}
        for number, passages in enumerate(self.sides([unit.passage for unit in units])):
            words = states(self.towers, passages)
            if shown.any() and number == self.count - 1:
                words = _beside(words, pictures, shown)
            feed |= {f"words_{number}": words.states, f"mask_{number}": words.mask}
        return feed


def inputs_of(sides: int) -> list[str]:
    """Return the names of what the models read of a query."""
    return [f"{what}_{side}" for side in range(sides) for what in ("words", "mask")]


def whole_words(logits: Matrix, words: Sequence[int]) -> Matrix:
    """Give the tokens of one word the mean of their logits.

    >>> whole_words(np.array([[4.0, 0.0], [1.0, -3.0], [3.0, 1.0]]), [0, 1, 1]).tolist()
    [[4.0, 0.0], [2.0, -1.0], [2.0, -1.0]]
    """
    _, number = np.unique(words, return_inverse=True)
    sums = np.zeros((len(logits), logits.shape[1]), dtype=np.float64)
    np.add.at(sums, number, logits)
    mean: Matrix = (sums / np.maximum(np.bincount(number, minlength=len(sums)), 1)[:, None])[number]
    return mean


def settled(logits: Matrix, words: Sequence[int]) -> Matrix:
    """Turn one or two words that stand between words of the other side: what asks for one thing stands together.

    >>> lonely = np.array([[-1.0, 2.0], [3.0, -1.0], [-1.0, 2.0]])
    >>> settled(lonely, [0, 1, 2]).tolist()
    [[-1.0, 2.0], [-1.0, 3.0], [-1.0, 2.0]]
    >>> sides = [0, 0, 0, 1, 0, 1, 0, 0, 0]
    >>> settled(np.eye(2)[sides], range(9)).argmax(axis=1).tolist()
    [0, 0, 0, 0, 0, 0, 0, 0, 0]
    """
    found = logits.copy()
    while True:
        runs = [list(run) for _, run in groupby(range(len(found)), key=found.argmax(axis=1).tolist().__getitem__)]
        lonely = [run for run in runs[1:-1] if len({words[at] for at in run}) <= FEW]
        if not lonely:
            return found
        run = min(lonely, key=len)  # one after another: its neighbours are one run now
        found[run] = found[run][:, ::-1]


def asked_for(logits: Matrix) -> Mask:
    """Say which sides each token asks for: those above 0, or else the larger. ``(t, 2)``.

    >>> asked_for(np.array([[2.0, -1.0], [1.0, 3.0], [-2.0, -1.0]])).tolist()
    [[True, False], [True, True], [False, True]]
    """
    asks: Mask = logits > 0
    asks[np.arange(len(logits)), logits.argmax(axis=1)] = True  # the larger is chosen whenever one is
    return asks


def _some(passage: TextPassage | None, kept: Mask) -> TextPassage | None:
    """Make a passage of some tokens of another."""
    return TextPassage(0, 0, passage.tokens[kept].tobytes()) if passage is not None and kept.any() else None


def states(towers: TokenTowers, passages: Sequence[TextPassage | None]) -> TokenStates:
    """Return the token states of passages, ``(n, t, d)``; each different passage is read once."""
    distinct = {passage.content: passage for passage in passages if passage is not None}
    if not distinct:
        return TokenStates(np.zeros((len(passages), 1, towers.dim), np.float32), np.zeros((len(passages), 1), bool))
    place = {content: row for row, content in enumerate(distinct)}
    read = towers.read(list(distinct.values()))
    rows = np.array([-1 if passage is None else place[passage.content] for passage in passages])
    there = read.mask[rows] & (rows >= 0)[:, None]
    return TokenStates(np.where(there[:, :, None], read.states[rows], np.float32(0)), there)


def cells(towers: TokenTowers, pixels: Sequence[Pixels | None], channels: int) -> Cells:
    """Return what is seen of pictures; each different array is looked at once."""
    distinct = {id(each): each for each in pixels if each is not None}
    if not distinct:
        empty = np.zeros((len(pixels), 1, channels), np.float32)
        return Cells(empty, np.zeros((len(pixels), 1), bool), np.zeros((len(pixels), towers.dim), np.float32))
    place = {name: row for row, name in enumerate(distinct)}
    seen = towers.look(list(distinct.values()))
    rows = np.array([-1 if each is None else place[id(each)] for each in pixels])
    there = rows >= 0
    mask = np.repeat(there[:, None], seen.cells.shape[1], axis=1)
    shown = np.where(there[:, None, None], seen.cells[rows], np.float32(0))
    return Cells(shown, mask, np.where(there[:, None], seen.vectors[rows], np.float32(0)))


def looked_at(towers: TokenTowers, pixels: Sequence[Pixels | None]) -> Matrix:
    """Return the vectors of pictures, ``(n, d)``; 0 where there is none."""
    return cells(towers, pixels, 1).vectors


def _beside(words: TokenStates, pictures: Matrix, on: Mask) -> TokenStates:
    """Put a picture's vector behind the words, as one more token, where ``on``; it counts as much as they together.

    Words are brought to a mean of length 1 first, as the model does: else a picture would count by how long the text
    tower's states happen to be.
    """
    count = np.maximum(words.mask.sum(axis=1), 1)[:, None, None]
    length = np.linalg.norm((words.states * words.mask[:, :, None] / count).sum(axis=1), axis=1)  # (n,)
    scaled = words.states / np.where(length > 0, length, 1.0)[:, None, None]
    together = np.concatenate([scaled, count * pictures[:, None]], axis=1).astype(np.float32)
    return TokenStates(together, np.concatenate([words.mask, on[:, None]], axis=1))
