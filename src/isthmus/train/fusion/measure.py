"""Validation: R@1 on held-out documents, by kind of query."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor
from torch.nn import functional as F

from isthmus.queries.kinds import KINDS
from isthmus.train.fusion.lessons import FusionLesson, cared
from isthmus.train.fusion.matcher import alike
from isthmus.train.fusion.model import FusedDocuments, Fusion
from isthmus.train.fusion.objectives import right

RERANKED = 20  # documents that the matcher reads


@torch.no_grad()
def measured(model: Fusion, held: FusionLesson, *, rerank: bool = True, chunk: int = 64) -> dict[str, float]:
    """Return R@1 of the held-out queries by kind, and after the matcher has reordered the first documents."""
    model.eval()
    numbers: dict[str, float] = {}
    everything = torch.arange(len(held.ids), device=held.ids.device)
    with coarse(held.ids.device):
        documents = _fused(model, held, torch.split(everything, chunk))
        for kind in KINDS:
            truth = right(cared(held.ids, kind), held.ids)
            found, again = [], []
            for rows in torch.split(everything, chunk):
                query_sides = held.query_sides(rows, kind, model.query.sides)
                queries = model.query(*query_sides).vectors.float()
                similarity = queries @ documents.vectors.T
                first = similarity.topk(min(RERANKED, similarity.shape[1]), dim=1).indices  # (n, k)
                found.append(truth[rows, first[:, 0]])
                if rerank:
                    chosen = _matched(model, query_sides, queries, documents, first)
                    again.append(truth[rows, chosen])
            numbers[kind] = float(torch.cat(found).float().mean())
            if rerank:
                numbers[f"{kind}, matched"] = float(torch.cat(again).float().mean())
    return numbers


@torch.no_grad()
def word_accuracy(model: Fusion, held: FusionLesson, kind: str, *, chunk: int = 256) -> float:
    """Return the share of tokens that the chooser assigns to the right side."""
    hits, known = 0.0, 0.0
    for rows in torch.split(torch.arange(len(held.ids), device=held.ids.device), chunk):
        label, there = held.chosen(rows, kind)
        said = model.chooser(*held.queries[kind].take(rows)).argmax(dim=2)
        hits += float(((said == label.argmax(dim=2)) & there).sum())
        known += float(there.sum())
    return hits / max(known, 1.0)


def coarse(device: torch.device) -> AbstractContextManager[object]:
    """Compute in bfloat16 where possible, on a GPU."""
    return torch.autocast("cuda", torch.bfloat16) if device.type == "cuda" else nullcontext()


def _matched(
    model: Fusion, query_sides: Sequence[Tensor], queries: Tensor, documents: FusedDocuments, first: Tensor
) -> Tensor:
    """Return the document that the matcher ranks first among the first ones, for each query."""
    logits = [
        model.matcher(
            documents.tokens[at],
            documents.masks[at],
            alike(queries, documents.vectors[at], model.query.sides),
            *query_sides,
        )
        for at in first.T
    ]
    chosen = torch.stack(logits, dim=1).float().argmax(dim=1, keepdim=True)
    return first.gather(1, chosen)[:, 0]


def _fused(model: Fusion, held: FusionLesson, chunks: Sequence[Tensor]) -> FusedDocuments:
    """Return the documents of all chunks, padded to the longest."""
    parts = [model.document(held.documents(rows, rows)) for rows in chunks]
    longest = max(part.masks.shape[2] for part in parts)
    tokens = [F.pad(part.tokens, (0, 0, 0, longest - part.masks.shape[2])) for part in parts]
    masks = [F.pad(part.masks, (0, longest - part.masks.shape[2])) for part in parts]
    vectors = torch.cat([part.vectors.float() for part in parts])
    return FusedDocuments(vectors, torch.cat(tokens), torch.cat(masks))
