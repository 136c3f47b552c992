"""Where the matcher looks: Grad-CAM on its attention, for one query and one document.

    map(word → token) = mean over heads of relu( A ⊙ ∂ logit / ∂ A )

A is the attention of a layer, from the tokens of the query to those of the document; the logit is that of a match. What
raises it, if attended to more, is bright.

Reference: Hsieh et al., Mr. Right (2022), Appendix C.3 and Figure 7, as ALBEF draws its own; Selvaraju et al., Grad-CAM
(2017). The paper does not name the layer; the default is the last but one, because of the last layer only [CLS] counts.
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from isthmus.train.fusion.layers import Attention, Shape, unit_mean
from isthmus.train.fusion.model import FusedDocuments
from isthmus.train.mr_right.matcher import RIGHT, ClassMatcher
from isthmus.train.mr_right.model import ReadTexts


class MatchMap(NamedTuple):
    """How much each word of a query, and [CLS], uses each token of the document."""

    first: Tensor  # (t + p,): of [CLS]
    words: Tensor  # (q, t + p)
    logit: float  # of a match


class RecordedAttention(Attention):
    """Attention that keeps its weights."""

    weights: Tensor  # (n, heads, a, b)

    def forward(self, asking: Tensor, looked_at: Tensor, mask: Tensor) -> Tensor:
        """Return what ``Attention`` returns, without dropout."""
        query = self.ask(asking).unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (n, heads, a, d / heads)
        key, value = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.hold(looked_at).chunk(2, dim=-1)
        )
        scores = query @ key.transpose(2, 3) / query.shape[-1] ** 0.5
        self.weights = scores.masked_fill(~mask[:, None, None], -torch.inf).softmax(dim=3)
        found: Tensor = self.join((self.weights @ value).transpose(1, 2).flatten(2))
        return found


def match_map(matcher: ClassMatcher, documents: FusedDocuments, words: ReadTexts, layer: int = -2) -> MatchMap:
    """Return the map of one pair; ``documents`` and ``words`` have one row each."""
    own = copy.deepcopy(matcher).eval()
    recorded: Any = own.layers[layer if len(own.layers) > 1 else -1]
    attention = RecordedAttention(Shape(dim=recorded.own.ask.in_features, heads=recorded.own.heads))
    attention.load_state_dict(recorded.own.state_dict())
    recorded.own = attention
    read = unit_mean(words.states.detach(), words.mask)
    classes = own(documents.tokens.detach(), documents.masks, read, words.mask)
    logit = (classes[:, RIGHT] - classes[:, 1 - RIGHT]).sum()
    (slope,) = torch.autograd.grad(logit, attention.weights)
    raised = F.relu(attention.weights.detach() * slope).mean(dim=1)[0]  # (1 + s + q, 1 + s + q)
    length = documents.tokens.shape[1]
    seen = raised[:, 1 : 1 + length]
    return MatchMap(seen[0], seen[1 + length :], float(logit.detach()))
