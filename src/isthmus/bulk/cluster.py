"""A Ray cluster: functions run on its machines, and run again elsewhere if a machine or a process is lost."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, TypeVar

from isthmus._optional import need
from isthmus.bulk.encoder import ClusterEncoder
from isthmus.encoders import Encoder
from isthmus.encoders.families import find_family
from isthmus.encoders.runtime import Runtime
from isthmus.errors import BadInput, CannotReach, IsthmusError, UnknownName

EXTRA = "ray"
LOCAL = "local"
SECONDS = 10  # until a cluster counts as out of reach
RETRIES = 8  # how often work is started again after a process or a machine was lost
PER_CORE = 2  # pieces of work on their way for each core: the next is there when one is done

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(slots=True, eq=False)
class Cluster:
    """A connection to a cluster; use it in a ``with`` block.

    ``address``: ``local`` starts Ray on this machine, ``auto`` joins the cluster that this machine belongs to,
    ``host:port`` another. Every machine needs the same version of isthmus and of Ray. ``cores`` and ``gpus`` are what
    one piece of work takes.
    """

    address: str = LOCAL
    cores: float = 1
    gpus: float = 0
    _started: bool = field(default=False, init=False, repr=False)
    _call: Any = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.cores <= 0 or self.gpus < 0:
            raise BadInput(f"cores={self.cores} and gpus={self.gpus} are not what work can take. Use cores=1, gpus=0.")

    def __enter__(self) -> Cluster:
        ray = need("ray", extra=EXTRA)
        if not ray.is_initialized():
            try:
                _knock(self.address)
                quiet = {"include_dashboard": False} if self.address == LOCAL else {}
                ray.init(address=self.address, log_to_driver=False, logging_level="ERROR", **quiet)
            except (OSError, ValueError, RuntimeError) as error:
                raise CannotReach(
                    f"No Ray cluster answers at {self.address!r} ({error}). Start one with `ray start --head`, or use "
                    f"{LOCAL!r}."
                ) from None
            self._started = True
        self._call = ray.remote(num_cpus=self.cores, num_gpus=self.gpus, max_retries=RETRIES)(_called)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._started:
            need("ray", extra=EXTRA).shutdown()
            self._started = False

    @property
    def width(self) -> int:
        """How many pieces of work run at the same time."""
        there = need("ray", extra=EXTRA).cluster_resources()
        fitting = [int(there.get("CPU", 1) / self.cores)]
        fitting += [int(there.get("GPU", 0) / self.gpus)] if self.gpus else []
        return max(1, min(fitting))

    def share(self, value: object) -> Any:
        """Send a value to the cluster once; the reference stands for it in ``start``."""
        return need("ray", extra=EXTRA).put(value)

    def start(self, work: Any, item: object) -> Any:
        """Start ``work(item)`` somewhere; ``work`` was shared. ``result`` waits for what this returns."""
        return self._call.remote(work, item)

    def result(self, started: Any) -> Any:
        """Wait for started work. Its own errors are raised here."""
        ray = need("ray", extra=EXTRA)
        try:
            return ray.get(started)
        except ray.exceptions.RayTaskError as error:
            raise (error.cause if isinstance(error.cause, IsthmusError) else error) from None
        except ray.exceptions.RayError as error:
            raise CannotReach(
                f"The cluster at {self.address!r} lost work {RETRIES} times ({type(error).__name__}). Check its "
                "machines (`ray status`), and run the same command again: what is stored is not done again."
            ) from None

    def map(self, work: Callable[[Item], Result], items: Iterable[Item], /) -> Iterator[Result]:
        """Call ``work`` with each item, on all machines, and yield the results in order, a few of them ahead."""
        shared, room = self.share(work), PER_CORE * self.width
        started: deque[Any] = deque()
        for item in items:
            started.append(self.start(shared, item))
            if len(started) >= room:
                yield self.result(started.popleft())
        while started:
            yield self.result(started.popleft())

    def around(self, encoder: Encoder, name: str, runtime: Runtime) -> ClusterEncoder:
        """Return an encoder whose documents are encoded on the cluster: by its name there, or by a copy of it."""
        return ClusterEncoder.of(self, encoder, (name, replace(runtime, pool=None)) if _is_name(name) else encoder)


def _knock(address: str) -> None:
    """Raise an error if nothing listens at ``host:port``: Ray itself would try for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon:
        socket.create_connection((host, int(port)), timeout=SECONDS).close()


def _called(work: Callable[[Any], Any], item: Any) -> Any:
    return work(item)


def _is_name(name: str) -> bool:
    """Whether an encoder can be loaded by its name elsewhere."""
    from isthmus.encoders import KINDS

    try:
        return bool(find_family(KINDS, name.partition(":")[0]))
    except UnknownName:
        return False
