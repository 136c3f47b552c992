"""Evaluate: benchmarks, and how well a ranking does on them."""

__all__: list[str] = []
