"""The model of Mr. Right on top of two towers: one vector for a document of text and image, one for a query.

    document    [text tokens ; image patches] → (merge attention) → the mean of each kind → projection → unit
    query       words about the text, words about the image → (a layer) → means → projection → unit

A text token is the text tower's last state, in units of the length of their mean. An image patch is the image's vector
plus a linear map of the difference between one cell of the image tower's last feature map and the mean cell: the mean
of an image's patches is its vector. Every layer is residual and initially adds nothing, so training starts from the
towers' vectors.

``pool="kinds"`` (ours) concatenates the mean of text tokens and the mean of patches, ``[t ; v]``. A query's words are
split as well (``Chooser``) and the tower reads each side separately: ``[q_t ; q_v]``; a side without words is 0, so the
documents' half of that kind has no effect. A document of one kind has it in both halves, ``[t ; t]``, and can match
either side. ``pool="mean"`` is the paper's: one mean over all tokens, one query.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from isthmus.train.fusion.layers import HALVES, Layer, Shape, answering, equal, mean_weights, silent, unit_mean
from isthmus.train.fusion.matcher import MatcherModel


class TowerFeatures(NamedTuple):
    """Outputs of the towers for documents: text tokens and patches with their masks, and the image's vector."""

    text: Tensor  # (n, t, dim)
    text_mask: Tensor  # (n, t) booleans
    patches: Tensor  # (n, p, patch)
    patch_mask: Tensor  # (n, p) booleans
    image: Tensor  # (n, dim), unit


class FusedDocuments(NamedTuple):
    """Documents after merge attention: their vectors, and the tokens."""

    vectors: Tensor  # (n, out), unit
    tokens: Tensor  # (n, t + p, dim)
    masks: Tensor  # (n, 2, t + p): masks of text and of image tokens


class FusedQueries(NamedTuple):
    """Queries: their vectors, and each token's share, side after side."""

    vectors: Tensor  # (n, out), unit
    shares: Tensor  # (n, t, out)


class DocumentEncoder(nn.Module):
    """Text tokens and image patches, merged, become one vector."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.patch = silent(nn.Linear(shape.patch, shape.dim, bias=False))
        self.kind = nn.Parameter(torch.zeros(HALVES, shape.dim))  # marks text and image tokens for the layers
        self.merge = nn.ModuleList(Layer(shape) for _ in range(shape.merge))
        self.out = equal(nn.Linear(shape.out, shape.out, bias=False))
        self.noise = nn.Dropout(shape.drop)

    def forward(self, seen: TowerFeatures) -> FusedDocuments:
        """Merge and pool; a document without text or without image has a mask without a true value there."""
        text = unit_mean(seen.text, seen.text_mask)
        apart = seen.patches - (seen.patches * mean_weights(seen.patch_mask)).sum(dim=1, keepdim=True)
        image = seen.image[:, None] + self.patch(self.noise(apart))  # (n, p, dim)
        tokens = torch.cat([text, image], dim=1)
        mask = torch.cat([seen.text_mask, seen.patch_mask], dim=1)
        marks = torch.cat([self.kind[:1].expand(text.shape[1], -1), self.kind[1:].expand(image.shape[1], -1)])
        for layer in self.merge:
            tokens = layer(tokens + marks, mask) - marks  # the marks are for attention, not for the mean
        masks = torch.stack(
            [F.pad(seen.text_mask, (0, image.shape[1])), F.pad(seen.patch_mask, (text.shape[1], 0))], dim=1
        )
        return FusedDocuments(F.normalize(self._vector(tokens, masks), dim=1, eps=1e-6), tokens, masks)

    def shares(self, fused: FusedDocuments) -> Tensor:
        """Return what each token adds to the vector, ``(n, t + p, out)``: its part of a mean, projected."""
        parts = self._weights(fused.masks).transpose(1, 2)[..., None] * fused.tokens[:, :, None]  # (n, s, halves, dim)
        length = self._vector(fused.tokens, fused.masks).norm(dim=1).clamp_min(1e-6)
        added: Tensor = self.out(parts.flatten(2)) / length[:, None, None]
        return added

    def _vector(self, tokens: Tensor, masks: Tensor) -> Tensor:
        found: Tensor = self.out((self._weights(masks) @ tokens).flatten(1))
        return found

    def _weights(self, masks: Tensor) -> Tensor:
        """Return how much each token counts in the mean of each half of the vector, ``(n, halves, t + p)``."""
        there = (answering(masks) if self.shape.pool == "kinds" else masks.any(dim=1, keepdim=True)).to(torch.float32)
        return there / there.sum(dim=2, keepdim=True).clamp_min(1.0)


class QueryEncoder(nn.Module):
    """Encodes words to one vector in the documents' space, with the same text tower.

    It has as many sides as documents have halves: words about the text and words about the image, or
    (``pool="mean"``) all words once.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.layer = Layer(shape) if shape.merge else None
        self.sides = shape.out // shape.dim
        self.balance = nn.Parameter(torch.zeros(self.sides))  # logarithms of the weight of each side
        self.out = nn.ModuleList(equal(nn.Linear(shape.dim, shape.dim, bias=False)) for _ in range(self.sides))

    def forward(self, *sides: Tensor) -> FusedQueries:
        """Encode token states ``(n, t, dim)`` and their mask ``(n, t)``, one after another for each side."""
        shares = []
        for at, out in enumerate(self.out):
            words, mask = sides[2 * at], sides[2 * at + 1]
            tokens = unit_mean(words, mask)
            if self.layer is not None:
                tokens = self.layer(tokens, mask | ~mask.any(dim=1, keepdim=True))
            share = out(tokens * mean_weights(mask)) * self.balance[at].exp()
            before, after = at * share.shape[2], (self.sides - 1 - at) * share.shape[2]
            shares.append(F.pad(share, (before, after)))
        joined = torch.cat(shares, dim=1)  # (n, all tokens, out)
        vector = joined.sum(dim=1)
        length = vector.norm(dim=1, keepdim=True).clamp_min(1e-6)
        return FusedQueries(vector / length, joined / length[:, None])


class Chooser(nn.Module):
    """Classifies the words of a query: logits for text and image, by token and its neighbours.

    Words about one part are adjacent, and an article alone is ambiguous: so two convolutions over tokens.
    """

    def __init__(self, shape: Shape, width: int = 64, reach: int = 5) -> None:
        super().__init__()
        self.near = nn.ModuleList(nn.Conv1d(inside, width, reach, padding=reach // 2) for inside in (shape.dim, width))
        self.drop = nn.Dropout(shape.drop)
        self.say = nn.Linear(width, HALVES)

    def forward(self, words: Tensor, mask: Tensor) -> Tensor:
        """Return ``(n, t, 2)`` logits for the token states of whole queries."""
        there = mask[:, None].to(words.dtype)
        seen = unit_mean(words, mask).transpose(1, 2) * there  # (n, dim, t)
        for near in self.near:
            seen = self.drop(F.gelu(near(seen))) * there
        logits: Tensor = self.say(seen.transpose(1, 2))
        return logits


class Fusion(nn.Module):
    """All of it, and the temperature of the contrast."""

    def __init__(self, shape: Shape, temperature: float = 0.05) -> None:
        super().__init__()
        self.shape = shape
        self.document, self.query = DocumentEncoder(shape), QueryEncoder(shape)
        self.chooser, self.matcher = Chooser(shape), MatcherModel(shape)
        self.log_temperature = nn.Parameter(torch.tensor(temperature).log())

    @property
    def temperature(self) -> Tensor:
        """The divisor of similarities."""
        return self.log_temperature.exp().clamp(0.005, 0.5)
