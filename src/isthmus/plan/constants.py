"""Constants that `bench/plan.py` and `bench/engines.py` measured, with machine, day and command (``measured.json``)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

FILE = Path(__file__).parent / "measured.json"


@dataclass(frozen=True, slots=True)
class Measurement:
    """Bytes and rates of one run, and where they come from."""

    command: str
    machine: str
    cores: int
    date: str
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Constants:
    """What was measured, by the name of the engine."""

    measurements: Mapping[str, Measurement]

    def of(self, name: str) -> float:
        """Return a value by its name."""
        return self._with(name).values[name]

    def rate(self, name: str, cores: int) -> float:
        """Return a rate for a machine with more or fewer cores; it is taken to grow with them."""
        found = self._with(name)
        return found.values[name] * cores / found.cores

    def _with(self, name: str) -> Measurement:
        return next(one for one in self.measurements.values() if name in one.values)


@cache
def measured() -> Constants:
    """Read the constants of the package."""
    read = json.loads(FILE.read_text(encoding="utf-8"))
    return Constants(MappingProxyType({name: _measurement(**one) for name, one in read.items()}))


def _measurement(command: str, machine: str, cores: int, date: str, values: Mapping[str, float]) -> Measurement:
    return Measurement(command, machine, cores, date, MappingProxyType(dict(values)))
