"""The training loop of fusion: ``train``.

Each step draws documents and one kind of query; loss = contrast + choice (the side of each word) + matching + ranking.
The towers never change, so their outputs are computed once (features). Held-out documents decide which weights are
kept.

Differences from the paper, in addition to those in model and objectives:
1. The towers are frozen. Weights that start as their vectors change slowly or not at all, and so do those over patches:
   the towers were trained on the same pictures. The rest of the matcher has a higher rate, scalars the highest.
2. The queues hold the output of a momentum copy of the model (He et al., MoCo, 2020), so that older entries stay
   consistent with the current model.
3. Some documents lose the part that the query does not describe, so that documents with one part are trained too.
4. A picture's vector is perturbed by the difference of two other pictures: the towers were trained on these pictures.
   With ``noise`` for mini, training captions find their picture as rarely as captions of new pictures do.
5. A query about the text sees it with another document's picture, one about the picture with another's text;
   otherwise the model could memorise the pairs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from isthmus.queries.kinds import MIXED
from isthmus.train import checkpoint
from isthmus.train.fusion.features import Report, patch_map
from isthmus.train.fusion.lessons import FusionLesson, digest
from isthmus.train.fusion.measure import coarse, measured, word_accuracy
from isthmus.train.fusion.model import Fusion
from isthmus.train.fusion.recipe import FusionRecipe
from isthmus.train.fusion.run import FusionRun
from isthmus.train.fusion.steps import choose, draw, follow, level, remember, step_loss

QUICK = ("chooser", "balance", "choose", "kind", "scale", "shift", "log_temperature")


def train(
    recipe: FusionRecipe, stages: Mapping[str, FusionLesson], held: FusionLesson, out: Path, *, report: Report = str
) -> Fusion:
    """Train through the stages and return the best weights; write ``log.jsonl`` and a checkpoint to ``out``.

    A second call resumes from the checkpoint, with the same result.
    """
    torch.manual_seed(recipe.seed)
    device, first = held.ids.device, next(iter(stages.values()))
    model = Fusion(recipe.shape(held.texts.states.shape[1], held.pictures.cells.shape[2]), recipe.temperature)
    run = FusionRun(recipe, digest(stages), model.to(device), torch.Generator(device).manual_seed(recipe.seed))
    if not run.resume(out):
        with torch.no_grad():
            model.document.patch.weight.copy_(patch_map(first.pictures))
        level(model, first, recipe, run.rng)
        run.slow.load_state_dict(model.state_dict())
        run.weigh(_measure(model, held, recipe, out, ("start", 0), report))
    for number, (stage, known) in enumerate(stages.items()):
        if number < run.stage:
            continue
        optimiser = torch.optim.AdamW(_groups(model, recipe, stage), betas=(0.9, 0.98))
        run.begin(number, optimiser)
        for step in range(run.step, recipe.steps[stage]):
            for group in optimiser.param_groups:
                group["lr"] = group["rate"] * _schedule(step, recipe.steps[stage], recipe.warm)
            batch = draw(known, recipe, run.rng)
            with coarse(device):
                loss = step_loss(model, known, batch, run.queues, recipe, run.rng)
                remember(run.slow, known, batch, run.queues)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            follow(run.slow, model, recipe.momentum)
            if (step + 1) % recipe.every == 0 or step + 1 == recipe.steps[stage]:
                run.weigh(_measure(model, held, recipe, out, (stage, step + 1), report))
                run.save(out, step + 1, optimiser)
    model.load_state_dict(run.kept)
    choose(model, first, recipe, run.rng)
    return model.eval()


def _measure(
    model: Fusion, held: FusionLesson, recipe: FusionRecipe, out: Path, when: tuple[str, int], report: Report
) -> float:
    """Measure, log and report; return the mean."""
    numbers = measured(model, held, rerank=bool(recipe.matching))
    if model.query.sides > 1:
        numbers["words on the right side"] = word_accuracy(model, held, MIXED)
    row = {"stage": when[0], "step": when[1], **{kind: round(value, 4) for kind, value in numbers.items()}}
    out.mkdir(parents=True, exist_ok=True)
    checkpoint.log(out, row)
    report(f"{when[0]} {when[1]}: " + ", ".join(f"{name} {value}" for name, value in list(row.items())[2:]))
    return sum(numbers.values()) / len(numbers)


def _schedule(step: int, steps: int, warm: float) -> float:
    """Warm up, then decay along a cosine."""
    first = max(1, round(warm * steps))
    return (
        (step + 1) / first if step < first else 0.5 + 0.5 * math.cos(math.pi * (step - first) / max(1, steps - first))
    )


def _groups(model: Fusion, recipe: FusionRecipe, stage: str) -> list[dict[str, Any]]:
    """Return parameters with their rates; vectors, scalars and fast parameters have no weight decay."""
    rates = {"slow": recipe.slow, "match": recipe.match_rate, "quick": recipe.quick}
    pace = recipe.later if stage == "finetune" else 1.0
    groups: dict[tuple[str, bool], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        quick = any(part in QUICK for part in name.split("."))
        own = name.startswith("matcher") and "near_image" not in name
        kind = "quick" if quick else "match" if own else "slow"
        groups.setdefault((kind, parameter.ndim > 1 and not quick), []).append(parameter)
    for (kind, _), several in groups.items():
        for parameter in several:
            parameter.requires_grad_(rates[kind] > 0)  # what stays as it is needs no gradient
    return [
        {"params": several, "weight_decay": recipe.decay * decays, "rate": pace * rates[kind]}
        for (kind, decays), several in groups.items()
        if rates[kind] > 0
    ]
