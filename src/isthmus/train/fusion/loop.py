"""The training of fusion: ``train``, on one screen.

Each step draws documents and one kind of query; loss = contrast + matching + choice (which words ask for which side).
The towers never change, so what they see is computed once (features). Held-out documents decide which weights are kept.

How we differ from the paper, beside what model and objectives say:
1. The towers are frozen. What begins as their vectors moves slowly, the matcher faster, a few scalars fastest.
2. The queues hold what a slow copy of the model gives (He et al., MoCo, 2020), so that what was let in some steps ago
   still looks as the model sees it now.
3. Some documents lose the part that the query does not ask for, so that documents with one part have their place too.
4. A picture's vector gets noise: the towers know the pictures they were trained on too well.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from isthmus.errors import BadInput
from isthmus.queries.kinds import IMAGE, KINDS, MIXED, TEXT
from isthmus.train.fusion.lessons import Lesson, cared
from isthmus.train.fusion.measure import coarse, measured, parted
from isthmus.train.fusion.model import Fused, Fusion, Pool, Seen, Shape
from isthmus.train.fusion.objectives import contrast, drawn, matching, right, wrong
from isthmus.train.fusion.queues import Queue

QUICK = ("chooser", "balance", "choose", "weigh", "kind", "scale", "shift", "log_temperature")
Report = Callable[[str], object]
Queues = tuple[Queue, Queue]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How it is trained."""

    steps: Mapping[str, int] = field(default_factory=lambda: {"pretrain": 900, "finetune": 300})
    slow: float = 0.0  # rates: of what begins as the towers' own vectors; 0 keeps these
    match_rate: float = 2e-4
    quick: float = 3e-3
    later: float = 0.5  # times the rates, in fine-tuning
    batch: int = 128
    queue: int = 2048
    momentum: float = 0.995  # of the slow copy
    decay: float = 0.05
    warm: float = 0.05  # of the steps of a stage
    temperature: float = 0.05
    matching: float = 1.0  # weight of the matching loss beside the contrast's
    paper: bool = False  # wrong documents as the paper has them
    alone: float = 0.1  # of the documents lose what the query does not ask for
    noise: float = 0.3  # length of what is added to a picture's vector
    pool: Pool = "kinds"
    merge: int = 2  # layers
    match: int = 2
    drop: float = 0.1
    every: int = 300  # steps between two measurements
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("batch", 2), ("queue", 0), ("every", 1), ("merge", 0), ("match", 0)):
            if getattr(self, name) < least:
                raise BadInput(f"{name} is {getattr(self, name)}; it must be at least {least}.")

    def shape(self, dim: int, patch: int) -> Shape:
        """Return the sizes of the model it trains."""
        heads = next(count for count in (6, 4, 2, 1) if dim % count == 0)
        sizes = {"dim": dim, "patch": patch, "heads": heads, "merge": self.merge, "match": self.match}
        return Shape(**sizes, drop=self.drop, pool=self.pool)


def train(recipe: Recipe, stages: Mapping[str, Lesson], held: Lesson, out: Path, *, report: Report = str) -> Fusion:
    """Train through the stages and return the best weights; ``out`` gets ``log.jsonl``."""
    torch.manual_seed(recipe.seed)
    device = held.ids.device
    shape = recipe.shape(held.texts.states.shape[1], held.pictures.cells.shape[2])
    model = Fusion(shape, recipe.temperature).to(device)
    slow_copy = copy.deepcopy(model).eval()
    rng = torch.Generator(device).manual_seed(recipe.seed)
    best, kept = _measure(model, held, recipe, out, ("start", 0), report), _weights(model)
    for stage, known in stages.items():
        optimiser = torch.optim.AdamW(_groups(model, recipe, stage), betas=(0.9, 0.98))
        queues = Queue(recipe.queue), Queue(recipe.queue)
        for step in range(recipe.steps[stage]):
            for group in optimiser.param_groups:
                group["lr"] = group["rate"] * _schedule(step, recipe.steps[stage], recipe.warm)
            rows = torch.randint(len(known.ids), (recipe.batch,), generator=rng, device=device)
            kind = KINDS[int(torch.randint(len(KINDS), (1,), generator=rng, device=device))]
            with coarse(device):
                loss = step_loss(model, known, rows, kind, queues, recipe, rng)
                remember(slow_copy, known, rows, kind, queues)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            follow(slow_copy, model, recipe.momentum)
            if (step + 1) % recipe.every == 0 or step + 1 == recipe.steps[stage]:
                found = _measure(model, held, recipe, out, (stage, step + 1), report)
                if found > best:
                    best, kept = found, _weights(model)
    model.load_state_dict(kept)
    return model.eval()


def step_loss(
    model: Fusion, known: Lesson, rows: Tensor, kind: str, queues: Queues, recipe: Recipe, rng: torch.Generator
) -> Tensor:
    """Return the loss of one batch with one kind of query."""
    model.train()
    query_ids, document_ids = cared(known.ids[rows], kind), known.ids[rows]
    fused = model.document(noisy(known.documents(rows), kind, recipe, rng))
    queries = model.query(*known.asked(rows, kind, model.query.sides)).vectors.float()
    past_queries, past_documents = ((queue.vectors, queue.ids) for queue in queues)
    with torch.autocast(rows.device.type, enabled=False):
        vectors, ids, past = fused.vectors.float(), (query_ids, document_ids), (past_queries, past_documents)
        loss = contrast(queries, vectors, ids, past, model.temperature)
    words, there = known.queries[kind].take(rows)
    if model.query.sides > 1:
        label, said = known.chosen(rows, kind)
        each = F.binary_cross_entropy_with_logits(model.chooser(words, there).float(), label, reduction="none")
        loss = loss + (each.mean(dim=2) * said).sum() / said.sum().clamp_min(1)
    if recipe.matching:
        truth = right(query_ids, document_ids)
        negatives = drawn(queries @ fused.vectors.float().T, truth, model.temperature.detach(), 2, rng)
        pairs = wrong(negatives, query_ids, paper=recipe.paper)
        others = model.document(known.documents(rows[pairs.text.T.flatten()], rows[pairs.image.T.flatten()]))
        loss = loss + recipe.matching * matching(_logits(model, (words, there), queries, (fused, others)))
    return loss


@torch.no_grad()
def remember(model: Fusion, known: Lesson, rows: Tensor, kind: str, queues: Queues) -> None:
    """Let what a model makes of a batch into the queues of queries and of documents."""
    queries, documents = queues
    queries.put(model.query(*known.asked(rows, kind, model.query.sides)).vectors, cared(known.ids[rows], kind))
    documents.put(model.document(known.documents(rows)).vectors, known.ids[rows])


@torch.no_grad()
def follow(slow: Fusion, model: Fusion, momentum: float) -> None:
    """Move a copy a little of the way to the model."""
    for one, other in zip(slow.parameters(), model.parameters(), strict=True):
        one.lerp_(other.to(one), 1 - momentum)


def noisy(documents: Seen, kind: str, recipe: Recipe, rng: torch.Generator) -> Seen:
    """Add noise to the pictures' vectors, and hide from some documents what the query does not ask for."""
    device = documents.image.device
    if recipe.noise:
        more = F.normalize(torch.randn(documents.image.shape, generator=rng, device=device), dim=1)
        documents = documents._replace(image=F.normalize(documents.image + recipe.noise * more, dim=1))
    stay = torch.rand(len(documents.image), 1, generator=rng, device=device) >= recipe.alone
    if kind == TEXT:
        return documents._replace(patch_mask=documents.patch_mask & stay)
    return documents._replace(text_mask=documents.text_mask & stay) if kind == IMAGE else documents


def _logits(model: Fusion, query: tuple[Tensor, Tensor], queries: Tensor, documents: tuple[Fused, Fused]) -> Tensor:
    """Return the matcher's logits, ``(n, 4)``: the right document, then the wrong ones, which come set after set."""
    n, columns = len(queries), []
    for fused in documents:
        for at in range(0, len(fused.tokens), n):
            one = slice(at, at + n)
            similarity = (queries * fused.vectors[one]).sum(dim=1).detach()
            columns.append(model.matcher(*query, fused.tokens[one], fused.masks[one], similarity))
    return torch.stack(columns, dim=1).float()


def _measure(model: Fusion, held: Lesson, recipe: Recipe, out: Path, when: tuple[str, int], report: Report) -> float:
    """Measure, write it down and say it; return the mean."""
    numbers = measured(model, held, rerank=bool(recipe.matching))
    row = {"stage": when[0], "step": when[1], **{kind: round(value, 4) for kind, value in numbers.items()}}
    if model.query.sides > 1:
        row["words parted"] = round(parted(model, held, MIXED), 4)
    out.mkdir(parents=True, exist_ok=True)
    with (out / "log.jsonl").open("a") as file:
        file.write(json.dumps(row) + "\n")
    report(f"{when[0]} {when[1]}: " + ", ".join(f"{name} {value}" for name, value in list(row.items())[2:]))
    return sum(numbers.values()) / len(numbers)


def _schedule(step: int, steps: int, warm: float) -> float:
    """Warm up, then fall along a cosine."""
    first = max(1, round(warm * steps))
    return (
        (step + 1) / first if step < first else 0.5 + 0.5 * math.cos(math.pi * (step - first) / max(1, steps - first))
    )


def _groups(model: Fusion, recipe: Recipe, stage: str) -> list[dict[str, Any]]:
    """Return parameters with their rates; vectors and scalars, and all that is quick, do not decay."""
    rates = {"slow": recipe.slow, "match": recipe.match_rate, "quick": recipe.quick}
    pace = recipe.later if stage == "finetune" else 1.0
    groups: dict[tuple[str, bool], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        quick = any(part in QUICK for part in name.split("."))
        kind = "quick" if quick else "match" if name.startswith("matcher") else "slow"
        groups.setdefault((kind, parameter.ndim > 1 and not quick), []).append(parameter)
    return [
        {"params": several, "weight_decay": recipe.decay * decays, "rate": pace * rates[kind]}
        for (kind, decays), several in groups.items()
    ]


def _weights(model: Fusion) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().clone() for name, tensor in model.state_dict().items()}
