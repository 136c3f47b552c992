"""Constants that `bench/plan.py` measured, with the machine, the day and the command (``measured.json``)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

FILE = Path(__file__).parent / "measured.json"


@dataclass(frozen=True, slots=True)
class Constants:
    """Bytes and rates, and where they come from."""

    command: str
    machine: str
    cores: int
    date: str
    values: Mapping[str, float]

    def of(self, name: str) -> float:
        """Return a value by its name."""
        return self.values[name]

    def rate(self, name: str, cores: int) -> float:
        """Return a rate for a machine with more or fewer cores; it is taken to grow with them."""
        return self.values[name] * cores / self.cores


@cache
def measured() -> Constants:
    """Read the constants of the package."""
    read = json.loads(FILE.read_text(encoding="utf-8"))
    values = MappingProxyType({name: float(value) for name, value in read["values"].items()})
    return Constants(read["command"], read["machine"], int(read["cores"]), read["date"], values)
