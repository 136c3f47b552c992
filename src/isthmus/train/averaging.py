"""The training loop of ``base`` and ``mini``: steps of an optimiser, a running average of the weights, checkpoints."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

import torch
from torch import Tensor, nn

from isthmus.train import checkpoint
from isthmus.train.pace import Due
from isthmus.train.schedule import cosine, follow

Module = TypeVar("Module", bound=nn.Module)
Loss = Callable[[torch.Generator], tuple[Tensor, Mapping[str, Tensor]]]
LARGEST_GRADIENT = 5.0
SAVED, TOLD = 60.0, 10.0  # seconds between two checkpoints, and between two lines of progress, at most


class AveragedRecipe(Protocol):
    """The settings of the loop: a dataclass with these among them."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def steps(self) -> int: ...  # noqa: D102
    @property
    def average(self) -> float: ...  # noqa: D102
    @property
    def seed(self) -> int: ...  # noqa: D102


def train_averaged(
    module: Module,
    optimiser: torch.optim.Optimizer,
    loss: Loss,
    recipe: AveragedRecipe,
    out: Path,
    *,
    every: int,
    progress: Callable[[int, int], None] | None = None,
) -> Module:
    """Train a module and return the running average of its weights; resume from the checkpoint in ``out``.

    ``loss`` draws a batch with the generator, and returns its loss and what to log every ``every`` steps. Checkpoints
    and lines of progress come that often, and after some time.
    """
    device = next(module.parameters()).device
    average = copy.deepcopy(module).requires_grad_(False)
    rates = [group["lr"] for group in optimiser.param_groups]
    rng = torch.Generator(device).manual_seed(recipe.seed)
    out.mkdir(parents=True, exist_ok=True)
    settings = asdict(recipe)
    step = checkpoint.resume(out, [module, average], optimiser, rng, settings)
    save, tell = Due(SAVED), Due(TOLD)
    module.train()
    while step < recipe.steps:
        for group, rate in zip(optimiser.param_groups, rates, strict=True):
            group["lr"] = rate * cosine(step, recipe.steps)
        value, shown = loss(rng)
        optimiser.zero_grad(set_to_none=True)
        value.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(module.parameters(), LARGEST_GRADIENT)
        optimiser.step()
        step += 1
        follow(average, module, min(recipe.average, step / (step + 10)))
        logged = step % every == 0 or step == recipe.steps
        if logged:
            checkpoint.log(out, {"step": step, **{name: round(each.item(), 4) for name, each in shown.items()}})
        if save(anyway=logged):
            checkpoint.keep(out, step, [module, average], optimiser, rng, settings)
        if tell(anyway=logged) and progress is not None:
            progress(step, recipe.steps)
    return average.eval()
