"""The training of fusion: ``train``, on one screen.

Each step draws documents and one kind of query; loss = contrast + matching. The towers never change, so what they see is
computed once (features). Held-out documents decide which weights are kept. How we differ from the paper, beside what
model and objectives say: towers are frozen; a part of the documents loses its text or its picture now and then, when the
query does not ask for it, so that documents with one part have a place in the space too; the picture's vector gets noise,
for the towers know their own training pictures too well.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from isthmus.queries.kinds import IMAGE, KINDS, MIXED, TEXT
from isthmus.train.fusion.data import Pair
from isthmus.train.fusion.features import Pictures, Texts, seen
from isthmus.train.fusion.model import Fused, Fusion, Pool, Seen, Shape
from isthmus.train.fusion.objectives import ANY, contrast, drawn, matching, right, wrong
from isthmus.train.fusion.queues import Queue

QUICK = ("choose", "weigh", "kind", "scale", "shift", "log_temperature")
RERANKED = 20  # documents that the matcher reads, when it is measured
Report = Callable[[str], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How it is trained."""

    steps: Mapping[str, int] = field(default_factory=lambda: {"pretrain": 1500, "finetune": 500})
    rates: Mapping[str, float] = field(default_factory=lambda: {"slow": 2e-5, "matcher": 2e-4, "quick": 1e-3})
    later: float = 0.5  # times the rates in fine-tuning
    batch: int = 128
    queue: int = 2048
    decay: float = 0.05
    warm: float = 0.05
    temperature: float = 0.05
    matching: float = 1.0  # weight of the matching loss beside the contrast's
    paper: bool = False  # wrong documents as the paper has them
    alone: float = 0.1  # of the documents lose what the query does not ask for
    noise: float = 0.0  # length of what is added to a picture's vector
    pool: Pool = "kinds"
    merge: int = 2
    match: int = 2
    drop: float = 0.1
    every: int = 250  # steps between two measurements
    seed: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """Pairs as features: which text and which picture each has, and its queries by kind."""

    texts: Texts
    pictures: Pictures
    image_rows: Tensor  # (n,): the picture of each pair; its text has the pair's own row
    ids: Tensor  # (n, 2): of text and of image
    queries: Mapping[str, Texts]

    def documents(self, rows: Tensor, others: Tensor | None = None) -> Seen:
        """Return the documents of these rows, or with the pictures of other rows."""
        return seen(self.texts, self.pictures, rows, self.image_rows[rows if others is None else others])


def lesson(texts: Texts, pictures: Pictures, pairs: Sequence[Pair], queries: Mapping[str, Texts]) -> Lesson:
    """Number the ids, and find the picture of each pair among the distinct ones, in the order of ``distinct``."""
    place = {path: row for row, path in enumerate(distinct(pairs))}
    numbers: dict[tuple[str, str], int] = {}
    ids = [
        [numbers.setdefault(("text", pair.text_id), len(numbers)), numbers.setdefault(("image", pair.image_id), len(numbers))]
        for pair in pairs
    ]
    device = pictures.vectors.device
    rows = torch.tensor([place[pair.image] for pair in pairs], device=device)
    return Lesson(texts, pictures, rows, torch.tensor(ids, device=device), queries)


def distinct(pairs: Sequence[Pair]) -> list[Path]:
    """Return every picture once."""
    return list(dict.fromkeys(pair.image for pair in pairs))


def train(
    recipe: Recipe,
    shape: Shape,
    stages: Mapping[str, Lesson],
    held: Lesson,
    out: Path,
    *,
    report: Report = str,
    seconds: float = math.inf,
) -> Fusion:
    """Train through the stages and return the best weights; ``out`` gets ``log.jsonl``."""
    torch.manual_seed(recipe.seed)
    device = held.ids.device
    model = Fusion(shape, recipe.temperature).to(device)
    rng = torch.Generator(device).manual_seed(recipe.seed)
    best, kept = _measure(model, held, recipe, out, "start", 0, report), _weights(model)
    for stage, known in stages.items():
        optimiser = torch.optim.AdamW(_groups(model, recipe), betas=(0.9, 0.98))
        past_queries, past_documents = Queue(recipe.queue), Queue(recipe.queue)
        pace = recipe.later if stage == "finetune" else 1.0
        for step in range(recipe.steps[stage]):
            for group in optimiser.param_groups:
                group["lr"] = group["times"] * pace * _schedule(step, recipe.steps[stage], recipe.warm)
            rows = torch.randint(len(known.ids), (recipe.batch,), generator=rng, device=device)
            kind = KINDS[int(torch.randint(len(KINDS), (1,), generator=rng, device=device))]
            with _coarse(device):
                loss = step_loss(model, known, rows, kind, (past_queries, past_documents), recipe, rng)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            if (step + 1) % recipe.every == 0 or step + 1 == recipe.steps[stage]:
                found = _measure(model, held, recipe, out, stage, step + 1, report)
                if found > best:
                    best, kept = found, _weights(model)
    model.load_state_dict(kept)
    return model.eval()


def step_loss(
    model: Fusion,
    known: Lesson,
    rows: Tensor,
    kind: str,
    queues: tuple[Queue, Queue],
    recipe: Recipe,
    rng: torch.Generator,
) -> Tensor:
    """Return the loss of one batch with one kind of query, and let its representations into the queues."""
    model.train()
    words, there = known.queries[kind].take(rows)
    query_ids = cared(known.ids[rows], kind)
    documents = noisy(known.documents(rows), kind, recipe, rng)
    fused, asked = model.document(documents), model.query(words, there)
    queries, vectors = asked.vectors.float(), fused.vectors.float()
    past_queries, past_documents = ((queue.vectors, queue.ids) for queue in queues)
    with torch.autocast(rows.device.type, enabled=False):
        ids = query_ids, known.ids[rows]
        loss = contrast(queries, vectors, ids, (past_queries, past_documents), model.temperature)
    if recipe.matching:
        truth = right(query_ids, known.ids[rows])
        negatives = drawn(queries @ vectors.T, truth, model.temperature.detach(), 2, rng)
        pairs = wrong(negatives, query_ids, paper=recipe.paper)
        others = model.document(known.documents(rows[pairs.text.T.flatten()], rows[pairs.image.T.flatten()]))
        loss = loss + recipe.matching * matching(_logits(model, words, there, queries, [fused, others]))
    for queue, new, ids in zip(queues, (queries, vectors), (query_ids, known.ids[rows]), strict=True):
        queue.put(new, ids)
    return loss


def noisy(documents: Seen, kind: str, recipe: Recipe, rng: torch.Generator) -> Seen:
    """Add noise to the pictures' vectors, and hide from some documents what the query does not ask for."""
    if recipe.noise:
        more = torch.randn(documents.image.shape, generator=rng, device=documents.image.device)
        documents = documents._replace(image=F.normalize(documents.image + recipe.noise * F.normalize(more, dim=1), dim=1))
    stay = torch.rand(len(documents.image), 1, generator=rng, device=documents.image.device) >= recipe.alone
    if kind == TEXT:
        return documents._replace(patch_mask=documents.patch_mask & stay)
    return documents._replace(text_mask=documents.text_mask & stay) if kind == IMAGE else documents


def _logits(model: Fusion, words: Tensor, there: Tensor, queries: Tensor, documents: Sequence[Fused]) -> Tensor:
    """Return the matcher's logits, ``(n, 4)``: the right document, then the wrong ones, which come set after set."""
    n, columns = len(words), []
    for fused in documents:
        for at in range(0, len(fused.tokens), n):
            one = slice(at, at + n)
            similarity = (queries * fused.vectors[one]).sum(dim=1).detach()
            columns.append(model.matcher(words, there, fused.tokens[one], fused.masks[one], similarity))
    return torch.stack(columns, dim=1).float()


@torch.no_grad()
def measured(model: Fusion, held: Lesson, *, rerank: bool = True, chunk: int = 64) -> dict[str, float]:
    """Return R@1 of the held-out queries by kind, and of what the matcher makes of the first documents."""
    model.eval()
    numbers: dict[str, float] = {}
    everything = torch.arange(len(held.ids), device=held.ids.device)
    with _coarse(held.ids.device):
        documents = _fused(model, held, everything.split(chunk))
        for kind in KINDS:
            truth = right(cared(held.ids, kind), held.ids)
            found, again = [], []
            for rows in everything.split(chunk):
                words, there = held.queries[kind].take(rows)
                similarity = model.query(words, there).vectors.float() @ documents.vectors.T
                first = similarity.topk(min(RERANKED, similarity.shape[1]), dim=1).indices  # (n, k)
                found.append(truth[rows, first[:, 0]])
                if rerank:
                    logits = [
                        model.matcher(words, there, documents.tokens[at], documents.masks[at], near)
                        for at, near in zip(first.T, similarity.gather(1, first).T, strict=True)
                    ]
                    chosen = torch.stack(logits, dim=1).float().argmax(dim=1, keepdim=True)
                    again.append(truth[rows, first.gather(1, chosen)[:, 0]])
            numbers[kind] = float(torch.cat(found).float().mean())
            if rerank:
                numbers[f"{kind}, matched"] = float(torch.cat(again).float().mean())
    return numbers


def cared(ids: Tensor, kind: str) -> Tensor:
    """Return (text, image) ids with ANY for what a kind of query does not ask for."""
    cares = torch.tensor([kind in (TEXT, MIXED), kind in (IMAGE, MIXED)], device=ids.device)
    return torch.where(cares, ids, ANY)


def _fused(model: Fusion, held: Lesson, chunks: Sequence[Tensor]) -> Fused:
    """Return the documents of all chunks, padded to the longest; shares are left out."""
    parts = [model.document(held.documents(rows)) for rows in chunks]
    longest = max(part.masks.shape[2] for part in parts)
    tokens = [F.pad(part.tokens, (0, 0, 0, longest - part.masks.shape[2])) for part in parts]
    masks = [F.pad(part.masks, (0, longest - part.masks.shape[2])) for part in parts]
    vectors = torch.cat([part.vectors.float() for part in parts])
    return Fused(vectors, torch.cat(tokens), torch.cat(masks), vectors[:0])


def _measure(model: Fusion, held: Lesson, recipe: Recipe, out: Path, stage: str, step: int, report: Report) -> float:
    numbers = measured(model, held, rerank=bool(recipe.matching) and step > 0)
    out.mkdir(parents=True, exist_ok=True)
    with (out / "log.jsonl").open("a") as file:
        file.write(json.dumps({"stage": stage, "step": step, **{k: round(v, 4) for k, v in numbers.items()}}) + "\n")
    report(f"{stage} {step}: R@1 {', '.join(f'{kind} {value:.3f}' for kind, value in numbers.items())}, τ {model.temperature.item():.4f}")
    return sum(numbers.values()) / len(numbers)


def _schedule(step: int, steps: int, warm: float) -> float:
    first = max(1, round(warm * steps))
    return (step + 1) / first if step < first else 0.5 * (1 + math.cos(math.pi * (step - first) / max(1, steps - first)))


def _groups(model: Fusion, recipe: Recipe) -> list[dict[str, Any]]:
    """Return parameters with their rates: what begins as the towers' own vectors moves slowly, the matcher faster.

    Choices, shares, scales and the temperature, a few numbers each, are fastest. Vectors and scalars do not decay.
    """
    groups: dict[tuple[str, bool], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        quick = any(part in QUICK for part in name.split("."))
        kind = "quick" if quick else "matcher" if name.startswith("matcher") else "slow"
        groups.setdefault((kind, parameter.ndim > 1 and not quick), []).append(parameter)
    return [
        {"params": several, "weight_decay": recipe.decay * decays, "times": recipe.rates[kind]}
        for (kind, decays), several in groups.items()
    ]


def _weights(model: Fusion) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().clone() for name, tensor in model.state_dict().items()}


def _coarse(device: torch.device) -> object:
    return torch.autocast("cuda", torch.bfloat16) if device.type == "cuda" else nullcontext()
