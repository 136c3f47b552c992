"""The model of Mr. Right over two towers: a document of text and image becomes one vector, a query another.

    document    [text tokens ; image patches] → merge attention → the mean of each kind → projection → unit
    query       the words that ask for the text, those that ask for the image → one layer → means → projection → unit
    matcher     query tokens look at themselves and at the document's fused tokens, and find their nearest → a logit

A text token is the text tower's last state, in units of the length of their mean. An image patch is the image's own
vector, plus what a linear map makes of one cell of the image tower's last feature map. Every layer adds to what it is
given and begins by adding nothing, so that training starts from the towers' own vectors.

``pool="kinds"`` (ours) keeps the mean of text tokens and the mean of patches apart, ``[t ; v]``. A query's words are
parted as well (``Chooser``) and each side is read by the tower alone: ``[q_t ; q_v]``; a side without words is 0, and
then the documents' other half decides nothing. ``pool="mean"`` is the paper's: one mean over all tokens, one query.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Pool: TypeAlias = Literal["kinds", "mean"]
KINDS = 2  # text and image
NEVER = -1e9  # a score that no softmax sees, and that no arithmetic turns into NaN


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The sizes of a model."""

    dim: int = 384
    patch: int = 1280
    heads: int = 6
    merge: int = 2  # layers
    match: int = 2
    wide: int = 2  # the hidden layer of each feed-forward, in dims
    drop: float = 0.1
    pool: Pool = "kinds"

    @property
    def out(self) -> int:
        """The length of the vectors it gives."""
        return self.dim * (KINDS if self.pool == "kinds" else 1)


class Seen(NamedTuple):
    """What the towers see of documents: text tokens and patches with their masks, and the image's own vector."""

    text: Tensor  # (n, t, dim)
    text_mask: Tensor  # (n, t) booleans
    patches: Tensor  # (n, p, patch)
    patch_mask: Tensor  # (n, p) booleans
    image: Tensor  # (n, dim), unit


class Fused(NamedTuple):
    """Documents after merge attention: their vectors, the tokens, and each token's share of the vector."""

    vectors: Tensor  # (n, out), unit
    tokens: Tensor  # (n, t + p, dim)
    masks: Tensor  # (n, 2, t + p): which are text that is there, which are image
    shares: Tensor  # (n, t + p, out); over tokens they sum to the vector


class Asked(NamedTuple):
    """Queries: their vectors, and each token's share, side after side."""

    vectors: Tensor  # (n, out), unit
    shares: Tensor  # (n, t, out)


class Attention(nn.Module):
    """Tokens look at others; written out so that it exports at any length, and begins by adding nothing."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.ask, self.hold = nn.Linear(shape.dim, shape.dim), nn.Linear(shape.dim, 2 * shape.dim)
        self.join = _silent(nn.Linear(shape.dim, shape.dim))
        self.drop = nn.Dropout(shape.drop)

    def forward(self, asking: Tensor, looked_at: Tensor, mask: Tensor) -> Tensor:
        """Return what ``asking`` (n, a, d) finds in ``looked_at`` (n, b, d), where ``mask`` (n, b) is true."""
        asked = self.ask(asking).unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (n, heads, a, d / heads)
        held, said = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.hold(looked_at).chunk(2, dim=-1)
        )
        drop = self.drop.p if self.training else 0.0
        seen = F.scaled_dot_product_attention(asked, held, said, attn_mask=mask[:, None, None], dropout_p=drop)
        found: Tensor = self.drop(self.join(seen.transpose(1, 2).flatten(2)))
        return found


class Layer(nn.Module):
    """Self attention, attention to another sequence where there is one, feed-forward; each behind a norm."""

    def __init__(self, shape: Shape, *, cross: bool = False) -> None:
        super().__init__()
        self.own, self.own_norm = Attention(shape), nn.LayerNorm(shape.dim)
        self.other = Attention(shape) if cross else None
        self.other_norm = nn.LayerNorm(shape.dim) if cross else None
        self.think_norm = nn.LayerNorm(shape.dim)
        self.think = nn.Sequential(
            nn.Linear(shape.dim, shape.wide * shape.dim),
            nn.GELU(),
            nn.Dropout(shape.drop),
            _silent(nn.Linear(shape.wide * shape.dim, shape.dim)),
            nn.Dropout(shape.drop),
        )

    def forward(
        self, seen: Tensor, mask: Tensor, other: Tensor | None = None, other_mask: Tensor | None = None
    ) -> Tensor:
        """Return the tokens, having looked at their own sequence, and at the other."""
        behind = self.own_norm(seen)
        seen = seen + self.own(behind, behind, mask)
        if self.other is not None and self.other_norm is not None and other is not None and other_mask is not None:
            seen = seen + self.other(self.other_norm(seen), other, other_mask)
        thought: Tensor = self.think(self.think_norm(seen))
        return seen + thought


class DocumentEncoder(nn.Module):
    """Text tokens and image patches, merged, become one vector."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.patch = _silent(nn.Linear(shape.patch, shape.dim))
        self.kind = nn.Parameter(torch.zeros(KINDS, shape.dim))  # says to the layers what is text and what is image
        self.merge = nn.ModuleList(Layer(shape) for _ in range(shape.merge))
        self.out = _equal(nn.Linear(shape.out, shape.out, bias=False))
        self.noise = nn.Dropout(shape.drop)

    def forward(self, seen: Seen) -> Fused:
        """Merge and pool; a document without text or without image has a mask without a true value there."""
        text = _unit_mean(seen.text, seen.text_mask)
        image = seen.image[:, None] + self.patch(self.noise(seen.patches))  # (n, p, dim)
        tokens = torch.cat([text, image], dim=1)
        mask = torch.cat([seen.text_mask, seen.patch_mask], dim=1)
        marks = torch.cat([self.kind[:1].expand(text.shape[1], -1), self.kind[1:].expand(image.shape[1], -1)])
        for layer in self.merge:
            tokens = layer(tokens + marks, mask) - marks  # the marks are for looking, not for the mean
        shares = self._shares(tokens, seen.text_mask, seen.patch_mask)
        vector = shares.sum(dim=1)  # (n, out)
        length = vector.norm(dim=1, keepdim=True).clamp_min(1e-6)
        masks = torch.stack(
            [F.pad(seen.text_mask, (0, image.shape[1])), F.pad(seen.patch_mask, (text.shape[1], 0))], dim=1
        )
        return Fused(vector / length, tokens, masks, shares / length[:, None])

    def _shares(self, tokens: Tensor, text: Tensor, image: Tensor) -> Tensor:
        """Return what each token adds to the vector: its part of a mean, projected. ``(n, t + p, out)``."""
        if self.shape.pool == "mean":
            return self.out(tokens * _mean_weights(torch.cat([text, image], dim=1)))  # type: ignore[no-any-return]
        parts = torch.cat([_mean_weights(text), _mean_weights(image)], dim=1) * tokens
        split = text.shape[1]
        first, second = parts[:, :split], parts[:, split:]
        sided = torch.cat([F.pad(first, (0, self.shape.dim)), F.pad(second, (self.shape.dim, 0))], dim=1)
        return self.out(sided)  # type: ignore[no-any-return]


class QueryEncoder(nn.Module):
    """Words become one vector in the documents' space; the text tower is the documents' own.

    It takes as many sides as documents have halves: those words that ask for the text and those that ask for the image,
    or (``pool="mean"``) all words once.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.layer = Layer(shape)
        self.sides = shape.out // shape.dim
        self.balance = nn.Parameter(torch.zeros(self.sides))  # logarithms: how much each side counts
        self.out = nn.ModuleList(_equal(nn.Linear(shape.dim, shape.dim, bias=False)) for _ in range(self.sides))

    def forward(self, *sides: Tensor) -> Asked:
        """Encode token states ``(n, t, dim)`` and their mask ``(n, t)``, one after another for each side."""
        shares = []
        for at, out in enumerate(self.out):
            words, mask = sides[2 * at], sides[2 * at + 1]
            tokens = self.layer(_unit_mean(words, mask), mask | ~mask.any(dim=1, keepdim=True))
            share = out(tokens * _mean_weights(mask)) * self.balance[at].exp()
            before, after = at * share.shape[2], (self.sides - 1 - at) * share.shape[2]
            shares.append(F.pad(share, (before, after)))
        joined = torch.cat(shares, dim=1)  # (n, all tokens, out)
        vector = joined.sum(dim=1)
        length = vector.norm(dim=1, keepdim=True).clamp_min(1e-6)
        return Asked(vector / length, joined / length[:, None])


class Chooser(nn.Module):
    """Which words of a query ask for the text, and which for the image: a logit for each, by token and its neighbours.

    Words that ask for one thing stand together, and an article alone says nothing: two convolutions over tokens.
    """

    def __init__(self, shape: Shape, width: int = 64, reach: int = 5) -> None:
        super().__init__()
        self.near = nn.ModuleList(nn.Conv1d(inside, width, reach, padding=reach // 2) for inside in (shape.dim, width))
        self.drop = nn.Dropout(shape.drop)
        self.say = nn.Linear(width, KINDS)

    def forward(self, words: Tensor, mask: Tensor) -> Tensor:
        """Return ``(n, t, 2)`` logits for the token states of whole queries."""
        there = mask[:, None].to(words.dtype)
        seen = _unit_mean(words, mask).transpose(1, 2) * there  # (n, dim, t)
        for near in self.near:
            seen = self.drop(F.gelu(near(seen))) * there
        logits: Tensor = self.say(seen.transpose(1, 2))
        return logits


class Matcher(nn.Module):
    """Does this document answer this query? A transformer over both feature sequences, beside two simpler witnesses.

    logit = a · similarity + Σ over kinds of g · b · Σ over query tokens of w · max over the kind's tokens of cos
            + c + head

    The similarity is that of the two vectors. The sum of nearest tokens is late interaction (Khattab & Zaharia,
    ColBERT, 2020); its weights w and the share g of each kind are read off the query. The head, which reads both
    sequences, begins at 0.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(shape.dim)
        self.layers = nn.ModuleList(Layer(shape, cross=True) for _ in range(shape.match))
        self.say = nn.Sequential(nn.LayerNorm(shape.dim), _silent(nn.Linear(shape.dim, 1)))
        self.near = nn.ModuleList(_equal(nn.Linear(shape.dim, shape.dim, bias=False)) for _ in range(2))
        self.choose = _silent(nn.Linear(shape.dim, KINDS))
        self.weigh = _silent(nn.Linear(shape.dim, KINDS))
        self.scale = nn.Parameter(torch.tensor([20.0, 20.0, 20.0]))  # of the similarity, of nearest words, of patches
        self.shift = nn.Parameter(torch.tensor(-20.0))

    def forward(self, query: Tensor, query_mask: Tensor, document: Tensor, masks: Tensor, similarity: Tensor) -> Tensor:
        """Return one logit for each pair: query token states (n, t, dim), a document's fused tokens (n, s, dim)."""
        first = _unit_mean(query, query_mask)
        tokens, behind, there = first, self.norm(document), masks.any(dim=1)
        for layer in self.layers:
            tokens = layer(tokens, query_mask, behind, there)
        mean = _mean_weights(query_mask)
        logit: Tensor = self.say((tokens * mean).sum(dim=1))[:, 0]
        share = torch.sigmoid(self.weigh((first * mean).sum(dim=1)))  # (n, 2)
        late = (share * self.late(first, query_mask, document, masks) * self.scale[1:]).sum(dim=1)
        total: Tensor = self.scale[0] * similarity + late + self.shift + logit
        return total

    def late(self, query: Tensor, query_mask: Tensor, document: Tensor, masks: Tensor) -> Tensor:
        """Return, for each kind, how near the query's tokens come to their nearest among the document's, ``(n, 2)``."""
        asked, held = F.normalize(self.near[0](query), dim=2), F.normalize(self.near[1](document), dim=2)
        cosine = asked @ held.transpose(1, 2)  # (n, t, s)
        nearest = cosine[:, None].masked_fill(~masks[:, :, None], -1.0).amax(dim=3)  # (n, 2, t)
        choice = self.choose(query).masked_fill(~query_mask[:, :, None], NEVER).softmax(dim=1)  # (n, t, 2)
        near: Tensor = (nearest * choice.transpose(1, 2)).sum(dim=2)
        return near


class Fusion(nn.Module):
    """All of it, and the temperature of the contrast."""

    def __init__(self, shape: Shape, temperature: float = 0.05) -> None:
        super().__init__()
        self.shape = shape
        self.document, self.query = DocumentEncoder(shape), QueryEncoder(shape)
        self.chooser, self.matcher = Chooser(shape), Matcher(shape)
        self.log_temperature = nn.Parameter(torch.tensor(temperature).log())

    @property
    def temperature(self) -> Tensor:
        """What similarities are divided by."""
        return self.log_temperature.exp().clamp(0.005, 0.5)


def _mean_weights(mask: Tensor) -> Tensor:
    """Return the weight of each token in the mean of those that are there, ``(n, t, 1)``; all 0 where none is."""
    there = mask.to(torch.float32)
    return (there / there.sum(dim=1, keepdim=True).clamp_min(1.0))[:, :, None]


def _unit_mean(tokens: Tensor, mask: Tensor) -> Tensor:
    """Return the tokens, scaled so that their mean has length 1."""
    mean = (tokens * _mean_weights(mask)).sum(dim=1, keepdim=True)  # (n, 1, d)
    length = mean.norm(dim=2, keepdim=True)
    return tokens / torch.where(length > 0, length, 1.0)  # a text without tokens stays as it is


def _silent(linear: nn.Linear) -> nn.Linear:
    nn.init.zeros_(linear.weight)
    nn.init.zeros_(linear.bias)
    return linear


def _equal(linear: nn.Linear) -> nn.Linear:
    nn.init.eye_(linear.weight)
    return linear
