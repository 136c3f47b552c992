"""The pace of a training: lines with its speed and the time left, and what is due every few seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

Clock = Callable[[], float]


@dataclass(slots=True)
class Due:
    """True once every ``seconds``, or whenever it is called for ``anyway``; that starts the next interval.

    >>> times = iter([0.0, 30.0, 70.0, 80.0, 90.0])
    >>> due = Due(60, clock=lambda: next(times))
    >>> due(), due(), due(anyway=True), due()
    (False, True, True, False)
    """

    seconds: float
    clock: Clock = time.monotonic
    last: float = field(init=False)

    def __post_init__(self) -> None:
        self.last = self.clock()

    def __call__(self, *, anyway: bool = False) -> bool:
        """Return whether it is time."""
        now = self.clock()
        if not anyway and now - self.last < self.seconds:
            return False
        self.last = now
        return True


@dataclass(slots=True)
class Pace:
    """Reports steps of ``name``; from the second line on with the speed since the line before, and the time left.

    >>> times = iter([0.0, 10.0, 20.0])
    >>> pace = Pace("base", print, clock=lambda: next(times))
    >>> pace(100, 2000), pace(300, 2000), pace(2000, 2000)
    base: step 100 of 2000
    base: step 300 of 2000, 20.0 a second, 1:25 left
    base: step 2000 of 2000, 170.0 a second, 0:00 left
    (None, None, None)
    """

    name: str
    report: Callable[[str], object]
    clock: Clock = time.monotonic
    last: tuple[int, float] | None = field(init=False, default=None)

    def __call__(self, step: int, steps: int) -> None:
        """Report that ``step`` of ``steps`` is done."""
        now, line = self.clock(), f"{self.name}: step {step} of {steps}"
        if self.last is not None and step > self.last[0] and now > self.last[1]:
            speed = (step - self.last[0]) / (now - self.last[1])
            minutes, seconds = divmod(round((steps - step) / speed), 60)
            line += f", {speed:.1f} a second, {minutes}:{seconds:02d} left"
        self.last = step, now
        self.report(line)
