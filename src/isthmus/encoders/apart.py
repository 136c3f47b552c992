"""What each word of a text and each patch of a picture adds: vectors with that one left out.

In words: a tower looks at every token, or at every cell of a grid over the picture, and pools what it saw by a mean.
Take one word or one cell out of that mean, compute everything behind the mean anew, and see how the vector changes. The
*share* of a piece is what the similarity to something else loses without it:

    f = mean_i h_i        f₋ᵢ = (n f − Σ_{j ∈ piece i} h_j) / (n − |piece i|)        share_i = s(f) − s(f₋ᵢ)

with h the states of n tokens (a word is all of its tokens) or of n cells, and s(·) whatever is made of the mean: the
rest of the tower, the fusion with a document's other part, the cosine. A positive share speaks for the match, a
negative one against it. Nothing is approximated: all means without one piece go through the *tail* of the tower in one
batch.

Relation to Grad-CAM (Selvaraju et al. 2017, section 3): it weighs the channels of the last cells by the gradient of a
score and sums them, ⟨∂s/∂f, h_i⟩. To first order share_i ≈ ⟨∂s/∂f, h_i − f⟩ / (n − 1): Grad-CAM's map before its ReLU,
less that map's own mean. We deviate in that the difference is exact, so that no gradient is needed, the numbers are in
units of similarity, and negative ones are kept.

What it does not say: a state has seen the rest of the text or picture already, so a piece's share is that of what the
tower knew *at* that place. Shares do not add up to the similarity.

>>> states = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
>>> without(states, [[0], [1, 2]])
array([[0.5, 1. ],
       [1. , 0. ]])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, Protocol

import numpy as np

from isthmus.documents import ImageLike
from isthmus.encoders import MINI
from isthmus.encoders.base import Encoder, Role, Settings
from isthmus.encoders.images import read
from isthmus.encoders.items import readable
from isthmus.encoders.onnx import Model
from isthmus.encoders.texts import Passage, Word
from isthmus.encoders.tokens import POOLED, TokenTowers
from isthmus.encoders.tower import tail
from isthmus.encoders.towers import TowerEncoder
from isthmus.errors import BadInput
from isthmus.types import Matrix


class Apart(NamedTuple):
    """A vector, and what it is with each piece left out.

    The pieces of a text are its words: where each begins and ends. Those of a picture are patches: row and column.
    """

    vector: Matrix  # (d,), unit
    without: Matrix  # (n, d), unit
    pieces: tuple[tuple[int, int], ...]


class TakesApart(Protocol):
    """What can leave out words and patches; its vectors are those of an encoder."""

    @property
    def identity(self) -> str:
        """The identity of that encoder."""

    def text(self, text: str, role: Role, passage: int | None = None) -> Apart:
        """Leave out each word of a text, or of one passage of it."""

    def image(self, image: ImageLike) -> Apart:
        """Leave out each patch of a picture; the patches cover all of it, row after row."""


def load(encoder: Encoder | None) -> TakesApart:
    """Return what takes apart the texts and pictures that this encoder reads."""
    opener = None if encoder is None else OPENERS.get(encoder.name)
    if encoder is not None and opener is not None:
        opened = opener(encoder.settings if isinstance(encoder, TowerEncoder) else Settings())
        if opened.identity == encoder.identity:
            return opened
    whose = "A collection of vectors" if encoder is None else f"The encoder {encoder.name!r}"
    raise BadInput(
        f"{whose} cannot say what each word and patch adds to a similarity. Those that can: {', '.join(OPENERS)}. "
        "Re-encode the collection with one of them, or search without maps."
    )


def without(states: Matrix, pieces: Sequence[Sequence[int]]) -> Matrix:
    """Return the means of ``states`` ``(n, d)`` with the rows of each piece left out, ``(len(pieces), d)``."""
    left = len(states) - np.array([len(piece) for piece in pieces])[:, None]
    taken = np.stack([states[list(piece)].sum(axis=0, dtype=np.float64) for piece in pieces])
    means: Matrix = (states.sum(axis=0, dtype=np.float64) - taken) / np.maximum(left, 1)
    return means


@dataclass(frozen=True, slots=True, eq=False)
class TowersApart:
    """Two towers that pool by a mean; behind it the text tower scales, and the image tower has a tail."""

    towers: TokenTowers
    tail: Model  # takes the pooled cells, gives the picture's vector

    @classmethod
    def open(cls, settings: Settings) -> TowersApart:
        """Open the towers of ``mini``, and the tail of its image tower."""
        towers = TokenTowers.open(MINI, settings)
        whole = towers.image.model
        behind = Model.open(whole.path, [POOLED], whole.output, settings, tail(whole.path.read_bytes(), POOLED))
        return cls(towers, behind)

    @property
    def identity(self) -> str:
        """The identity of the encoder whose towers these are."""
        return self.towers.identity

    def text(self, text: str, role: Role, passage: int | None = None) -> Apart:
        """Leave out each word; a text of several passages is their unit mean."""
        passages, words = self.towers.words(readable(text), role)
        if passage is not None:
            passages, words = passages[passage : passage + 1], words[passage : passage + 1]
        if not passages:
            raise BadInput("There is nothing to read in this text. Leave it out.")
        several = [self._passage(one, said) for one, said in zip(passages, words, strict=True)]
        total = np.sum([apart.vector for apart in several], axis=0)  # the sum and the mean have one direction
        left = np.concatenate([total - apart.vector + apart.without for apart in several])
        return Apart(_unit(total), _unit(left), tuple(piece for apart in several for piece in apart.pieces))

    def image(self, image: ImageLike) -> Apart:
        """Leave out each cell of the grid."""
        found = self.towers.look([read(image, self.towers.frame)])
        cells = found.cells[0]  # (p, channels)
        side = round(len(cells) ** 0.5)
        means = without(cells, [[cell] for cell in range(len(cells))]).astype(np.float32)
        vectors = self.tail.run({POOLED: means})  # (p, d)
        return Apart(found.vectors[0].astype(np.float64), _unit(vectors), tuple(np.ndindex(side, side)))

    def _passage(self, passage: Passage, words: Sequence[Word]) -> Apart:
        states = self.towers.read([passage]).states[0]  # (t, d)
        left = without(states, [word.tokens for word in words])
        vector = states.mean(axis=0, dtype=np.float64)
        return Apart(_unit(vector), _unit(left), tuple((word.start, word.end) for word in words))


def _unit(rows: Matrix) -> Matrix:
    """Scale to length 1; nothing at all, as of a text without its only token, stays nothing."""
    wide = np.asarray(rows, dtype=np.float64)
    scaled: Matrix = wide / np.maximum(np.linalg.norm(wide, axis=-1, keepdims=True), 1e-12)
    return scaled


OPENERS: Mapping[str, Callable[[Settings], TakesApart]] = MappingProxyType({"mini": TowersApart.open})
