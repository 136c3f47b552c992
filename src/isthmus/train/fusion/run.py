"""What a training has come to: all that it takes to go on after an interruption, as if there had been none."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from isthmus.errors import BadInput
from isthmus.train import noise
from isthmus.train.fusion.model import Fusion
from isthmus.train.fusion.queues import Queue
from isthmus.train.fusion.recipe import Recipe


@dataclass(slots=True, eq=False)
class Run:
    """A model in training, its slow copy, the queues, and the best weights so far."""

    recipe: Recipe
    stages: tuple[str, ...]
    model: Fusion
    rng: torch.Generator
    stage: int = 0
    step: int = 0  # of the stage
    best: float = -1.0
    kept: dict[str, Tensor] = field(default_factory=dict)
    slow: Fusion = field(init=False)
    queues: tuple[Queue, Queue] = field(init=False)
    _optimiser: Any = None  # the state that waits for its optimiser

    def __post_init__(self) -> None:
        self.slow = copy.deepcopy(self.model).eval()
        self._empty()

    def begin(self, stage: int, optimiser: torch.optim.Optimizer) -> None:
        """Begin a stage, or go on with the one that was interrupted."""
        if stage != self.stage:
            self.stage, self.step = stage, 0
            self._empty()
        if self._optimiser is not None:
            optimiser.load_state_dict(self._optimiser)
            self._optimiser = None

    def weigh(self, found: float) -> None:
        """Keep the weights if they are the best so far."""
        if found > self.best:
            self.best = found
            self.kept = {name: tensor.detach().cpu().clone() for name, tensor in self.model.state_dict().items()}

    def save(self, out: Path, step: int, optimiser: torch.optim.Optimizer) -> None:
        """Write the checkpoint beside its place, then move it there: an interruption leaves the one before."""
        self.step = step
        state = {
            "recipe": repr(self.recipe),
            "done": [self.stage, self.step, self.best],
            "kept": self.kept,
            "model": self.model.state_dict(),
            "slow": self.slow.state_dict(),
            "queues": [[queue.vectors, queue.ids] for queue in self.queues],
            "optimiser": optimiser.state_dict(),
            "draws": [self.rng.get_state(), noise.state()],
        }
        torch.save(state, out / "checkpoint.tmp")
        (out / "checkpoint.tmp").replace(out / "checkpoint.pt")

    def resume(self, out: Path) -> bool:
        """Take up what a checkpoint says, if there is one; lines of the log that came after it go."""
        path, log = out / "checkpoint.pt", out / "log.jsonl"
        if not path.exists():
            log.unlink(missing_ok=True)
            return False
        device = next(self.model.parameters()).device
        saved = torch.load(path, map_location=device, weights_only=True)
        if saved["recipe"] != repr(self.recipe):
            raise BadInput(f"{path} is of another recipe, {saved['recipe']}. Go on with that one, or write elsewhere.")
        self.stage, self.step, self.best = saved["done"]
        self.kept = {name: tensor.cpu() for name, tensor in saved["kept"].items()}
        self.model.load_state_dict(saved["model"])
        self.slow.load_state_dict(saved["slow"])
        for queue, (vectors, ids) in zip(self.queues, saved["queues"], strict=True):
            queue.vectors, queue.ids = vectors, ids
        self._optimiser = saved["optimiser"]
        own, others = saved["draws"]
        self.rng.set_state(own.cpu())
        noise.restore(others)
        self._trim(log)
        return True

    def _trim(self, log: Path) -> None:
        stages, done = ("start", *self.stages), (self.stage + 1, self.step)
        lines = log.read_text().splitlines(keepends=True) if log.exists() else []
        rows = [json.loads(line) for line in lines]
        places = [(stages.index(row["stage"]), row["step"]) for row in rows]
        log.write_text("".join(line for line, place in zip(lines, places, strict=True) if place <= done))

    def _empty(self) -> None:
        self.queues = Queue(self.recipe.queue), Queue(self.recipe.queue)
