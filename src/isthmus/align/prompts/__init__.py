"""The prompts of captioners and rewriters: a text file each, which a user can put another in place of."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files
from os import PathLike
from pathlib import Path

from isthmus.errors import BadInput


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a model is told. Lines that begin with # are for people."""

    text: str

    @property
    def digest(self) -> str:
        """What tells it from others; captions are kept under it."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]


def read(name: str, instead: str | PathLike[str] | None = None) -> Prompt:
    """Return a prompt by its name, or that of the file a user gives instead.

    >>> "200 words" in read("forge").text
    True
    """
    if instead is None:
        return _prompt(files(__name__).joinpath(f"{name}.txt").read_text(encoding="utf-8"))
    try:
        said = _prompt(Path(instead).expanduser().read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BadInput(f"The prompt {instead} cannot be read: {reason}. Give the path of a UTF-8 text file.") from None
    if not said.text:
        raise BadInput(f"The prompt {instead} is empty. Write what the model should do, or leave it out.")
    return said


def _prompt(text: str) -> Prompt:
    return Prompt("\n".join(line for line in text.splitlines() if not line.startswith("#")).strip())
