"""What each word and each patch adds where ONE vector is made of a text and an image.

In words: the last steps of such a model are a mean (one of the text's tokens and one of the image's patches; one for
each side of a query; or one of everything) and a linear map. The model exports what each token contributes to the
vector, its *share* h; the shares sum to the vector. Leaving a piece out of its mean changes the direction of the mean
but not its length, because the model scales its inputs to length 1:

    v = Σ_k m_k,    m_k = Σ_{j ∈ k} h_j        v₋ᵢ = unit( Σ_k ‖m_k‖ · unit( Σ_{j ∈ k, j ∉ i} h_j ) )

over the means k. A word is all its tokens, on both sides of a query if it belongs to both; a patch is one cell. Means
without a token of the piece do not change; a mean that loses all its tokens is 0.

The result is exact: it is the model's output with the piece left out of its last mean. Layers before the mean have seen
the piece (see ``isthmus.encoders.apart``, which does the same for separate vectors). A query's picture is one token,
the image tower's vector, so it has no patches.

>>> shares = np.array([[1.0, 0.0], [2.0, 4.0], [0.0, 4.0]])  # of two words and a patch
>>> left_out(TokenShares(shares, np.array([0, 0, 1]), np.array([0, 1, -1]), np.array([-1, -1, 0])), [[1], [2]])
array([[5., 4.],
       [3., 4.]])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from isthmus.documents import ImageLike
from isthmus.encoders.apart import NOTHING, Apart, Left, grid, mean_of, passages_with_words, spans, unit, without
from isthmus.encoders.base import Role
from isthmus.encoders.fusion import FusionEncoder
from isthmus.encoders.heads import TokenShares
from isthmus.encoders.images import read
from isthmus.encoders.once import VectorInput
from isthmus.encoders.texts import TokenizedWord
from isthmus.errors import BadInput
from isthmus.types import Matrix, Rows

NO_PATCHES = "The query's picture is one token of its vector: it has no patches to leave out."
NO_GRID = "Its picture has no map: the encoder's cells are not rows and columns over the whole picture."


@dataclass(frozen=True, slots=True, eq=False)
class FusionApart:
    """Uses an encoder's own models, which export what each token adds."""

    encoder: FusionEncoder

    def take(
        self, text: str | None, image: ImageLike | None, role: Role, passage: int | None = None
    ) -> Mapping[str, Apart]:
        """Take a text and image apart; a text of several passages, each with the picture, is the unit mean of them."""
        added = (self.encoder.document if role == "document" else self.encoder.query).added
        passages = passages_with_words(self.encoder.towers, text, role, passage)
        if not passages and image is None:
            raise BadInput(NOTHING)
        pixels = None if image is None else read(image, self.encoder.towers.frame)
        units = [(VectorInput(one, pixels), words) for one, words in passages] or [(VectorInput(None, pixels), [])]
        part = "+".join(["image"] * (image is not None) + ["text"] * bool(passages))
        notes = (NO_PATCHES,) if image is not None and role == "query" else ()
        return {part: mean_of([self._apart(added(one), words, notes) for one, words in units])}

    def _apart(self, added: TokenShares, words: Sequence[TokenizedWord], notes: tuple[str, ...]) -> Apart:
        vector = unit(added.shares.sum(axis=0, dtype=np.float64))
        mine = [np.flatnonzero(np.isin(added.token, word.tokens)) for word in words]
        left = Left(unit(left_out(added, mine)), spans(words)) if words else None
        cells = np.flatnonzero(added.cell >= 0)
        if not len(cells):
            return Apart(vector, left, notes=notes)
        places = grid(len(cells))
        if len(places) != len(cells) or self.encoder.towers.frame.fit != "squash":
            return Apart(vector, left, notes=(*notes, NO_GRID))
        return Apart(vector, left, Left(unit(left_out(added, cells[:, None])), places), notes)


def left_out(added: TokenShares, pieces: Sequence[Rows] | Rows) -> Matrix:
    """Return the vector, not scaled, with the tokens of each piece left out of their means, ``(n, d)``."""
    total = np.zeros((len(pieces), added.shares.shape[1]))
    for mean in np.unique(added.mean[added.mean >= 0]):
        tokens = np.flatnonzero(added.mean == mean)
        mine = [np.flatnonzero(np.isin(tokens, piece)).tolist() for piece in pieces]
        left = without(added.shares[tokens], mine)
        length = np.linalg.norm(left, axis=1, keepdims=True)
        total += np.linalg.norm(added.shares[tokens].sum(axis=0)) * left / np.where(length > 0, length, 1.0)
    return total
