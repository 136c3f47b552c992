"""Opens the collection that a verb works on."""

from __future__ import annotations

from isthmus.search.collection import Collection


def open_existing(
    into: str, device: str, precision: str, threads: int | None, *, trust_remote_code: bool
) -> Collection:
    """Open a collection that exists, for a verb that calibrates only when it is told to."""
    return Collection.open(
        into,
        create=False,
        follow=False,
        device=device,
        threads=threads,
        precision=precision,
        trust_remote_code=trust_remote_code,
    )
