"""The prompts of captioners and rewriters: a text file each, which users can replace."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files
from os import PathLike
from pathlib import Path

from isthmus.errors import BadInput


@dataclass(frozen=True, slots=True)
class Prompt:
    """The prompt of a model. Lines that start with # are comments."""

    text: str

    @property
    def digest(self) -> str:
        """A hash of the prompt, part of the cache key of captions."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]


def read(name: str, instead: str | PathLike[str] | None = None, *, words: int = 200) -> Prompt:
    """Return a prompt by name, or from the user's file. The prompt of FORGE asks for at most ``words``.

    >>> "at most 50 words" in read("forge", words=50).text
    True
    """
    if instead is None:
        ours = files(__name__).joinpath(f"{name}.txt").read_text(encoding="utf-8")
        return _prompt(ours.replace("200 words", f"{words} words"))
    try:
        said = _prompt(Path(instead).expanduser().read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BadInput(f"The prompt {instead} cannot be read: {reason}. Pass the path of a UTF-8 text file.") from None
    if not said.text:
        raise BadInput(f"The prompt {instead} is empty. Write what the model should do, or use the default prompt.")
    return said


def _prompt(text: str) -> Prompt:
    return Prompt("\n".join(line for line in text.splitlines() if not line.startswith("#")).strip())
