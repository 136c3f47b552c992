"""The training loop of Mr. Right: ``train``.

Pre-training on generated queries, then fine-tuning on human ones, each for a number of epochs with new queues and a new
optimiser. AdamW; the rate rises to its peak in the first epoch of a stage and falls along a cosine to its last value
with the last step; gradients are clipped (Section 5.3). Held-out documents decide which weights are kept, or the last
ones are (``keep``): the paper does not say how its own were chosen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from isthmus.errors import BadInput
from isthmus.train import checkpoint
from isthmus.train.fixed_shapes import fixed_shapes
from isthmus.train.fusion.features import Report
from isthmus.train.fusion.measure import coarse
from isthmus.train.fusion.run import FusionRun
from isthmus.train.mr_right.measure import held_out
from isthmus.train.mr_right.model import MrRight
from isthmus.train.mr_right.recipe import MrRightRecipe
from isthmus.train.mr_right.step import draw, losses
from isthmus.train.mr_right.tensors import PairTensors
from isthmus.train.pace import Due, Pace

SAID = 50  # steps between two lines of progress
SAVED = 60.0  # seconds between two checkpoints, at least: one has several hundred megabytes


def train(
    model: MrRight,
    recipe: MrRightRecipe,
    stages: Mapping[str, PairTensors],
    held: PairTensors,
    out: Path,
    *,
    report: Report = str,
) -> MrRight:
    """Train through the stages and return the model; write ``log.jsonl`` and a checkpoint to ``out``.

    A second call resumes after the last epoch that was saved, with the same result. The last epoch of a stage is saved,
    and others once a minute at most.
    """
    torch.manual_seed(recipe.seed)
    device = held.ids.device
    data = "".join(pairs.digest() for pairs in (*stages.values(), held))
    rng = torch.Generator(device).manual_seed(recipe.seed)
    run = FusionRun(recipe, data, model.to(device), rng, copied=False)
    if not run.resume(out):
        run.weigh(_measure(run, held, out, {"stage": "start", "epoch": 0}, report))
    for number, (stage, pairs) in enumerate(stages.items()):
        if number < run.stage:
            continue
        if len(pairs.ids) < recipe.batch:
            raise BadInput(f"{stage} has {len(pairs.ids)} pairs, fewer than a batch ({recipe.batch}). Use --batch.")
        optimiser = torch.optim.AdamW(model.parameters(), lr=recipe.rate, weight_decay=recipe.decay)
        run.begin(number, optimiser)
        due, pace = Due(SAVED), Pace(stage, report)
        for epoch in range(run.step, recipe.epochs[stage]):
            last = epoch + 1 == recipe.epochs[stage]
            with fixed_shapes(device):
                means = _epoch(run, pairs, optimiser, (epoch, recipe.epochs[stage]), pace)
            if (epoch + 1) % recipe.every == 0 or last:
                row: dict[str, str | float] = {"stage": stage, "epoch": epoch + 1, **means}
                run.weigh(_measure(run, held, out, row, report))
                if due(anyway=last):
                    run.save(out, epoch + 1, optimiser)
    if recipe.keep == "best":
        model.load_state_dict(run.kept)
    return model.eval()


def rate_at(step: int, first: int, steps: int, recipe: MrRightRecipe) -> float:
    """Return the learning rate: a rise over the ``first`` steps, then a cosine to the last rate.

    >>> recipe = MrRightRecipe()
    >>> [f"{rate_at(step, 10, 400, recipe):.1e}" for step in (0, 9, 10, 204, 399)]
    ['5.0e-06', '5.0e-05', '5.0e-05', '2.5e-05', '1.0e-07']
    """
    if step < first:
        return recipe.rate * (step + 1) / first
    along = (step - first) / max(1, steps - 1 - first)
    return recipe.last_rate + (recipe.rate - recipe.last_rate) * (1 + math.cos(math.pi * along)) / 2


def _epoch(
    run: FusionRun[MrRight, MrRightRecipe],
    pairs: PairTensors,
    optimiser: torch.optim.Optimizer,
    when: tuple[int, int],
    pace: Pace,
) -> dict[str, float]:
    """Train on every pair once, in random order; return the mean losses. An incomplete last batch is left out."""
    recipe, (epoch, epochs) = run.recipe, when
    device = pairs.ids.device
    order = torch.randperm(len(pairs.ids), generator=run.rng, device=device)
    batches = [rows for rows in torch.split(order, recipe.batch) if len(rows) == recipe.batch]
    total = torch.zeros(2, device=device)
    for step, rows in enumerate(batches, epoch * len(batches)):
        total += _step(run, pairs, rows, optimiser, rate_at(step, len(batches), epochs * len(batches), recipe))
        if (step + 1) % SAID == 0:
            pace(step + 1, epochs * len(batches))
    contrast, matching = (total / len(batches)).tolist()
    return {"contrast": round(contrast, 4), "matching": round(matching, 4), "rate": optimiser.param_groups[0]["lr"]}


def _step(
    run: FusionRun[MrRight, MrRightRecipe],
    pairs: PairTensors,
    rows: Tensor,
    optimiser: torch.optim.Optimizer,
    rate: float,
) -> Tensor:
    """Update the weights on one batch; return the two losses."""
    for group in optimiser.param_groups:
        group["lr"] = rate
    with coarse(pairs.ids.device):
        found = losses(run.model, draw(pairs, rows, run.rng), run.queues, run.recipe, run.rng)
    optimiser.zero_grad(set_to_none=True)
    (found.contrast + found.matching).backward()  # type: ignore[no-untyped-call]
    nn.utils.clip_grad_norm_(run.model.parameters(), run.recipe.clip)
    optimiser.step()
    return torch.stack([found.contrast.detach(), found.matching.detach()])


def _measure(
    run: FusionRun[MrRight, MrRightRecipe],
    held: PairTensors,
    out: Path,
    row: Mapping[str, str | float],
    report: Report,
) -> float:
    """Measure, log and report; return the mean."""
    numbers = {kind: round(value, 4) for kind, value in held_out(run.model, held).items()}
    out.mkdir(parents=True, exist_ok=True)
    checkpoint.log(out, {**row, **numbers})
    report(", ".join(f"{name} {value}" for name, value in {**row, **numbers}.items()))
    return sum(numbers.values()) / len(numbers)
