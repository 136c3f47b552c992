"""The state of a training: everything needed to resume with the same result."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import torch
from torch import Tensor, nn

from isthmus.errors import BadInput
from isthmus.train import checkpoint, noise
from isthmus.train.checkpoint import LOG
from isthmus.train.fusion.queues import Queue


class QueuedRecipe(Protocol):
    """The settings of a training with queues: a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def queue(self) -> int: ...  # noqa: D102


Model = TypeVar("Model", bound=nn.Module)
Recipe = TypeVar("Recipe", bound=QueuedRecipe)


@dataclass(slots=True, eq=False)
class FusionRun(Generic[Model, Recipe]):
    """A model in training, its momentum copy, the queues, and the best weights so far.

    ``copied=False`` is for a training without a momentum copy: ``slow`` is then the model itself.
    """

    recipe: Recipe
    lessons: str  # a digest of the training data
    model: Model
    rng: torch.Generator
    stage: int = 0
    step: int = 0  # of the stage; or epoch
    best: float = -1.0
    kept: dict[str, Tensor] = field(default_factory=dict)
    copied: bool = True
    slow: Model = field(init=False)
    queues: tuple[Queue, Queue] = field(init=False)
    _optimiser: Any = None  # the saved state, until the optimiser exists

    def __post_init__(self) -> None:
        self.slow = copy.deepcopy(self.model).eval() if self.copied else self.model
        self._empty()

    def begin(self, stage: int, optimiser: torch.optim.Optimizer) -> None:
        """Start a stage, or resume the interrupted one."""
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
        """Write the checkpoint."""
        self.step = step
        state = {
            "recipe": asdict(self.recipe),
            "lessons": self.lessons,
            "device": self.rng.device.type,
            "done": [self.stage, self.step, self.best],
            "kept": self.kept,
            "model": self.model.state_dict(),
            "slow": self.slow.state_dict() if self.copied else {},
            "queues": [[queue.vectors, queue.ids] for queue in self.queues],
            "optimiser": optimiser.state_dict(),
            "draws": [self.rng.get_state(), noise.state()],
            "log": (out / LOG).read_text(),
        }
        checkpoint.save(out, state)

    def resume(self, out: Path) -> bool:
        """Load a checkpoint, if there is one, and truncate the log to it."""
        saved = checkpoint.load(out, self.rng.device)
        if saved is None:
            (out / LOG).unlink(missing_ok=True)
            return False
        self._check(out / checkpoint.CHECKPOINT, saved)
        self.stage, self.step, self.best = saved["done"]
        self.kept = {name: tensor.cpu() for name, tensor in saved["kept"].items()}
        self.model.load_state_dict(saved["model"])
        if self.copied:
            self.slow.load_state_dict(saved["slow"])
        for queue, (vectors, ids) in zip(self.queues, saved["queues"], strict=True):
            queue.vectors, queue.ids = vectors, ids
        self._optimiser = saved["optimiser"]
        own, others = saved["draws"]
        self.rng.set_state(own.cpu())
        noise.restore(others)
        (out / LOG).write_text(saved["log"])
        return True

    def _check(self, path: Path, saved: Mapping[str, Any]) -> None:
        """Reject a checkpoint of another training."""
        before, now = saved["recipe"], asdict(self.recipe)
        other = [f"{name} ({before[name]}, now {now[name]})" for name in checkpoint.changed(before, now)]
        other += ["data or towers"] * (saved["lessons"] != self.lessons)
        other += [f"device ({saved['device']})"] * (saved["device"] != self.rng.device.type)
        if other:
            raise BadInput(
                f"{path} is of a training with another {', '.join(other)}. Continue with that, or write to another "
                "folder."
            )

    def _empty(self) -> None:
        self.queues = Queue(self.recipe.queue), Queue(self.recipe.queue)
