"""The model of Mr. Right over two towers: a document of text and image becomes one vector, a query another.

    document    [text tokens ; image patches] → merge attention → the mean of each kind → projection → unit
    query       the words that ask for the text, those that ask for the image → (a layer) → means → projection → unit
    matcher     query tokens look at themselves and at the document's fused tokens, and find their nearest → a logit

A text token is the text tower's last state, in units of the length of their mean. An image patch is the image's own
vector, plus what a linear map makes of how one cell of the image tower's last feature map differs from the mean cell:
the mean of an image's patches is its vector. Every layer adds to what it is given and begins by adding nothing, so that
training starts from the towers' own vectors.

``pool="kinds"`` (ours) keeps the mean of text tokens and the mean of patches apart, ``[t ; v]``. A query's words are
parted as well (``Chooser``) and each side is read by the tower alone: ``[q_t ; q_v]``; a side without words is 0, and
then the documents' other half decides nothing. A document of one kind has it in both halves, ``[t ; t]``: it answers
whatever is asked. ``pool="mean"`` is the paper's: one mean over all tokens, one query.
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
    """Documents after merge attention: their vectors, and the tokens."""

    vectors: Tensor  # (n, out), unit
    tokens: Tensor  # (n, t + p, dim)
    masks: Tensor  # (n, 2, t + p): which are text that is there, which are image


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
        self.patch = _silent(nn.Linear(shape.patch, shape.dim, bias=False))
        self.kind = nn.Parameter(torch.zeros(KINDS, shape.dim))  # says to the layers what is text and what is image
        self.merge = nn.ModuleList(Layer(shape) for _ in range(shape.merge))
        self.out = _equal(nn.Linear(shape.out, shape.out, bias=False))
        self.noise = nn.Dropout(shape.drop)

    def forward(self, seen: Seen) -> Fused:
        """Merge and pool; a document without text or without image has a mask without a true value there."""
        text = _unit_mean(seen.text, seen.text_mask)
        apart = seen.patches - (seen.patches * _mean_weights(seen.patch_mask)).sum(dim=1, keepdim=True)
        image = seen.image[:, None] + self.patch(self.noise(apart))  # (n, p, dim)
        tokens = torch.cat([text, image], dim=1)
        mask = torch.cat([seen.text_mask, seen.patch_mask], dim=1)
        marks = torch.cat([self.kind[:1].expand(text.shape[1], -1), self.kind[1:].expand(image.shape[1], -1)])
        for layer in self.merge:
            tokens = layer(tokens + marks, mask) - marks  # the marks are for looking, not for the mean
        masks = torch.stack(
            [F.pad(seen.text_mask, (0, image.shape[1])), F.pad(seen.patch_mask, (text.shape[1], 0))], dim=1
        )
        return Fused(F.normalize(self._vector(tokens, masks), dim=1, eps=1e-6), tokens, masks)

    def shares(self, fused: Fused) -> Tensor:
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
        there = (_answering(masks) if self.shape.pool == "kinds" else masks.any(dim=1, keepdim=True)).to(torch.float32)
        return there / there.sum(dim=2, keepdim=True).clamp_min(1.0)


class QueryEncoder(nn.Module):
    """Words become one vector in the documents' space; the text tower is the documents' own.

    It takes as many sides as documents have halves: those words that ask for the text and those that ask for the image,
    or (``pool="mean"``) all words once.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.layer = Layer(shape) if shape.merge else None
        self.sides = shape.out // shape.dim
        self.balance = nn.Parameter(torch.zeros(self.sides))  # logarithms: how much each side counts
        self.out = nn.ModuleList(_equal(nn.Linear(shape.dim, shape.dim, bias=False)) for _ in range(self.sides))

    def forward(self, *sides: Tensor) -> Asked:
        """Encode token states ``(n, t, dim)`` and their mask ``(n, t)``, one after another for each side."""
        shares = []
        for at, out in enumerate(self.out):
            words, mask = sides[2 * at], sides[2 * at + 1]
            tokens = _unit_mean(words, mask)
            if self.layer is not None:
                tokens = self.layer(tokens, mask | ~mask.any(dim=1, keepdim=True))
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

    logit = head + Σ over kinds asked for (a · similarity + b · Σ_words w · max_tokens cos + c)

    The similarity is what this kind's half adds to that of the two vectors. The sum of nearest tokens is late
    interaction (Khattab & Zaharia, ColBERT, 2020); its weights w are read off the query. Words that ask for the text
    look for text tokens, those that ask for the image for patches; a query of one side (``pool="mean"``) looks for both
    with all its words. The head, which reads both sequences, is there with layers, and begins at 0.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(shape.dim)
        self.layers = nn.ModuleList(Layer(shape, cross=True) for _ in range(shape.match))
        self.say = nn.Sequential(nn.LayerNorm(shape.dim), _silent(nn.Linear(shape.dim, 1)))
        self.near_text, self.near_image = (
            nn.ModuleList(_equal(nn.Linear(shape.dim, shape.dim, bias=False)) for _ in range(2)) for _ in range(KINDS)
        )
        self.choose = _silent(nn.Linear(shape.dim, KINDS))
        self.scale = nn.Parameter(torch.tensor([[20.0, 40.0], [40.0, 40.0]]).log())  # a and b of each kind
        self.shift = nn.Parameter(torch.zeros(KINDS))

    def forward(self, document: Tensor, masks: Tensor, similarity: Tensor, *sides: Tensor) -> Tensor:
        """Return one logit for each pair.

        A document's fused tokens are ``(n, s, dim)``, the similarities ``(n, sides)``; ``sides`` are token states
        ``(n, t, dim)`` and their mask, one after another for each side of the query.
        """
        read = [_unit_mean(words, mask) for words, mask in zip(sides[::2], sides[1::2], strict=True)]
        first, first_mask = torch.cat(read, dim=1), torch.cat(sides[1::2], dim=1)
        tokens, behind, there = first, self.norm(document), masks.any(dim=1)
        for layer in self.layers:
            tokens = layer(tokens, first_mask, behind, there)
        logit = similarity[:, 0] * 0
        if self.layers:
            logit = self.say((tokens * _mean_weights(first_mask)).sum(dim=1))[:, 0]
        answering = _answering(masks)
        for kind in range(KINDS):
            at = min(kind, len(read) - 1)
            words, mask = read[at], sides[2 * at + 1]
            near = self.late(kind, words, mask, document, answering[:, kind])
            alike, nearest = self.scale[kind].exp()
            logit = logit + (alike * similarity[:, at] + nearest * near + self.shift[kind]) * mask.any(dim=1)
        return logit

    def late(self, kind: int, query: Tensor, query_mask: Tensor, document: Tensor, mask: Tensor) -> Tensor:
        """Return how near a query's tokens come to their nearest among a document's tokens of a kind, ``(n,)``."""
        asking, holding = (self.near_text, self.near_image)[kind]
        asked, held = F.normalize(asking(query), dim=2), F.normalize(holding(document), dim=2)
        cosine = asked @ held.transpose(1, 2)  # (n, t, s)
        nearest = cosine.masked_fill(~mask[:, None], -1.0).amax(dim=2)  # (n, t)
        choice = self.choose(query)[:, :, kind].masked_fill(~query_mask, NEVER).softmax(dim=1)
        near: Tensor = (nearest * choice).sum(dim=1)
        return near


def alike(queries: Tensor, documents: Tensor, sides: int) -> Tensor:
    """Return the similarities of vectors, row by row, side by side, ``(n, sides)``."""
    return (queries * documents).reshape(len(queries), sides, -1).sum(dim=2)


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


def _answering(masks: Tensor) -> Tensor:
    """Return which tokens answer what is asked of each kind, ``(n, 2, s)``: of a document of one kind, all of them."""
    missing = ~masks.any(dim=2, keepdim=True)
    return masks | (missing & torch.cat([masks[:, 1:], masks[:, :1]], dim=1))


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
    for parameter in linear.parameters():
        nn.init.zeros_(parameter)
    return linear


def _equal(linear: nn.Linear) -> nn.Linear:
    nn.init.eye_(linear.weight)
    return linear
