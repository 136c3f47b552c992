"""Rows of a benchmark's table: what was measured, and the target that it must meet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """A measurement; ``least`` and ``most`` are its target, if it has one."""

    name: str
    value: float | None
    least: float | None = None
    most: float | None = None

    @property
    def met(self) -> bool:
        """Whether the target is met; what could not be measured (NaN) does not meet any."""
        value = float("nan") if self.value is None else self.value
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)

    def __str__(self) -> str:
        """Write the row as Markdown."""
        targets = (("≥", self.least), ("≤", self.most))
        aim = " ".join(f"{sign} {target:g}" for sign, target in targets if target is not None)
        said = "not measured" if self.value is None else f"{self.value:.2f}".removesuffix(".00")
        return f"| {self.name} | {said} | {aim} | {'' if not aim else 'yes' if self.met else 'no'} |"


def told(rows: Iterable[Row]) -> bool:
    """Print rows while they are measured; return whether all met their targets."""
    print("| | value | target | met |\n| --- | ---: | ---: | --- |")
    met = True
    for row in rows:
        print(row, flush=True)
        met = met and row.met
    return met
