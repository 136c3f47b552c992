"""Files that are there whole or not at all: written beside their place, then moved over it in one step."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a path to write to; what was written takes the place of ``path`` when the block ends without an error.

    The name is of this call alone, so that threads and processes that write one file do not meet. The content is on the
    disk before it is moved. After an error what was there stays.

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
    """Give a new folder to write into; it takes the place of the folder ``path`` when the block ends without an error.

    After an error what was there stays.
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
