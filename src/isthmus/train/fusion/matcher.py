"""The matcher: a logit for each pair of query and document."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from isthmus.train.fusion.layers import HALVES, Layer, Shape, answering, equal, mean_weights, silent, unit_mean

NEVER = -1e9  # low enough to vanish in a softmax, without NaN


class MatcherModel(nn.Module):
    """Similarity and late interaction, and with layers a transformer over both feature sequences.

    logit = head + Σ over described kinds (a · similarity + b · Σ_words w · max_tokens cos + c)

    The similarity is the part of the dot product in this kind's half. The sum of nearest tokens is late interaction
    (Khattab & Zaharia, ColBERT, 2020); its weights w are computed from the query. Words about the text are matched with
    text tokens, those about the image with patches; a query of one side (``pool="mean"``) matches all its words with
    both. The head, which reads both sequences, exists only with layers, and starts at 0.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(shape.dim)
        self.layers = nn.ModuleList(Layer(shape, cross=True) for _ in range(shape.match))
        self.say = nn.Sequential(nn.LayerNorm(shape.dim), silent(nn.Linear(shape.dim, 1)))
        self.near_text, self.near_image = (
            nn.ModuleList(equal(nn.Linear(shape.dim, shape.dim, bias=False)) for _ in range(2)) for _ in range(HALVES)
        )
        self.choose = silent(nn.Linear(shape.dim, HALVES))
        self.scale = nn.Parameter(torch.tensor([[20.0, 40.0], [40.0, 40.0]]).log())  # a and b of each kind
        self.shift = nn.Parameter(torch.zeros(HALVES))

    def forward(self, document: Tensor, masks: Tensor, similarity: Tensor, *sides: Tensor) -> Tensor:
        """Return one logit for each pair.

        A document's fused tokens are ``(n, s, dim)``, the similarities ``(n, sides)``; ``sides`` are token states
        ``(n, t, dim)`` and their mask, one after another for each side of the query.
        """
        read = [unit_mean(words, mask) for words, mask in zip(sides[::2], sides[1::2], strict=True)]
        first, first_mask = torch.cat(read, dim=1), torch.cat(sides[1::2], dim=1)
        tokens, behind, there = first, self.norm(document), masks.any(dim=1)
        for layer in self.layers:
            tokens = layer(tokens, first_mask, behind, there)
        logit = similarity[:, 0] * 0
        if self.layers:
            logit = self.say((tokens * mean_weights(first_mask)).sum(dim=1))[:, 0]
        answer = answering(masks)
        for kind in range(HALVES):
            at = min(kind, len(read) - 1)
            words, mask = read[at], sides[2 * at + 1]
            near = self.late(kind, words, mask, document, answer[:, kind])
            a, b = self.scale[kind].exp()
            logit = logit + (a * similarity[:, at] + b * near + self.shift[kind]) * mask.any(dim=1)
        return logit

    def late(self, kind: int, query: Tensor, query_mask: Tensor, document: Tensor, mask: Tensor) -> Tensor:
        """Return the sum of a query's tokens' similarities to their nearest document token of a kind, ``(n,)``."""
        asking, holding = (self.near_text, self.near_image)[kind]
        asked, held = F.normalize(asking(query), dim=2), F.normalize(holding(document), dim=2)
        cosine = asked @ held.transpose(1, 2)  # (n, t, s)
        nearest = cosine.masked_fill(~mask[:, None], -1.0).amax(dim=2)  # (n, t)
        choice = self.choose(query)[:, :, kind].masked_fill(~query_mask, NEVER).softmax(dim=1)
        near: Tensor = (nearest * choice).sum(dim=1)
        return near


def alike(queries: Tensor, documents: Tensor, sides: int) -> Tensor:
    """Return the similarities of vectors, by row and side, ``(n, sides)``."""
    return (queries * documents).reshape(len(queries), sides, -1).sum(dim=2)
