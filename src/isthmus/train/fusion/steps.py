"""What one step of training does: draw documents and queries, compute the losses, update the queues."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from isthmus.queries.kinds import IMAGE, KINDS, TEXT
from isthmus.train.fusion.lessons import FusionBatch, FusionLesson
from isthmus.train.fusion.matcher import alike
from isthmus.train.fusion.model import FusedDocuments, Fusion, TowerFeatures
from isthmus.train.fusion.objectives import NEGATIVES, contrast, drawn, matching, ranking, right, wrong
from isthmus.train.fusion.queues import Queue
from isthmus.train.fusion.recipe import FusionRecipe

Queues = tuple[Queue, Queue]


def draw(known: FusionLesson, recipe: FusionRecipe, rng: torch.Generator, kind: str | None = None) -> FusionBatch:
    """Draw documents, and a kind of query; a query about one part sees it with another document's other part."""
    rows = torch.randint(len(known.ids), (recipe.batch,), generator=rng, device=rng.device)
    kind = kind or KINDS[int(torch.randint(len(KINDS), (1,), generator=rng, device=rng.device))]
    others = rows[torch.randperm(len(rows), generator=rng, device=rng.device)] if recipe.anew else rows
    return FusionBatch(kind, rows, others if kind == IMAGE else rows, others if kind == TEXT else rows)


def step_loss(
    model: Fusion, known: FusionLesson, batch: FusionBatch, queues: Queues, recipe: FusionRecipe, rng: torch.Generator
) -> Tensor:
    """Return the loss of one batch."""
    model.train()
    kind, rows, ids = batch.kind, batch.rows, known.ids_of(batch)
    fused = model.document(noisy(known.documents(batch.texts, batch.images), kind, recipe, rng))
    queries = model.query(*known.query_sides(rows, kind, model.query.sides)).vectors.float()
    past_queries, past_documents = ((queue.vectors, queue.ids) for queue in queues)
    with torch.autocast(rows.device.type, enabled=False):
        loss = contrast(queries, fused.vectors.float(), ids, (past_queries, past_documents), model.temperature)
    if model.query.sides > 1:
        loss = loss + choice(model, known, batch)
    if recipe.matching:
        logits = matched(model, known, batch, (queries, fused), recipe, rng)
        told = matching(logits) if recipe.paper else matching(logits) + ranking(logits)
        loss = loss + recipe.matching * told
    return loss


def choice(model: Fusion, known: FusionLesson, batch: FusionBatch) -> Tensor:
    """Return the loss of the side of each word."""
    label, said = known.chosen(batch.rows, batch.kind)
    logits = model.chooser(*known.queries[batch.kind].take(batch.rows)).float()
    each = F.binary_cross_entropy_with_logits(logits, label, reduction="none").mean(dim=2)
    return (each * said).sum() / said.sum().clamp_min(1)


def choose(model: Fusion, known: FusionLesson, recipe: FusionRecipe, rng: torch.Generator) -> None:
    """Train the side of each word alone for ``choosing`` steps: it needs no documents, so a step is cheap."""
    if model.query.sides == 1 or not recipe.choosing:
        return
    model.train()
    optimiser = torch.optim.AdamW(model.chooser.parameters(), lr=recipe.quick, weight_decay=recipe.decay)
    for step in range(recipe.choosing):
        optimiser.param_groups[0]["lr"] = recipe.quick * (1 - step / recipe.choosing)
        loss = choice(model, known, draw(known, recipe, rng))
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()


def matched(
    model: Fusion,
    known: FusionLesson,
    batch: FusionBatch,
    seen: tuple[Tensor, FusedDocuments],
    recipe: FusionRecipe,
    rng: torch.Generator,
) -> Tensor:
    """Return the matcher's logits for the first queries of a batch, ``(n, 4)``: the right document, then three wrong.

    ``seen`` are the batch's queries and documents, encoded.
    """
    n, (queries, fused), (query_ids, document_ids) = recipe.matched, seen, known.ids_of(batch)
    truth = right(query_ids[:n], document_ids)
    negatives = drawn(queries[:n] @ fused.vectors.float().T, truth, model.temperature.detach(), 2, rng)
    pairs = wrong(negatives, (query_ids[:n], document_ids), paper=recipe.paper)
    texts, images = batch.texts[pairs.text.T.flatten()], batch.images[pairs.image.T.flatten()]
    others = model.document(noisy(known.documents(texts, images), batch.kind, recipe, rng))
    query_sides = known.query_sides(batch.rows[:n], batch.kind, model.query.sides)
    several = [FusedDocuments(*(part[:n] for part in fused))]
    several += [FusedDocuments(*parts) for parts in zip(*(part.chunk(NEGATIVES) for part in others), strict=True)]
    columns = []
    for one in several:
        similarity = alike(queries[:n], one.vectors, model.query.sides).detach()
        columns.append(model.matcher(one.tokens, one.masks, similarity, *query_sides))
    return torch.stack(columns, dim=1).float()


@torch.no_grad()
def level(model: Fusion, known: FusionLesson, recipe: FusionRecipe, rng: torch.Generator) -> None:
    """Shift the matcher so that right and wrong documents start on opposite sides of 0.

    Otherwise it would first learn to reject everything.
    """
    model.eval()
    middle = []
    for kind in (TEXT, IMAGE):
        batch = draw(known, recipe, rng, kind)
        fused = model.document(noisy(known.documents(batch.texts, batch.images), kind, recipe, rng))
        queries = model.query(*known.query_sides(batch.rows, kind, model.query.sides)).vectors.float()
        logits = matched(model, known, batch, (queries, fused), recipe, rng)
        middle.append((logits[:, 0].mean() + logits[:, 1:].mean()) / 2)
    found = torch.stack(middle)
    model.matcher.shift.sub_(found if model.query.sides > 1 else found.mean() / len(found))


@torch.no_grad()
def remember(model: Fusion, known: FusionLesson, batch: FusionBatch, queues: Queues) -> None:
    """Append a batch to the queues of queries and of documents."""
    queries, documents = queues
    query_ids, document_ids = known.ids_of(batch)
    queries.put(model.query(*known.query_sides(batch.rows, batch.kind, model.query.sides)).vectors, query_ids)
    documents.put(model.document(known.documents(batch.texts, batch.images)).vectors, document_ids)


@torch.no_grad()
def follow(slow: Fusion, model: Fusion, momentum: float) -> None:
    """Update the momentum copy."""
    for one, other in zip(slow.parameters(), model.parameters(), strict=True):
        one.lerp_(other.to(one), 1 - momentum)


def noisy(documents: TowerFeatures, kind: str, recipe: FusionRecipe, rng: torch.Generator) -> TowerFeatures:
    """Perturb the pictures' vectors, and hide from some documents the part that the query does not describe."""
    image, device = documents.image, documents.image.device
    if recipe.noise:
        one, other = (torch.randperm(len(image), generator=rng, device=device) for _ in range(2))
        patches = documents.patches + recipe.noise * (documents.patches[one] - documents.patches[other])
        image = F.normalize(image + recipe.noise * (image[one] - image[other]), dim=1)
        documents = documents._replace(image=image, patches=patches)
    stay = torch.rand(len(documents.image), 1, generator=rng, device=device) >= recipe.alone
    if kind == TEXT:
        return documents._replace(patch_mask=documents.patch_mask & stay)
    return documents._replace(text_mask=documents.text_mask & stay) if kind == IMAGE else documents
