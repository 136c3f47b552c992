"""The matcher: does this document answer this query? Two classes for each pair."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from isthmus.train.fusion.layers import Layer, Shape

KINDS = 3  # of tokens: text, image, query
SPREAD = 0.4  # of initial weights, over the root of the dimension: BERT's .02 at 384 numbers
RIGHT = 1  # the class of a matching pair; 0 is the other


class ClassMatcher(nn.Module):
    """A transformer over ``[CLS ; document ; query]``; a linear layer on [CLS] gives two classes.

        P(match) = softmax( W · transformer([CLS ; F_d ; F_q])[CLS] )

    It sees nothing else: no similarity of vectors, no late interaction. Reference: Section 4.3 and Appendix D,
    Equation 6. Not in the paper: tokens are marked by their kind, and normalised before the first layer.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        spread = SPREAD / shape.dim**0.5
        self.first = nn.Parameter(torch.randn(1, 1, shape.dim) * spread)  # [CLS]
        self.kind = nn.Parameter(torch.randn(KINDS, shape.dim) * spread)
        self.norm, self.drop = nn.LayerNorm(shape.dim), nn.Dropout(shape.drop)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.match))
        self.last, self.say = nn.LayerNorm(shape.dim), nn.Linear(shape.dim, 2)
        for module in self.modules():
            if isinstance(module, nn.Linear):  # as BERT: its layers have to learn from nothing
                nn.init.normal_(module.weight, std=spread)
                nn.init.zeros_(module.bias)

    def forward(self, document: Tensor, masks: Tensor, query: Tensor, query_mask: Tensor) -> Tensor:
        """Return ``(n, 2)`` logits of pairs.

        Documents' features are ``(n, s, d)`` with the masks of text and of image tokens ``(n, 2, s)``; queries' are
        ``(n, t, d)`` with ``(n, t)``.
        """
        kinds = masks.to(document.dtype).transpose(1, 2) @ self.kind[:2]  # (n, s, d)
        read = self.drop(self.norm(torch.cat([document + kinds, query + self.kind[2]], dim=1)))
        seen = torch.cat([self.first.expand(read.shape[0], -1, -1), read], dim=1)  # (n, 1 + s + t, d)
        there = torch.cat([query_mask[:, :1] | ~query_mask[:, :1], masks.any(dim=1), query_mask], dim=1)
        for layer in self.layers:
            seen = layer(seen, there)
        logits: Tensor = self.say(self.last(seen[:, 0]))
        return logits
