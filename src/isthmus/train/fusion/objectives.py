"""The losses: find a query's document by vectors (contrast), and by reading both (matching).

    contrast    ½ ( H(y, softmax(q · [d ; D] / τ)) + H(y′, softmax(d · [q ; Q] / τ)) )        D, Q: the queues
    matching    binary cross-entropy of the matcher on the right document and three wrong ones
    ranking     cross-entropy of the right one among these four: a matcher ranks, and score levels differ by query

A query knows which text and image it describes; ``ids`` are (text, image), with ANY for a part that it does not
describe. A document is right if the described parts agree, so the same passage with another photo is right for a query
about the passage; targets are spread evenly over all right documents.

The wrong documents: one drawn from the batch by the contrast's own softmax; the right image with a wrong text, and a
wrong image with the right text. One that would still be right (the query is about its image alone, or the drawn one
shares the described part) is replaced by another drawn one; with ``paper`` it is called wrong.

Reference: Mr. Right (2022), DQC and DQM. Deviations: without ``paper``, the rule of the last sentence; the ranking
loss; wrong documents are drawn for queries, but no wrong queries for documents (``isthmus.train.mr_right`` does both).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

ANY = -1
NEGATIVES = 3


class WrongPairs(NamedTuple):
    """For each query, the batch rows whose text and whose image make each of its wrong documents; both ``(n, 3)``."""

    text: Tensor
    image: Tensor


def right(queries: Tensor, documents: Tensor) -> Tensor:
    """Return which documents are right for which queries, ``(n, m)``, by their (text, image) ids.

    >>> about_text, about_both = torch.tensor([[7, ANY], [7, 1]])
    >>> right(torch.stack([about_text, about_both]), torch.tensor([[7, 1], [7, 2], [8, 1]])).int().tolist()
    [[1, 1, 0], [1, 0, 0]]
    """
    wanted, given = queries[:, None], documents[None]
    return ((wanted == ANY) | (wanted == given)).all(dim=2)


def spread(logits: Tensor, truth: Tensor) -> Tensor:
    """Return the cross-entropy of each row with targets spread evenly over right columns; the mean over rows."""
    target = truth.to(logits.dtype)
    target = target / target.sum(dim=1, keepdim=True)
    return -(target * F.log_softmax(logits, dim=1)).sum(dim=1).mean()


def contrast(
    queries: Tensor,
    documents: Tensor,
    ids: tuple[Tensor, Tensor],
    queues: tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]],
    temperature: Tensor | float,
) -> Tensor:
    """Return the contrastive loss, both directions.

    ``queries`` and ``documents`` are unit ``(n, d)``, row i of one belonging to row i of the other; ``ids`` are those
    of the queries and of the documents; ``queues`` are past queries and past documents, each with ids.
    """
    query_ids, document_ids = ids
    (past_queries, past_query_ids), (past_documents, past_document_ids) = queues
    found = queries @ _with(documents, past_documents).T / temperature  # (n, n + k)
    reverse = documents @ _with(queries, past_queries).T / temperature
    forth = spread(found, right(query_ids, _with(document_ids, past_document_ids)))
    back = spread(reverse, right(_with(query_ids, past_query_ids), document_ids).T)
    return (forth + back) / 2


def drawn(similarity: Tensor, truth: Tensor, temperature: Tensor | float, count: int, rng: torch.Generator) -> Tensor:
    """Draw wrong documents for each query from softmax(similarity / τ), ``(n, count)``; never one that is right.

    If every document of the batch is right for a query, its neighbour in the batch is used.
    """
    logits = (similarity.detach().float() / temperature).masked_fill(truth, -torch.inf)
    chance = logits.softmax(dim=1)
    hopeless = truth.all(dim=1)
    if hopeless.any():
        n, m = truth.shape
        chance[hopeless] = F.one_hot((torch.arange(n, device=truth.device) + 1) % m, m)[hopeless].to(chance.dtype)
    return chance.multinomial(count, replacement=True, generator=rng)


def wrong(negatives: Tensor, ids: tuple[Tensor, Tensor], *, paper: bool = False) -> WrongPairs:
    """Return the three wrong documents of each query, made of batch rows.

    ``negatives`` are two drawn rows of each query; ``ids`` are those of the queries and of the batch's documents, of
    which the first are the queries' own.
    """
    queries, documents = ids
    own = torch.arange(len(negatives), device=negatives.device)
    first, second = negatives.T
    text = torch.stack([first, first, own], dim=1)  # drawn; right image with its text; right text with its image
    image = torch.stack([first, own, first], dim=1)
    if paper:
        return WrongPairs(text, image)
    made = torch.stack([documents[text, 0], documents[image, 1]], dim=2)  # (n, 3, 2)
    answers = ((queries[:, None] == ANY) | (queries[:, None] == made)).all(dim=2)
    return WrongPairs(torch.where(answers, second[:, None], text), torch.where(answers, second[:, None], image))


def matching(logits: Tensor) -> Tensor:
    """Return the binary cross-entropy; ``logits`` are ``(n, 1 + 3)``, the right document first."""
    return F.binary_cross_entropy_with_logits(logits, labels(len(logits)).to(logits.device))


def ranking(logits: Tensor) -> Tensor:
    """Return the cross-entropy of the right document, the first, among the four."""
    return F.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long, device=logits.device))


def labels(n: int) -> Tensor:
    """Return one right and three wrong ones for each of n queries."""
    return torch.tensor([1.0] + NEGATIVES * [0.0]).repeat(n, 1)


def _with(batch: Tensor, past: Tensor) -> Tensor:
    return torch.cat([batch, past.to(batch)]) if len(past) else batch
