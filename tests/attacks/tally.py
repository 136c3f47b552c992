"""What came of a number of attacks."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

# right     everything asked gave the right answer
# refused   something was refused with an IsthmusError, nothing was wrong
# healed    the damage was noticed and repaired, every answer was right
# reported  a wrong answer was given, and verify() reports the damage
OUTCOMES = ("right", "refused", "healed", "reported")


@dataclass(slots=True)
class Tally:
    """Outcomes by name, and one line for each failure: enough to repeat it."""

    name: str
    outcomes: Counter[str] = field(default_factory=Counter)
    failed: int = 0
    wrong: Counter[str] = field(default_factory=Counter)  # kinds of failures, where they are counted apart
    failures: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # which answers were wrong where verify() reports the damage

    def add(self, outcome: str, case: str = "", problems: list[str] | None = None) -> None:
        """Count one run; with problems it is a failure, whatever its outcome."""
        if problems:
            self.failed += 1
            self.failures.append(f"{case}: {'; '.join(problems)}")
        else:
            self.outcomes[outcome] += 1

    def merge(self, other: Tally) -> None:
        """Add another tally's runs to this one."""
        self.outcomes += other.outcomes
        self.failed += other.failed
        self.wrong += other.wrong
        self.failures += other.failures
        self.notes += other.notes

    @property
    def runs(self) -> int:
        """How many attacks were made."""
        return self.outcomes.total() + self.failed

    def __str__(self) -> str:
        counts = {name: self.outcomes[name] for name in OUTCOMES}
        counts |= {name: count for name, count in sorted(self.outcomes.items()) if name not in OUTCOMES}
        told = "  ".join(f"{name} {count}" for name, count in counts.items())
        kinds = ", ".join(f"{kind} {count}" for kind, count in self.wrong.most_common())
        return f"{self.name:<10} runs {self.runs}  {told}  FAILED {self.failed}" + (f" ({kinds})" if kinds else "")
