"""How much words about one part count for the other part of a document: the echo, chosen on held-out pairs.

In words: a query does not know whether a document's text describes its picture. If it does, as with captions, words
about the scene should be compared with text and picture; if not, with the picture alone. One weight must serve both
collections. So weights from 0 to 1 are tried on each group of the held-out pairs, every group as a collection of its
own, and compared with the towers' own behaviour, the mean of a document's two vectors. What loses nowhere is preferred;
among that, what gains most.

Formula, for the groups and kinds of queries g, with RR the reciprocal rank of the right document in the first ten:

    gain_g(e) = mean RR of the queries of g at e − mean RR of the towers' mean
    e         = argmax ( min(0, min_g gain_g(e)), mean_g gain_g(e) )                      in this order

The matcher's echo is chosen in the same way, on the first ten documents of the towers' mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

import numpy as np
import torch

from isthmus.documents import Document, Query
from isthmus.encoders.fusion import FusionEncoder
from isthmus.encoders.heads import Fused, QueryHead, states
from isthmus.encoders.matching import Matcher
from isthmus.encoders.once import VectorInput
from isthmus.encoders.texts import TextPassage
from isthmus.queries.kinds import KINDS
from isthmus.train.fusion.data import TrainingPair
from isthmus.train.fusion.lessons import cared, numbered
from isthmus.train.fusion.objectives import right
from isthmus.types import Mask, Matrix, Rows

GRID = (0.0, 0.25, 0.5, 0.75, 1.0)
READ = 10  # documents that the matcher reads
MATCHED = 120  # queries of each group and kind that the matcher reads
BATCH = 32
BOTH = 2  # the words are on both sides: they do not echo


class Echo(NamedTuple):
    """The weights for words about the text and about the image, in the vectors and in the matcher."""

    vectors: tuple[float, float]
    matcher: tuple[float, float]


@dataclass(frozen=True, slots=True, eq=False)
class EchoTrial:
    """Reciprocal ranks of queries of one group and kind: with each weight, and by the towers' mean."""

    side: Rows  # (n,): what the words are about, 0 text, 1 image, or BOTH
    found: Matrix  # (n, weights)
    towers: Matrix  # (n,)

    def gain(self, text: int, image: int) -> float:
        """Return the gain over the towers' mean with these weights, by their number in the grid."""
        column = np.select([self.side == 0, self.side == 1], [text, image], 0)
        return float((self.found[np.arange(len(self.side)), column] - self.towers).mean())


def best(trials: Sequence[EchoTrial]) -> tuple[float, float]:
    """Return the weights that lose nowhere, or least, and then gain most.

    >>> about_text = EchoTrial(np.array([0]), np.array([[0.1, 0.9, 0.8, 0.7, 0.6]]), np.array([0.6]))
    >>> about_image = EchoTrial(np.array([1]), np.array([[0.9, 0.8, 0.7, 0.6, 0.5]]), np.array([0.5]))
    >>> best([about_text, about_image])
    (0.25, 0.0)
    """

    def key(weights: tuple[int, int]) -> tuple[float, float]:
        gains = [trial.gain(*weights) for trial in trials]
        return min(0.0, *gains), sum(gains) / len(gains)

    text, image = max(product(range(len(GRID)), range(len(GRID))), key=key)
    return GRID[text], GRID[image]


def chosen(encoder: FusionEncoder, held: Sequence[TrainingPair]) -> Echo:
    """Choose the echo of an exported encoder on held-out pairs; (0, 0) if its queries have one side."""
    if encoder.query.count == 1:
        return Echo((0.0, 0.0), (0.0, 0.0))
    groups = [Group.of(encoder, [p for p in held if p.group == name]) for name in sorted({p.group for p in held})]
    vectors = [trial for group in groups for trial in group.by_vectors()]
    matched = [trial for group in groups for trial in group.by_matcher(encoder.matcher())]
    return Echo(best(vectors), best(matched))


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Documents of a group, encoded, and the queries about them."""

    query: QueryHead
    pairs: Sequence[TrainingPair]
    documents: Sequence[Fused]  # one each

    @classmethod
    def of(cls, encoder: FusionEncoder, pairs: Sequence[TrainingPair]) -> Group:
        """Encode the first passage of each document with its picture."""
        matcher = encoder.matcher()
        first: dict[int, VectorInput] = {}
        for row, item in matcher.inputs([Document(str(row), p.text, p.image) for row, p in enumerate(pairs)]):
            first.setdefault(row, item)
        fused: list[Fused] = []
        for start in range(0, len(first), BATCH):
            several = encoder.document.fuse([first[row] for row in range(start, min(start + BATCH, len(first)))])
            fused += [
                Fused(several.vectors[row : row + 1], several.tokens[row : row + 1], several.masks[row : row + 1])
                for row in range(len(several.vectors))
            ]
        return cls(encoder.query, pairs, fused)

    def by_vectors(self) -> Iterator[EchoTrial]:
        """Yield what the vectors find, for each kind of query."""
        text, image = np.split(np.concatenate([one.vectors for one in self.documents]), 2, axis=1)
        for kind in KINDS:
            passages, truth = self._passages(kind), self._truth(kind)
            side = self._side(passages)
            halves = np.split(self._echoing(passages), 2, axis=1)
            scores = [np.where(side == 1, e, 1.0)[:, None] * (halves[0] @ text.T) for e in GRID]
            scores = [
                one + np.where(side == 0, e, 1.0)[:, None] * (halves[1] @ image.T)
                for one, e in zip(scores, GRID, strict=True)
            ]
            found = np.stack([reciprocal(one, truth) for one in scores], axis=1)
            yield EchoTrial(side, found, reciprocal(self._towers(passages), truth))

    def by_matcher(self, matcher: Matcher) -> Iterator[EchoTrial]:
        """Yield what the matcher makes of the first documents of the towers' mean, for each kind of query."""
        both = replace(matcher, queries=replace(self.query, match_echo=(1.0, 1.0)))
        for kind in KINDS:
            passages, truth = self._passages(kind)[:MATCHED], self._truth(kind)[:MATCHED]
            side, towers = self._side(passages), self._towers(passages)
            first = np.argsort(-towers, axis=1, kind="stable")[:, :READ]
            found = np.zeros((len(passages), len(GRID)))
            for row, documents in enumerate(first):
                inputs = both.query_inputs(Query(self.pairs[row].queries[kind]))
                read = padded([self.documents[at] for at in documents])
                logits = [both.logits([one], read) for one in inputs]
                for at, e in enumerate(GRID):
                    own = int(side[row])
                    summed = sum(logits) if own == BOTH or len(logits) < BOTH else logits[own] + e * logits[1 - own]
                    found[row, at] = reciprocal(np.asarray(summed)[None], truth[row, documents][None])[0]
            yield EchoTrial(
                side, found, reciprocal(np.take_along_axis(towers, first, 1), np.take_along_axis(truth, first, 1))
            )

    def _passages(self, kind: str) -> list[TextPassage]:
        return [found[0] for found in self.query.towers.split([pair.queries[kind] for pair in self.pairs], "query")]

    def _truth(self, kind: str) -> Mask:
        ids = torch.tensor(numbered(self.pairs))
        found: Mask = right(cared(ids, kind), ids).numpy()
        return found

    def _side(self, passages: Sequence[TextPassage]) -> Rows:
        there = [sides.any(axis=0) for several in _batches(passages) for sides in self.query.token_sides(several)]
        return np.array([BOTH if one.all() else int(one.argmax()) for one in there])

    def _echoing(self, passages: Sequence[TextPassage]) -> Matrix:
        head = replace(self.query, echo=(1.0, 1.0))
        return np.concatenate([head.encode([VectorInput(p) for p in several]) for several in _batches(passages)])

    def _towers(self, passages: Sequence[TextPassage]) -> Matrix:
        """Return the scores of the towers: the whole query with the mean of a document's two vectors."""
        documents = sum(np.split(np.concatenate([one.vectors for one in self.documents]), 2, axis=1))
        documents = documents / np.linalg.norm(documents, axis=1, keepdims=True)
        queries = []
        for several in _batches(passages):
            read = states(self.query.towers, several)
            queries.append((read.states * read.mask[:, :, None]).sum(axis=1) / read.mask.sum(axis=1, keepdims=True))
        found: Matrix = np.concatenate(queries) @ documents.T
        return found


def padded(documents: Sequence[Fused]) -> Fused:
    """Return single documents as a batch."""
    longest = max(one.tokens.shape[1] for one in documents)
    tokens = [np.pad(one.tokens, ((0, 0), (0, longest - one.tokens.shape[1]), (0, 0))) for one in documents]
    masks = [np.pad(one.masks, ((0, 0), (0, 0), (0, longest - one.masks.shape[2]))) for one in documents]
    return Fused(np.concatenate([one.vectors for one in documents]), np.concatenate(tokens), np.concatenate(masks))


def reciprocal(scores: Matrix, truth: Mask) -> Matrix:
    """Return 1 / rank of the best right document of each query, 0 below the tenth.

    >>> reciprocal(np.array([[0.1, 0.9, 0.5]]), np.array([[False, False, True]]))
    array([0.5])
    """
    best_right = np.where(truth, scores, -np.inf).max(axis=1)
    rank = 1 + (np.where(truth, -np.inf, scores) > best_right[:, None]).sum(axis=1)
    return np.where(truth.any(axis=1) & (rank <= READ), 1 / rank, 0.0)


def _batches(passages: Sequence[TextPassage]) -> Iterator[Sequence[TextPassage]]:
    return (passages[start : start + BATCH] for start in range(0, len(passages), BATCH))
