"""What services were asked and charged for: requests, tokens, searches, and money where the user gives prices."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock

from isthmus.errors import BadInput, counted

PRICES = "ISTHMUS_HTTP_PRICES"  # MODEL=NUMBER,…: of a million tokens, or of a thousand search units


@dataclass(slots=True, eq=False)
class HttpUsage:
    """What was asked of a model of a service so far: requests that were answered, and what it charged for.

    >>> usage = HttpUsage(price=0.02)
    >>> usage.add(tokens=1_500)
    >>> print(usage)
    1 request, 1,500 tokens, 0.00003 at the given price
    """

    requests: int = 0
    tokens: int = 0
    searches: int = 0  # what Cohere's rerankers charge for
    price: float | None = None
    _lock: Lock = field(default_factory=Lock, repr=False)

    def add(self, tokens: int, searches: int = 0) -> None:
        """Count one request."""
        with self._lock:
            self.requests += 1
            self.tokens += tokens
            self.searches += searches

    @property
    def cost(self) -> float | None:
        """The money it cost, in the currency of the price; None without a price."""
        return None if self.price is None else self.tokens * self.price / 1e6 + self.searches * self.price / 1e3

    def __str__(self) -> str:
        said = [counted(self.requests, "request")]
        said += [counted(self.tokens, "token")] if self.tokens or not self.searches else []
        said += [counted(self.searches, "search unit")] if self.searches else []
        if self.cost is not None:
            said.append(f"{_plain(self.cost)} at the given price")
        return ", ".join(said)


def _plain(cost: float) -> str:
    """Write an amount without an exponent, however small.

    >>> _plain(12.5), _plain(0.0), _plain(0.0000123)
    ('12.5', '0', '0.0000123')
    """
    return f"{cost:.12f}".rstrip("0").rstrip(".") if cost < 1 else f"{cost:,.4f}".rstrip("0").rstrip(".")


def prices() -> Mapping[str, float]:
    """Return the prices that the environment gives, by model."""
    found: dict[str, float] = {}
    for each in filter(None, map(str.strip, os.environ.get(PRICES, "").split(","))):
        model, equals, number = each.rpartition("=")
        try:
            price = float(number)
        except ValueError:
            price = -1.0
        if not (equals and model and 0 <= price < float("inf")):
            raise BadInput(
                f"{PRICES} has {each!r}. Write MODEL=NUMBER,…: of a million tokens, or of a thousand search units."
            )
        found[model.strip()] = price
    return found
