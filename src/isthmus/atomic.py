"""Atomic writes: a file is written under a temporary name in the same folder, then renamed in one step."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a path to write to; it replaces ``path`` when the block ends without an error.

    The name is unique, so that threads and processes can write the same file. The content is on disk before the rename.
    After an error ``path`` is unchanged.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder, "a.txt")) as draft:
    ...         count = draft.write_text("whole")
    ...     os.listdir(folder)
    ['a.txt']
    """
    target = Path(path)
    draft = target.with_name(f"{target.name}.{secrets.token_hex(8)}.tmp")
    try:
        yield draft
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def replacing_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a new folder to write into; it replaces the folder ``path`` when the block ends without an error.

    After an error ``path`` is unchanged.
    """
    target = Path(path)
    draft, old = (target.with_name(f"{target.name}.{secrets.token_hex(8)}.{end}") for end in ("tmp", "old"))
    try:
        draft.mkdir(parents=True)
        yield draft
        if target.exists():
            target.replace(old)
        try:
            draft.replace(target)
        except OSError:
            if old.exists():
                old.replace(target)
            raise
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
