"""The training of fusion: ``train``, on one screen.

Each step draws documents and one kind of query; loss = contrast + choice (which words ask for which side) + matching
+ ranking.
The towers never change, so what they see is computed once (features). Held-out documents decide which weights are kept.

How we differ from the paper, beside what model and objectives say:
1. The towers are frozen. What begins as their vectors moves slowly or not at all, and so does what looks at patches:
   the pictures to learn from are those the towers learned from. The rest of the matcher is faster, scalars are fastest.
2. The queues hold what a slow copy of the model gives (He et al., MoCo, 2020), so that what was let in some steps ago
   still looks as the model sees it now.
3. Some documents lose the part that the query does not ask for, so that documents with one part have their place too.
4. A picture's vector is blurred by what two other pictures differ in: the towers know the pictures they were trained
   on too well. ``noise`` of mini makes training captions find their picture as rarely as those of unseen pictures do.
5. A query about the text sees it beside another document's picture, one about the picture beside another's text:
   else it could be learned which stands beside which.
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
from isthmus.train.fusion.measure import coarse, measured, parted
from isthmus.train.fusion.model import Fusion
from isthmus.train.fusion.recipe import FusionRecipe
from isthmus.train.fusion.run import FusionRun
from isthmus.train.fusion.steps import draw, follow, level, remember, step_loss

QUICK = ("chooser", "balance", "choose", "kind", "scale", "shift", "log_temperature")


def train(
    recipe: FusionRecipe, stages: Mapping[str, FusionLesson], held: FusionLesson, out: Path, *, report: Report = str
) -> Fusion:
    """Train through the stages and return the best weights; ``out`` gets ``log.jsonl`` and a checkpoint.

    Run again it goes on from the checkpoint, as if it had never stopped.
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
    return model.eval()


def _measure(
    model: Fusion, held: FusionLesson, recipe: FusionRecipe, out: Path, when: tuple[str, int], report: Report
) -> float:
    """Measure, write it down and say it; return the mean."""
    numbers = measured(model, held, rerank=bool(recipe.matching))
    if model.query.sides > 1:
        numbers["words parted"] = parted(model, held, MIXED)
    row = {"stage": when[0], "step": when[1], **{kind: round(value, 4) for kind, value in numbers.items()}}
    out.mkdir(parents=True, exist_ok=True)
    checkpoint.log(out, row)
    report(f"{when[0]} {when[1]}: " + ", ".join(f"{name} {value}" for name, value in list(row.items())[2:]))
    return sum(numbers.values()) / len(numbers)


def _schedule(step: int, steps: int, warm: float) -> float:
    """Warm up, then fall along a cosine."""
    first = max(1, round(warm * steps))
    return (
        (step + 1) / first if step < first else 0.5 + 0.5 * math.cos(math.pi * (step - first) / max(1, steps - first))
    )


def _groups(model: Fusion, recipe: FusionRecipe, stage: str) -> list[dict[str, Any]]:
    """Return parameters with their rates; vectors and scalars, and all that is quick, do not decay."""
    rates = {"slow": recipe.slow, "match": recipe.match_rate, "quick": recipe.quick}
    pace = recipe.later if stage == "finetune" else 1.0
    groups: dict[tuple[str, bool], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        quick = any(part in QUICK for part in name.split("."))
        own = name.startswith("matcher") and "near_image" not in name
        kind = "quick" if quick else "match" if own else "slow"
        groups.setdefault((kind, parameter.ndim > 1 and not quick), []).append(parameter)
    return [
        {"params": several, "weight_decay": recipe.decay * decays, "rate": pace * rates[kind]}
        for (kind, decays), several in groups.items()
    ]
