"""The model of Mr. Right: documents of text and image, and queries, become one vector each.

    F_d = merge( [text tower(D_T) ; image tower(D_I)] )        F_q = text tower(Q_T)               (Equation 1)
    R_d = mean of F_d                                          R_q = mean of F_q                   (Equation 2)
    s   = ⟨unit(W_d R_d), unit(W_q R_q)⟩                                                           (Equation 3)

The text tower is the same for documents and queries (Section 4.2). The matcher reads F_d and F_q. Both towers, the
merge attention, the projections, the temperature and the matcher are trained.

Deviations: the towers are those of ``mini`` and not of METER, ALBEF or ViLT. Their tokens are scaled such that a
text's, and an image's, have a mean of length 1, because ``mini`` was trained on unit vectors. Merge attention has no
pre-trained weights: it initially adds nothing, and the projections start as the identity, so training starts from the
towers.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from isthmus.train.fusion.layers import HALVES, Layer, Shape, equal, mean_weights, unit_mean
from isthmus.train.fusion.model import FusedDocuments
from isthmus.train.mr_right.matcher import ClassMatcher
from isthmus.train.towers import TrainableImageTower, TrainableTextTower

COLDEST, HOTTEST = 0.005, 0.5  # bounds of the temperature


class ReadTexts(NamedTuple):
    """The text tower's states of texts, and the mask of real tokens."""

    states: Tensor  # (n, t, d)
    mask: Tensor  # (n, t) booleans


class MergeEncoder(nn.Module):
    """Merge attention over text tokens and patches, their mean, and a projection."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.kind = nn.Parameter(torch.zeros(HALVES, shape.dim))  # marks text and image tokens for the layers
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.merge))
        self.out = projection(shape.dim)

    def forward(self, text: Tensor, text_mask: Tensor, patches: Tensor, patch_mask: Tensor) -> FusedDocuments:
        """Return vectors, features and masks of documents; text is ``(n, t, d)``, patches are ``(n, p, d)``."""
        tokens = torch.cat([unit_mean(text, text_mask), unit_mean(patches, patch_mask)], dim=1)  # (n, t + p, d)
        nothing = torch.zeros_like(text_mask), torch.zeros_like(patch_mask)
        masks = torch.stack(
            [torch.cat([text_mask, nothing[1]], dim=1), torch.cat([nothing[0], patch_mask], dim=1)], dim=1
        )
        there = masks.any(dim=1)
        seen = tokens + masks.to(tokens.dtype).transpose(1, 2) @ self.kind if self.layers else tokens
        for layer in self.layers:
            seen = layer(seen, there)
        return FusedDocuments(F.normalize(self.out((seen * mean_weights(there)).sum(dim=1)), dim=1), seen, masks)


class MrRight(nn.Module):
    """Two towers, merge attention, projections, the matcher, and the temperature of the contrast."""

    def __init__(
        self, text: TrainableTextTower, image: TrainableImageTower, shape: Shape, temperature: float = 0.07
    ) -> None:
        super().__init__()
        self.shape = shape
        self.text, self.image = text, image
        self.merge, self.ask = MergeEncoder(shape), projection(shape.dim)
        self.matcher = ClassMatcher(shape)
        self.log_temperature = nn.Parameter(torch.tensor(temperature).log())

    def read(self, tokens: Tensor, mask: Tensor) -> ReadTexts:
        """Return the states of texts, of documents or queries."""
        states = self.text.bert(input_ids=tokens, attention_mask=mask).last_hidden_state
        return ReadTexts(states, mask.bool())

    def look(self, pixels: Tensor) -> Tensor:
        """Return the patches ``(n, p, d)`` of pictures in −1…1."""
        return patches(self.image, pixels)

    def documents(self, text: ReadTexts, seen: Tensor) -> FusedDocuments:
        """Merge texts with the patches of pictures."""
        fused: FusedDocuments = self.merge(text.states, text.mask, seen, all_there(seen))
        return fused

    def queries(self, words: ReadTexts) -> Tensor:
        """Return the vectors of queries."""
        return F.normalize(self.ask((words.states * mean_weights(words.mask)).sum(dim=1)), dim=1)

    def match(self, documents: FusedDocuments, words: ReadTexts) -> Tensor:
        """Return the two classes of each pair, ``(n, 2)``."""
        logits: Tensor = self.matcher(
            documents.tokens, documents.masks, unit_mean(words.states, words.mask), words.mask
        )
        return logits

    @property
    def temperature(self) -> Tensor:
        """The divisor of similarities."""
        return self.log_temperature.exp().clamp(COLDEST, HOTTEST)


def patches(tower: TrainableImageTower, pixels: Tensor) -> Tensor:
    """Return the tower's vector of each cell of its last feature map, ``(n, p, d)``: head and anchor by cell."""
    cells = tower.backbone.extract_features(pixels).flatten(2).transpose(1, 2)  # type: ignore[operator]
    anchor = tower.backbone._fc(cells).float().softmax(2) @ tower.names  # type: ignore[operator]
    found: Tensor = tower.head(cells).float() + tower.gain * anchor
    return found


def all_there(seen: Tensor) -> Tensor:
    """Return a mask in which every token is real."""
    return torch.ones(seen.shape[:2], dtype=torch.bool, device=seen.device)


def projection(dim: int) -> nn.Linear:
    """Return a fully-connected layer that starts as the identity."""
    made = nn.Linear(dim, dim)
    nn.init.zeros_(made.bias)
    return equal(made)
