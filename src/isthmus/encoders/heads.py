"""Models on two towers: a document of text and image becomes one vector, and so does a query.

    Documents   text tokens and image cells → a vector, and tokens that have attended to both
    Queries     words → a vector; split first, if some words are about the text and others about the image; words that
                are all about one are compared with the other as well, with a lower weight (echo)

Each input is a passage, a picture, or a passage with a picture. A missing part is one token under a mask that is false.
``isthmus.train.fusion`` exports the models and documents the mathematics.
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

SIDES = ("text", "image")  # what the words of a query are about, in the order of the model's inputs
FEW = 2  # a run of at most this many words between words of the other side changes sides
DOCUMENT = ("text", "text_mask", "patches", "patch_mask", "image")


class Fused(NamedTuple):
    """Documents whose text and image have attended to each other."""

    vectors: Matrix  # (n, out), unit
    tokens: Matrix  # (n, s, d)
    masks: Mask  # (n, 2, s): which tokens are text, which are image


class TokenShares(NamedTuple):
    """What each token of an input adds to its unit vector, through a mean; the sum over the tokens is the vector."""

    shares: Matrix  # (s, out)
    mean: Rows  # (s,): the mean that contains the token; -1: none, it is padding
    token: Rows  # (s,): its number among the tokens of the passage; -1: not a text token
    cell: Rows  # (s,): its number among the cells of the picture; -1: not a cell


class QueryFeed(NamedTuple):
    """The inputs of the query models, and the weight of each side of each query."""

    sides: dict[str, NDArray[Any]]  # words_0 (n, t, d), mask_0 (n, t), words_1 …
    weights: Matrix  # (n, sides); 1, or the echo of the other side
    echoed: Mask  # (n,): whether the words of one side are on both

    def alone(self, side: int) -> dict[str, NDArray[Any]]:
        """Return the inputs with the words of one side alone."""
        return {
            name: given & name.endswith(str(side)) if "mask" in name else given for name, given in self.sides.items()
        }


class Cells(NamedTuple):
    """The cells and vectors of pictures."""

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

    def encode(self, inputs: Sequence[VectorInput]) -> Matrix:
        """Return one row per input."""
        return self.model.run(self._feed(inputs))

    def fuse(self, inputs: Sequence[VectorInput]) -> Fused:
        """Return the vectors and the tokens that they are computed from."""
        vectors, tokens, masks = self.model.several(self._feed(inputs), ["vectors", "tokens", "masks"])
        return Fused(vectors, tokens, masks.astype(bool))

    def added(self, item: VectorInput) -> TokenShares:
        """Return what each token of a text and each cell of a picture adds."""
        feed = self._feed([item])
        (shares,) = self.model.several(feed, ["shares"])  # (1, t + p, out)
        text, image = np.flatnonzero(feed["text_mask"][0]), np.flatnonzero(feed["patch_mask"][0])
        behind = feed["text_mask"].shape[1] + image
        mean, token, cell = (np.full(shares.shape[1], -1) for _ in range(3))
        apart = shares.shape[2] > self.towers.dim  # each kind's mean fills half of the vector; else there is one mean
        mean[text], mean[behind] = 0, int(apart)
        token[text], cell[behind] = text, image
        return TokenShares(shares[0], mean, token, cell)

    def _feed(self, inputs: Sequence[VectorInput]) -> Mapping[str, NDArray[Any]]:
        text = states(self.towers, [item.passage for item in inputs])
        seen = cells(self.towers, [item.pixels for item in inputs], self.model.width("patches"))
        return dict(zip(DOCUMENT, (text.states, text.mask, seen.cells, seen.mask, seen.vectors), strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class QueryHead:
    """Queries' vectors, by ``query.onnx``; with a chooser, ``choose.onnx``, from two sides that are read separately.

    A word belongs to each side, text or image, with a positive logit; if both are negative, to the side with the larger
    one. The text tower reads each side's tokens as a passage of their own; a side without words is masked. A picture is
    one token, its tower's vector, on the image side, and has the same weight as all words of that side together.

    The words cannot tell whether a document's text describes its picture. So words that are all about one side are
    compared with the other side as well: that half of the vector is weighted by the side's ``echo``, from 0 (the other
    half has no effect) to 1 (both count alike, as in the mean of two vectors).
    """

    towers: TokenTowers
    model: Model
    chooser: Model | None
    echo: tuple[float, float] = (0.0, 0.0)
    match_echo: tuple[float, float] = (0.0, 0.0)

    @classmethod
    def open(cls, described: Description, section: FusionSection, towers: TokenTowers, settings: Settings) -> QueryHead:
        """Load the models."""
        model = Model.described(described, "query.onnx", inputs_of(section.sides), "vectors", settings)
        if section.sides == 1:
            return cls(towers, model, None)
        chooser = Model.described(described, "choose.onnx", ["words", "mask"], "logits", settings)
        return cls(towers, model, chooser, section.echo, section.match_echo)

    def encode(self, inputs: Sequence[VectorInput]) -> Matrix:
        """Return one row per input."""
        fed = self.feed(inputs)
        return weighted(self.model.run(fed.sides), fed.weights)

    def added(self, item: VectorInput) -> TokenShares:
        """Return what each token adds, side by side; a word of both sides is listed on both."""
        fed, (sides,) = self.feed([item]), self.token_sides([item.passage])
        sides, _ = self._echoed(sides, item, self.echo)
        (shares,) = self.model.several(fed.sides, ["shares"])  # (1, s, out)
        shares = scaled(shares, fed.weights[:, None]) / length(scaled(shares.sum(axis=1), fed.weights))[:, None]
        mean, token = [], []
        for side, chosen in enumerate(sides.T):
            there, places = fed.sides[f"mask_{side}"][0], np.flatnonzero(chosen)  # words, then a picture
            mean.append(np.where(there, side, -1))
            token.append(np.append(places, np.full(len(there) - len(places), -1)))
        return TokenShares(shares[0], np.concatenate(mean), np.concatenate(token), np.full(shares.shape[1], -1))

    def sides(self, passages: Sequence[TextPassage | None]) -> list[list[TextPassage | None]]:
        """Return, for each side, the tokens of each passage that belong to it; all tokens if there is one side."""
        several = list(zip(passages, self.token_sides(passages), strict=True))
        return [[_some(passage, sides[:, side]) for passage, sides in several] for side in range(self.count)]

    def token_sides(self, passages: Sequence[TextPassage | None]) -> list[Mask]:
        """Return which tokens of each passage belong to which side, ``(t, sides)``.

        Special tokens belong to every side that has a word.
        """
        given = [passage for passage in passages if passage is not None]
        chosen = iter(self._chosen(given) if given else [])
        return [np.zeros((0, self.count), bool) if passage is None else next(chosen) for passage in passages]

    @property
    def count(self) -> int:
        """The number of sides."""
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
            own = chosen_sides(smoothed(whole_words(rows[inside], words), words))
            sides = np.tile(own.any(axis=0), (len(passage.tokens), 1))
            sides[inside] = own
            yield sides

    def feed(self, inputs: Sequence[VectorInput], *, match: bool = False) -> QueryFeed:
        """Return the models' inputs: the words of each side and their mask, and the weight of each side."""
        shown = np.array([item.pixels is not None for item in inputs])
        pictures = picture_vectors(self.towers, [item.pixels for item in inputs])  # (n, d)
        passages, echo = [item.passage for item in inputs], self.match_echo if match else self.echo
        before = self.token_sides(passages)
        echoed = [self._echoed(sides, item, echo) for sides, item in zip(before, inputs, strict=True)]
        feed: dict[str, NDArray[Any]] = {}
        for side in range(self.count):
            some = [_some(passage, sides[:, side]) for passage, (sides, _) in zip(passages, echoed, strict=True)]
            words = states(self.towers, some)
            if shown.any() and side == self.count - 1:
                words = _with_picture(words, pictures, shown)
            feed |= {f"words_{side}": words.states, f"mask_{side}": words.mask}
        changed = np.array([bool((one != sides).any()) for one, (sides, _) in zip(before, echoed, strict=True)])
        return QueryFeed(feed, np.array([weights for _, weights in echoed]), changed)

    def _echoed(self, sides: Mask, item: VectorInput, echo: tuple[float, float]) -> tuple[Mask, Matrix]:
        """Return the sides of a query's tokens, all on both if the words of one side echo; and the sides' weights."""
        weights = np.ones(self.count, np.float32)
        there = sides.any(axis=0)
        if self.count == 1 or there.sum() != 1:
            return sides, weights
        own = int(there.argmax())
        if not echo[own] or (item.pixels is not None and SIDES[own] == "text"):  # then the picture is the other side
            return sides, weights
        weights[1 - own] = echo[own]
        return np.ones_like(sides), weights


def inputs_of(sides: int) -> list[str]:
    """Return the names of the models' inputs for a query."""
    return [f"{what}_{side}" for side in range(sides) for what in ("words", "mask")]


def weighted(vectors: Matrix, weights: Matrix) -> Matrix:
    """Return unit vectors with each half weighted; one with equal weights stays as it is.

    >>> weighted(np.array([[0.6, 0.8], [0.6, 0.8]]), np.array([[1.0, 1.0], [1.0, 0.0]])).tolist()
    [[0.6, 0.8], [1.0, 0.0]]
    """
    found = scaled(vectors, weights)
    changed = (weights != 1).any(axis=1)[:, None]
    return np.where(changed, found / length(found), vectors).astype(vectors.dtype, copy=False)


def scaled(vectors: Matrix, weights: Matrix) -> Matrix:
    """Multiply the halves ``(…, sides · d)`` by weights ``(…, sides)``."""
    return vectors * np.repeat(weights, vectors.shape[-1] // weights.shape[-1], axis=-1)


def length(vectors: Matrix) -> Matrix:
    """Return the lengths of rows, ``(n, 1)``; 1 instead of 0."""
    found = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.where(found > 0, found, 1.0)


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


def smoothed(logits: Matrix, words: Sequence[int]) -> Matrix:
    """Move one or two words that are between words of the other side to that side: words of one side are adjacent.

    >>> lonely = np.array([[-1.0, 2.0], [3.0, -1.0], [-1.0, 2.0]])
    >>> smoothed(lonely, [0, 1, 2]).tolist()
    [[-1.0, 2.0], [-1.0, 3.0], [-1.0, 2.0]]
    >>> sides = [0, 0, 0, 1, 0, 1, 0, 0, 0]
    >>> smoothed(np.eye(2)[sides], range(9)).argmax(axis=1).tolist()
    [0, 0, 0, 0, 0, 0, 0, 0, 0]
    """
    found = logits.copy()
    while True:
        runs = [list(run) for _, run in groupby(range(len(found)), key=found.argmax(axis=1).tolist().__getitem__)]
        lonely = [run for run in runs[1:-1] if len({words[at] for at in run}) <= FEW]
        if not lonely:
            return found
        run = min(lonely, key=len)  # one at a time: its neighbours are one run now
        found[run] = found[run][:, ::-1]


def chosen_sides(logits: Matrix) -> Mask:
    """Return the sides of each token, ``(t, 2)``: those above 0, or else the larger.

    >>> chosen_sides(np.array([[2.0, -1.0], [1.0, 3.0], [-2.0, -1.0]])).tolist()
    [[True, False], [True, True], [False, True]]
    """
    sides: Mask = logits > 0
    sides[np.arange(len(logits)), logits.argmax(axis=1)] = True  # the larger is chosen whenever one is
    return sides


def _some(passage: TextPassage | None, kept: Mask) -> TextPassage | None:
    """Return a passage with some of the tokens of another."""
    return TextPassage(0, 0, passage.tokens[kept].tobytes()) if passage is not None and kept.any() else None


def states(towers: TokenTowers, passages: Sequence[TextPassage | None]) -> TokenStates:
    """Return the token states of passages, ``(n, t, d)``; each distinct passage is read once."""
    distinct = {passage.content: passage for passage in passages if passage is not None}
    if not distinct:
        return TokenStates(np.zeros((len(passages), 1, towers.dim), np.float32), np.zeros((len(passages), 1), bool))
    place = {content: row for row, content in enumerate(distinct)}
    read = towers.read(list(distinct.values()))
    rows = np.array([-1 if passage is None else place[passage.content] for passage in passages])
    there = read.mask[rows] & (rows >= 0)[:, None]
    return TokenStates(np.where(there[:, :, None], read.states[rows], np.float32(0)), there)


def cells(towers: TokenTowers, pixels: Sequence[Pixels | None], channels: int) -> Cells:
    """Return the cells and vectors of pictures; each distinct array is encoded once."""
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


def picture_vectors(towers: TokenTowers, pixels: Sequence[Pixels | None]) -> Matrix:
    """Return the vectors of pictures, ``(n, d)``; 0 where there is none."""
    return cells(towers, pixels, 1).vectors


def _with_picture(words: TokenStates, pictures: Matrix, on: Mask) -> TokenStates:
    """Append a picture's vector to the words as one more token, where ``on``; it weighs as much as all words together.

    The words are first scaled to a mean of length 1, as in the model; otherwise the picture's weight would depend on
    the length of the text tower's states.
    """
    count = np.maximum(words.mask.sum(axis=1), 1)[:, None, None]
    length = np.linalg.norm((words.states * words.mask[:, :, None] / count).sum(axis=1), axis=1)  # (n,)
    scaled = words.states / np.where(length > 0, length, 1.0)[:, None, None]
    together = np.concatenate([scaled, count * pictures[:, None]], axis=1).astype(np.float32)
    return TokenStates(together, np.concatenate([words.mask, on[:, None]], axis=1))
