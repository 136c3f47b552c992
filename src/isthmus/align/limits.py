"""How long a rewrite may be: a file beside a trained rewriter's prompt, so that what is trained is what is served."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from isthmus.errors import BadFile, BadInput

FILE = "limits.json"


@dataclass(frozen=True, slots=True)
class Limits:
    """The most ``tokens`` that a model writes and the most ``words`` of a rewrite; the defaults are BRIDGE's.

    >>> Limits()
    Limits(tokens=256, words=200)
    >>> Limits(words=0)
    Traceback (most recent call last):
    isthmus.errors.BadInput: The words of a rewrite must be a whole number of at least 1, not 0.
    """

    tokens: int = 256
    words: int = 200

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if type(value) is not int or value < 1:
                raise BadInput(f"The {name} of a rewrite must be a whole number of at least 1, not {value!r}.")

    @classmethod
    def read(cls, folder: Path) -> Limits | None:
        """Return the limits of the model in a folder; None if it has none."""
        path = folder / FILE
        if not path.is_file():
            return None
        try:
            return cls(**json.loads(path.read_text("utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise BadFile(f'{path} cannot be read: {error}. Write {{"tokens": 256, "words": 200}}.') from None

    def write(self, folder: Path) -> None:
        """Write the limits into the folder of a model."""
        (folder / FILE).write_text(json.dumps(asdict(self)) + "\n", "utf-8")
