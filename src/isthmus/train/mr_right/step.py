"""One step of Mr. Right: the contrast and the matching of a batch.

    L = L_dqc + L_dqm                                                                              (Equation 8)

Contrast (DQC, Equations 4 and 5): both directions, over the batch and two queues of recent vectors. Matching (DQM,
Equations 6 and 7): for every pair of query q and document d = (text t, image v)

    q, (t, v)      right
    q, (t′, v′)    wrong: a document drawn for the query
    q, (t′, v)     wrong: a pseudo-negative, the right image with the text of the drawn document
    q, (t, v′)     wrong: a pseudo-negative, the other way round
    q′, (t, v)     wrong: a query drawn for the document

Both draws are from the softmax of the contrast over the batch (Section 4.3, as ALBEF). A pseudo-negative is called
wrong even if the query is about the part that it kept, as the paper has it.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from isthmus.queries.kinds import KINDS
from isthmus.train.fusion.model import FusedDocuments
from isthmus.train.fusion.objectives import contrast, drawn, right
from isthmus.train.fusion.steps import Queues
from isthmus.train.mr_right.matcher import RIGHT
from isthmus.train.mr_right.model import MrRight, ReadTexts
from isthmus.train.mr_right.randaugment import rand_augmented
from isthmus.train.mr_right.recipe import MrRightRecipe
from isthmus.train.mr_right.tensors import PairBatch, PairTensors

WRONG = 4  # pairs for each right one


class StepLoss(NamedTuple):
    """The two losses of a batch."""

    contrast: Tensor
    matching: Tensor


class Encoded(NamedTuple):
    """A batch, read by both towers and merged."""

    text: ReadTexts
    patches: Tensor  # (n, p, d)
    documents: FusedDocuments
    words: ReadTexts  # of the queries
    queries: Tensor  # (n, d), unit


def draw(pairs: PairTensors, rows: Tensor, rng: torch.Generator) -> PairBatch:
    """Return pairs, each with a random kind of query."""
    return pairs.batch(rows, torch.randint(len(KINDS), (len(rows),), generator=rng, device=rng.device))


def encode(model: MrRight, batch: PairBatch, recipe: MrRightRecipe, rng: torch.Generator) -> Encoded:
    """Read a batch; its pictures are cropped and changed at random."""
    seen = rand_augmented(batch.pixels, recipe.size, recipe.smallest, (recipe.operations, recipe.strength), rng)
    text, words, patches = model.read(*batch.text), model.read(*batch.query), model.look(seen)
    return Encoded(text, patches, model.documents(text, patches), words, model.queries(words).float())


def losses(model: MrRight, batch: PairBatch, queues: Queues, recipe: MrRightRecipe, rng: torch.Generator) -> StepLoss:
    """Return the losses of a batch, and append its vectors to the queues."""
    model.train()
    found = encode(model, batch, recipe, rng)
    documents = found.documents.vectors.float()
    past = tuple((queue.vectors, queue.ids) for queue in queues)
    with torch.autocast(documents.device.type, enabled=False):  # similarities over a small temperature need float32
        dqc = contrast(found.queries, documents, (batch.ids, batch.ids), (past[0], past[1]), model.temperature)
        negatives = hard_negatives(found.queries @ documents.T, batch.ids, model.temperature.detach(), rng)
    count = recipe.matched or len(batch.ids)
    dqm = matching(model, found, negatives[0][:count], negatives[1][:count])
    for queue, vectors in zip(queues, (found.queries, documents), strict=True):
        queue.put(vectors, batch.ids)
    return StepLoss(dqc, dqm)


def hard_negatives(
    similarity: Tensor, ids: Tensor, temperature: Tensor | float, rng: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Draw a wrong document for each query and a wrong query for each document, ``(n,)`` batch rows each."""
    truth = right(ids, ids)
    documents = drawn(similarity, truth, temperature, 1, rng)[:, 0]
    queries = drawn(similarity.T, truth.T, temperature, 1, rng)[:, 0]
    return documents, queries


def matching(model: MrRight, found: Encoded, documents: Tensor, queries: Tensor) -> Tensor:
    """Return the loss of the matcher on the right pairs and four wrong ones each.

    ``documents`` and ``queries`` are the batch rows of the negatives of the first pairs.
    """
    own = torch.arange(len(documents), device=documents.device)
    text = ReadTexts(*(torch.cat([part[documents], part[own]]) for part in found.text))
    pseudo = model.documents(text, torch.cat([found.patches[own], found.patches[documents]]))
    held = FusedDocuments(
        *(
            torch.cat([given[own], given[documents], made, given[own]])
            for given, made in zip(found.documents, pseudo, strict=True)
        )
    )
    asked = torch.cat([own.repeat(WRONG), queries])
    logits = model.match(held, ReadTexts(*(part[asked] for part in found.words))).float()  # (5 n, 2)
    labels = torch.zeros(len(logits), dtype=torch.long, device=logits.device)
    labels[: len(own)] = RIGHT
    return F.cross_entropy(logits, labels)
