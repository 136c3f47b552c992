"""Validation: R@1 of held-out documents by kind of query, by vectors and by the matcher."""

from __future__ import annotations

import torch
from torch import Tensor

from isthmus.queries.kinds import KINDS
from isthmus.train.augment import resized
from isthmus.train.fusion.measure import coarse
from isthmus.train.fusion.model import FusedDocuments
from isthmus.train.fusion.objectives import right
from isthmus.train.mr_right.matcher import RIGHT
from isthmus.train.mr_right.model import MrRight, ReadTexts
from isthmus.train.mr_right.tensors import PairTensors

RERANKED = 10  # documents that the matcher reads, as the authors' validation does


@torch.no_grad()
def held_out(model: MrRight, pairs: PairTensors, *, match: bool = False, chunk: int = 32) -> dict[str, float]:
    """Return R@1 by kind; with ``match`` also after the matcher has reordered the first documents."""
    model.eval()
    truth, numbers = right(pairs.ids, pairs.ids), {}
    with coarse(pairs.ids.device):
        documents = _documents(model, pairs, chunk)
        for kind, asked in zip(KINDS, pairs.queries, strict=True):
            found, again = [], []
            for rows in torch.split(torch.arange(len(pairs.ids), device=pairs.ids.device), chunk):
                words = model.read(*asked.take(rows))
                similarity = model.queries(words).float() @ documents.vectors.float().T
                first = similarity.topk(min(RERANKED, similarity.shape[1]), dim=1).indices  # (n, k)
                found.append(truth[rows, first[:, 0]])
                if match:
                    again.append(truth[rows, best_match(model, documents, words, first)])
            numbers[kind] = float(torch.cat(found).float().mean())
            if match:
                numbers[f"{kind}, matched"] = float(torch.cat(again).float().mean())
    return numbers


def best_match(model: MrRight, documents: FusedDocuments, words: ReadTexts, first: Tensor) -> Tensor:
    """Return the document that the matcher ranks first among the first ones, for each query."""
    logits = [model.match(FusedDocuments(*(part[at] for part in documents)), words) for at in first.T]
    odds = torch.stack([each[:, RIGHT] - each[:, 1 - RIGHT] for each in logits], dim=1)
    return first.gather(1, odds.float().argmax(dim=1, keepdim=True))[:, 0]


def _documents(model: MrRight, pairs: PairTensors, chunk: int) -> FusedDocuments:
    parts = []
    for rows in torch.split(torch.arange(len(pairs.ids), device=pairs.ids.device), chunk):
        pixels = resized(pairs.pixels[pairs.image_rows[rows]], pairs.pixels.shape[-1])
        parts.append(model.documents(model.read(*pairs.text.take(rows)), model.look(pixels)))
    return FusedDocuments(*(torch.cat(several) for several in zip(*parts, strict=True)))
