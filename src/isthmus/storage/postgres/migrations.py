"""Migrate the tables of an older version, step by step.

``MIGRATIONS[n]`` turns tables of version n into those of version n + 1. The SQL of a step is frozen: it names tables as
they were then, not as ``schema`` has them now. All steps run in one transaction.
"""

from __future__ import annotations

from collections.abc import Callable

from isthmus.storage.postgres.pool import Connection

MIGRATIONS: dict[int, Callable[[Connection], None]] = {}  # version 1 is the first
