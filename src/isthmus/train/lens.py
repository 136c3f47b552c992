"""Train LENS: fine-tune a sentence encoder on queries with known documents. The loop is ``train``.

    loss = − log  exp(cos(q, d⁺) / τ)  /  Σ over the documents d of the batch of exp(cos(q, d) / τ)

The batch's documents are every query's right document and its M hard negatives, so a right document of one query is a
negative of the others. Other right documents of a query are left out of its sum, and a document that occurs twice
counts once. Hard negatives come from BM25 and from the checkpoint that training starts from.

Held-out training queries decide which epoch is kept, including the start; no other split is read. Reference:
BRIDGE (arXiv 2604.07201), LENS, M = 7 and τ = 0.02. Differences: every step draws negatives from the first
``depth`` of both lists; documents are cut to ``length``; the average of start and trained weights is a candidate too
(Wortsman et al. 2022), because a few hundred queries soon overfit; vectors are computed without gradients first and
again in small chunks (Gao et al. 2021), which gives the same gradients and lets a large batch fit.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from isthmus.errors import BadInput
from isthmus.evaluate import run_of, values
from isthmus.train import checkpoint, noise
from isthmus.train.judged import Judged
from isthmus.train.sentence import SentenceModel

CHECKPOINT_EVERY = 20  # steps


@dataclass(frozen=True, slots=True, kw_only=True)
class LensRecipe:
    """How LENS is trained."""

    negatives: int = 7
    temperature: float = 0.02
    depth: int = 20  # of each retriever's list, to draw negatives from
    skip: int = 0  # first ones that are left out: they may be right without being judged
    rate: float = 5e-5
    decay: float = 0.01
    batch: int = 32  # queries
    epochs: int = 6
    patience: int = 3  # epochs without improvement before training stops
    shares: tuple[float, ...] = (0.5, 1.0)  # weights of the trained model in averages with the start
    warm: float = 0.1  # of all steps
    length: int = 256  # maximum tokens of a document
    chunk: int = 32  # texts with gradients at a time
    held: float = 0.1  # share of held-out queries
    apart: bool = False  # whether they share no right document with the others
    seed: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class LensLesson:
    """Training data: queries, hard negatives of each, and held-out queries."""

    judged: Judged
    negatives: Mapping[str, Sequence[str]]
    learned: Sequence[str]
    held: Sequence[str]


@dataclass(frozen=True, slots=True, eq=False)
class LensBatch:
    """Queries, documents, the column of each query's right one, and which documents are right for which query."""

    queries: Sequence[str]  # ids
    documents: Sequence[str]
    target: Tensor  # (n_queries,)
    right: Tensor  # (n_queries, n_documents) booleans


@dataclass(slots=True)
class Progress:
    """Progress, and the best epoch so far."""

    step: int
    best: float
    best_epoch: int
    weights: dict[str, Tensor]

    def met(self, epoch: int, value: float, weights: dict[str, Tensor]) -> None:
        """Record the result of an epoch."""
        if value > self.best:
            self.best, self.best_epoch, self.weights = value, epoch, weights

    def tired(self, epoch: int, recipe: LensRecipe) -> bool:
        """Return whether too many epochs had no improvement."""
        return epoch - self.best_epoch >= recipe.patience


def train(
    recipe: LensRecipe, start: SentenceModel, lesson: LensLesson, out: Path, *, report: Callable[[str], object] = str
) -> SentenceModel:
    """Train and return the model of the best epoch; write ``log.jsonl`` and a checkpoint to ``out``."""
    torch.manual_seed(recipe.seed)
    model = copy.deepcopy(start)
    tokens = TokenCache.of(model, lesson, recipe)
    optimiser = torch.optim.AdamW(_groups(model, recipe), betas=(0.9, 0.98))
    out.mkdir(parents=True, exist_ok=True)
    done = _resume(out, recipe, model, optimiser)
    if done is None:
        done = Progress(0, measured(model, tokens, lesson), 0, _weights(model))
        report(_log(out, 0, done.step, None, [done.best]))
    each = len(batches(lesson, recipe, 0))
    while done.step < recipe.epochs * each and not done.tired(done.step // each, recipe):
        epoch, losses = done.step // each, []
        for batch in batches(lesson, recipe, epoch)[done.step % each :]:
            for group in optimiser.param_groups:
                group["lr"] = recipe.rate * _schedule(done.step, recipe.epochs * each, recipe.warm)
            optimiser.zero_grad(set_to_none=True)
            losses.append(backward(model, tokens, batch, recipe))
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            done.step += 1
            if done.step % CHECKPOINT_EVERY == 0 and done.step % each:
                _save(out, recipe, done, model, optimiser)
                report(f"step {done.step} of {recipe.epochs * each}: loss {np.mean(losses):.3f} in this epoch")
        for value, weights in (found := list(_on_the_way(start, model, tokens, lesson, recipe))):
            done.met(epoch + 1, value, weights)
        report(_log(out, epoch + 1, done.step, float(np.mean(losses)), [value for value, _ in found]))
        _save(out, recipe, done, model, optimiser)
    report(f"kept: epoch {done.best_epoch}, nDCG@10 {done.best:.3f}")
    model.load_state_dict(done.weights)
    return model.eval()


def info_nce(queries: Tensor, documents: Tensor, target: Tensor, right: Tensor, temperature: float) -> Tensor:
    """Return − log softmax of each query's right document among the documents, the mean over queries.

    Documents that are ``right`` for a query and not its ``target`` are left out of its sum.
    """
    logits = queries @ documents.T / temperature  # (n_queries, n_documents)
    others = right & (torch.arange(len(documents), device=right.device) != target[:, None])
    return F.cross_entropy(logits.masked_fill(others, -torch.inf), target)


def batches(lesson: LensLesson, recipe: LensRecipe, epoch: int) -> list[LensBatch]:
    """Return the batches of an epoch: every query once, with one of its right documents and M of its negatives."""
    rng = np.random.default_rng([recipe.seed, epoch])
    order = [lesson.learned[at] for at in rng.permutation(len(lesson.learned))]
    return [
        _batch(order[start : start + recipe.batch], lesson, recipe, rng) for start in range(0, len(order), recipe.batch)
    ]


def _batch(queries: Sequence[str], lesson: LensLesson, recipe: LensRecipe, rng: np.random.Generator) -> LensBatch:
    column: dict[str, int] = {}  # one column per document
    target = []
    for query in queries:
        right, wrong = lesson.judged.right[query], lesson.negatives[query][recipe.skip :]
        target.append(column.setdefault(right[int(rng.integers(len(right)))], len(column)))
        for at in rng.choice(len(wrong), min(recipe.negatives, len(wrong)), replace=False):
            column.setdefault(wrong[at], len(column))
    known = torch.tensor([[name in lesson.judged.right[query] for name in column] for query in queries])
    return LensBatch(queries, list(column), torch.tensor(target), known)


def backward(model: SentenceModel, tokens: TokenCache, batch: LensBatch, recipe: LensRecipe) -> float:
    """Add the gradients of a batch's loss to the model's, a chunk of texts at a time, and return the loss.

    First every vector without gradients; then the loss's gradient with respect to the vectors; then each chunk again,
    with the same dropout, to propagate that gradient to the weights.
    """
    model.train()
    rows = tokens.rows(batch)
    order = sorted(range(len(rows)), key=lambda row: len(rows[row]))  # little padding
    chunks = [order[start : start + recipe.chunk] for start in range(0, len(order), recipe.chunk)]
    device = next(model.parameters()).device
    drawn, parts = [], []
    with torch.no_grad():
        for chunk in chunks:
            drawn.append(noise.state())
            parts.append(model.vectors([rows[row] for row in chunk]))
    found = torch.empty(len(rows), parts[0].shape[1], device=device)
    for chunk, part in zip(chunks, parts, strict=True):
        found[chunk] = part
    found.requires_grad_()
    n = len(batch.queries)
    loss = info_nce(found[:n], found[n:], batch.target.to(device), batch.right.to(device), recipe.temperature)
    loss.backward()  # type: ignore[no-untyped-call]
    slope = found.grad
    if slope is None:
        raise RuntimeError("the loss does not depend on the vectors")
    for chunk, before in zip(chunks, drawn, strict=True):
        noise.restore(before)
        again = model.vectors([rows[row] for row in chunk])
        (again * slope[chunk]).sum().backward()  # type: ignore[no-untyped-call]
    return float(loss.detach())


def measured(model: SentenceModel, tokens: TokenCache, lesson: LensLesson) -> float:
    """Return nDCG@10 of the held-out queries, among the right documents and hard negatives of all of them."""
    candidates = _candidates(lesson)
    queries = model.encoded([tokens.queries[query] for query in lesson.held])
    documents = model.encoded([tokens.documents[name] for name in candidates])
    run = run_of((queries @ documents.T).cpu().numpy(), lesson.held, candidates, k=10)
    qrels = {query: dict.fromkeys(lesson.judged.right[query], 1) for query in lesson.held}
    return float(np.mean(list(values("nDCG@10", run, qrels).values())))


def _on_the_way(
    start: SentenceModel, model: SentenceModel, tokens: TokenCache, lesson: LensLesson, recipe: LensRecipe
) -> Iterator[tuple[float, dict[str, Tensor]]]:
    """Yield the measure and the weights of each average of start and model."""
    before, now = _weights(start), _weights(model)
    tried = copy.deepcopy(start)
    for share in recipe.shares:
        weights = {name: _between(before[name], tensor, share) for name, tensor in now.items()}
        tried.load_state_dict(weights)
        yield measured(tried, tokens, lesson), weights


def _between(before: Tensor, after: Tensor, share: float) -> Tensor:
    return torch.lerp(before, after, share) if before.is_floating_point() else after


def _candidates(lesson: LensLesson) -> list[str]:
    names = (name for query in lesson.held for name in (*lesson.judged.right[query], *lesson.negatives[query]))
    return list(dict.fromkeys(names))


@dataclass(frozen=True, slots=True, eq=False)
class TokenCache:
    """The tokens of every text, by id."""

    queries: Mapping[str, Sequence[int]]
    documents: Mapping[str, Sequence[int]]

    @classmethod
    def of(cls, model: SentenceModel, lesson: LensLesson, recipe: LensRecipe) -> TokenCache:
        """Tokenize each text once."""
        judged = lesson.judged
        used = {name for query in judged.queries for name in (*judged.right[query], *lesson.negatives[query])}
        names = [name for name in judged.documents if name in used]
        queries = model.tokens(list(judged.queries.values()), "query", recipe.length)
        documents = model.tokens([judged.documents[name] for name in names], "document", recipe.length)
        return cls(dict(zip(judged.queries, queries, strict=True)), dict(zip(names, documents, strict=True)))

    def rows(self, batch: LensBatch) -> list[Sequence[int]]:
        """Return the tokens of a batch: its queries, then its documents."""
        return [*(self.queries[query] for query in batch.queries), *(self.documents[name] for name in batch.documents)]


def _groups(model: SentenceModel, recipe: LensRecipe) -> list[dict[str, Any]]:
    """Vectors and scalars have no weight decay."""
    return [
        {"params": [p for p in model.parameters() if (p.ndim > 1) == decays], "weight_decay": recipe.decay * decays}
        for decays in (True, False)
    ]


def _schedule(step: int, steps: int, warm: float) -> float:
    """Warm up, then decay linearly.

    >>> [round(_schedule(step, 10, 0.2), 2) for step in (0, 1, 2, 6, 9)]
    [0.5, 1.0, 1.0, 0.5, 0.12]
    """
    first = max(1, round(warm * steps))
    return (step + 1) / first if step < first else (steps - step) / max(1, steps - first)


def _weights(model: SentenceModel) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().clone() for name, tensor in model.state_dict().items()}


def _log(out: Path, epoch: int, step: int, loss: float | None, found: Sequence[float]) -> str:
    """Write a line to the log, and return it as text."""
    row = {"epoch": epoch, "step": step, "loss": loss and round(loss, 4), "nDCG@10": [round(v, 4) for v in found]}
    checkpoint.log(out, row)
    learned = "as it starts" if loss is None else f"loss {loss:.3f}"
    return f"epoch {epoch}: {learned}, nDCG@10 of held-out queries {', '.join(f'{value:.3f}' for value in found)}"


def _save(
    out: Path, recipe: LensRecipe, done: Progress, model: SentenceModel, optimiser: torch.optim.Optimizer
) -> None:
    state = {
        "recipe": repr(recipe),
        "done": [done.step, done.best, done.best_epoch, done.weights],
        "model": model.state_dict(),
        "optimiser": optimiser.state_dict(),
        "noise": noise.state(),
    }
    checkpoint.save(out, state)


def _resume(out: Path, recipe: LensRecipe, model: SentenceModel, optimiser: torch.optim.Optimizer) -> Progress | None:
    saved = checkpoint.load(out)
    if saved is None:
        return None
    if saved["recipe"] != repr(recipe):
        raise BadInput(
            f"{out / checkpoint.CHECKPOINT} has another recipe, {saved['recipe']}. Continue with that one, or write "
            "elsewhere."
        )
    model.load_state_dict(saved["model"])
    optimiser.load_state_dict(saved["optimiser"])
    noise.restore(saved["noise"])
    return Progress(*saved["done"])
