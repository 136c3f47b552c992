"""A cache of texts that were read: one file each, by the hash of the engine and of the picture's bytes.

A text is stored as soon as it is read, so a run that is killed does not read a picture twice.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from os import PathLike
from pathlib import Path

from isthmus.atomic import replacing
from isthmus.ocr import page
from isthmus.ocr.engine import SURE, engine_version

FOLDER = "page-texts"  # in the user's cache


class TextCache:
    """Lines of text in a folder. Unreadable files are ignored; a folder that cannot be written keeps nothing."""

    def __init__(self, folder: str | PathLike[str]) -> None:
        self.folder = Path(folder).expanduser()

    def get(self, name: str) -> list[str] | None:
        """Return the lines; None if they are missing or damaged."""
        try:
            read = json.loads(self._path(name).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return None
        lines = read.get("lines") if isinstance(read, dict) else None
        good = isinstance(lines, list) and all(isinstance(line, str) for line in lines)
        return lines if good else None

    def put(self, name: str, lines: list[str]) -> None:
        """Store lines atomically."""
        path = self._path(name)
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as draft:
                draft.write_text(json.dumps({"lines": lines}, ensure_ascii=False), encoding="utf-8", errors="replace")

    def _path(self, name: str) -> Path:
        return self.folder / name[:2] / f"{name}.json"


def text_key(data: bytes) -> str:
    """Return the key of a picture's text: of what reads it, and of its bytes."""
    identity = f"{engine_version()}, {SURE}, {page.RULES}\0"
    return hashlib.sha256(identity.encode() + data).hexdigest()
