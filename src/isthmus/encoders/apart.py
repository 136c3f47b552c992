"""What each word of a text and each patch of a picture adds: vectors with that word or patch left out.

In words: a tower computes a state for every token, or for every cell of a grid over the picture, and pools the states
by a mean. Remove one word or one cell from that mean, recompute everything after the mean, and compare the vectors. The
*share* of a piece is how much the similarity to another vector drops without it:

    f = mean_i h_i        f₋ᵢ = (n f − Σ_{j ∈ piece i} h_j) / (n − |piece i|)        share_i = s(f) − s(f₋ᵢ)

with h the states of n tokens (a word is all of its tokens) or of n cells, and s(·) everything computed from the mean:
the rest of the tower, the fusion with a document's other part, the cosine. A positive share supports the match, a
negative one counts against it. The result is exact: the means without one piece go through the *tail* of the tower in
one batch.

Relation to Grad-CAM (Selvaraju et al. 2017, section 3): it weights the channels of the last cells by the gradient of a
score and sums them, ⟨∂s/∂f, h_i⟩. To first order share_i ≈ ⟨∂s/∂f, h_i − f⟩ / (n − 1): Grad-CAM's map before its ReLU,
minus the mean of that map. We deviate: the difference is exact and needs no gradient, the numbers are in units of
similarity, and negative values are kept.

``isthmus.encoders.apart_fusion`` does the same for encoders that make one vector of text and image.

Limits: a state already depends on the rest of the text or picture, so a piece's share measures what the tower computed
*at* that position. Shares do not add up to the similarity.

>>> states = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
>>> without(states, [[0], [1, 2]])
array([[0.5, 1. ],
       [1. , 0. ]])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from isthmus.documents import ImageLike
from isthmus.encoders import MINI
from isthmus.encoders.abilities import CanExplain, HasSettings, TakesApart
from isthmus.encoders.base import Encoder, Role, Settings
from isthmus.encoders.images import read
from isthmus.encoders.items import readable
from isthmus.encoders.onnx import Model
from isthmus.encoders.texts import TextPassage, TokenizedWord
from isthmus.encoders.tokens import POOLED, TokenTowers
from isthmus.encoders.tower import tail
from isthmus.errors import BadInput
from isthmus.types import Matrix

NOTHING = "There is nothing to read in this text. Leave it out."


class Left(NamedTuple):
    """A vector with each piece left out: words (start and end) or patches (row and column)."""

    without: Matrix  # (n, d), unit
    pieces: tuple[tuple[int, int], ...]


class Apart(NamedTuple):
    """A vector, and the vectors without each word and without each patch; None where it has no words or patches.

    The patches cover the whole picture, row by row.
    """

    vector: Matrix  # (d,), unit
    words: Left | None = None
    patches: Left | None = None
    notes: tuple[str, ...] = ()  # pieces that cannot be left out, and why


def can_load(encoder: Encoder | None) -> bool:
    """Whether ``load`` finds something for this encoder, as far as its name tells; nothing is opened."""
    return isinstance(encoder, CanExplain) or (encoder is not None and encoder.name in OPENERS)


def load(encoder: Encoder | None) -> TakesApart:
    """Return the object that takes apart texts and pictures for this encoder."""
    if isinstance(encoder, CanExplain):
        return encoder.takes_apart()
    if encoder is not None and encoder.name in OPENERS:
        opened = OPENERS[encoder.name](encoder.settings if isinstance(encoder, HasSettings) else Settings())
        if opened.towers.identity == encoder.identity:
            return opened
    owner = "A collection of vectors" if encoder is None else f"The encoder {encoder.name!r}"
    raise BadInput(
        f"{owner} cannot compute what each word and patch adds to a similarity. These can: {', '.join(KNOWN)}. "
        "Re-encode the collection with one of them, or search without maps."
    )


def without(states: Matrix, pieces: Sequence[Sequence[int]]) -> Matrix:
    """Return the mean of ``states`` ``(n, d)`` without the rows of each piece, ``(len(pieces), d)``."""
    left = len(states) - np.array([len(piece) for piece in pieces])[:, None]
    taken = np.stack([states[list(piece)].sum(axis=0, dtype=np.float64) for piece in pieces])
    means: Matrix = (states.sum(axis=0, dtype=np.float64) - taken) / np.maximum(left, 1)
    return means


def passages_with_words(
    towers: TokenTowers, text: str | None, role: Role, passage: int | None
) -> list[tuple[TextPassage, list[TokenizedWord]]]:
    """Return the passages of a text, or the passage with this number, each with its words."""
    several = list(zip(*towers.words(readable(text or ""), role), strict=True))
    return several if passage is None else several[passage : passage + 1]


def mean_of(passages: Sequence[Apart]) -> Apart:
    """Return the unit mean of passages. A word is left out of its own passage, a patch of the picture out of each."""
    total = np.sum([one.vector for one in passages], axis=0)  # the sum and the mean have one direction
    words = [(total - one.vector + one.words.without, one.words.pieces) for one in passages if one.words is not None]
    patches = [(one.patches.without, one.patches.pieces) for one in passages if one.patches is not None]
    return Apart(
        unit(total),
        Left(unit(np.concatenate([left for left, _ in words])), sum((p for _, p in words), ())) if words else None,
        Left(unit(np.sum([left for left, _ in patches], axis=0)), patches[0][1]) if patches else None,
        passages[0].notes,
    )


def spans(words: Sequence[TokenizedWord]) -> tuple[tuple[int, int], ...]:
    """Return the start and end of each word."""
    return tuple((word.start, word.end) for word in words)


def grid(cells: int) -> tuple[tuple[int, int], ...]:
    """Return the row and column of each cell of a square grid.

    >>> grid(4)
    ((0, 0), (0, 1), (1, 0), (1, 1))
    """
    side = round(cells**0.5)
    return tuple(np.ndindex(side, side))


def unit(rows: Matrix) -> Matrix:
    """Scale to length 1. A zero vector, as of a text without its only token, stays zero."""
    wide = np.asarray(rows, dtype=np.float64)
    scaled: Matrix = wide / np.maximum(np.linalg.norm(wide, axis=-1, keepdims=True), 1e-12)
    return scaled


@dataclass(frozen=True, slots=True, eq=False)
class TowersApart:
    """Two towers that pool by a mean. After the mean, the text tower only scales and the image tower has a tail."""

    towers: TokenTowers
    tail: Model  # maps the pooled cells to the picture's vector

    @classmethod
    def open(cls, settings: Settings) -> TowersApart:
        """Open the towers of ``mini``, and the tail of its image tower."""
        towers = TokenTowers.open(MINI, settings)
        whole = towers.image.model
        behind = Model.open(whole.path, [POOLED], whole.output, settings, tail(whole.path.read_bytes(), POOLED))
        return cls(towers, behind)

    def take(
        self, text: str | None, image: ImageLike | None, role: Role, passage: int | None = None
    ) -> Mapping[str, Apart]:
        """Take each part apart; a text of several passages is the unit mean of them."""
        passages = [self._passage(one, words) for one, words in passages_with_words(self.towers, text, role, passage)]
        if not passages and image is None:
            raise BadInput(NOTHING)
        parts = {"text": mean_of(passages)} if passages else {}
        return parts if image is None else {**parts, "image": self._picture(image)}

    def _passage(self, passage: TextPassage, words: Sequence[TokenizedWord]) -> Apart:
        states = self.towers.read([passage]).states[0]  # (t, d)
        left = unit(without(states, [word.tokens for word in words]))
        return Apart(unit(states.mean(axis=0, dtype=np.float64)), Left(left, spans(words)))

    def _picture(self, image: ImageLike) -> Apart:
        found = self.towers.look([read(image, self.towers.frame)])
        cells = found.cells[0]  # (p, channels)
        means = without(cells, [[cell] for cell in range(len(cells))]).astype(np.float32)
        left = Left(unit(self.tail.run({POOLED: means})), grid(len(cells)))
        return Apart(found.vectors[0].astype(np.float64), patches=left)


OPENERS: Mapping[str, Callable[[Settings], TowersApart]] = MappingProxyType({"mini": TowersApart.open})
KNOWN = (*OPENERS, "models of `isthmus train fusion`")
