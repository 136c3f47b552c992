"""Words."""

from __future__ import annotations

from isthmus.errors import BadInput
from isthmus.kinds.base import Kind
from isthmus.kinds.names import TEXT


class TextKind(Kind):
    """Words: a string. A span counts characters."""

    name = TEXT
    span = "characters"
    accepts = "a string"

    def check(self, content: object) -> None:
        """Raise ``BadInput`` for what is no string."""
        if not isinstance(content, str):
            raise BadInput(f"has a text of type {type(content).__name__}; it must be a string. Decode bytes first.")

    def is_empty(self, content: str) -> bool:
        """Whether it is empty or has only spaces."""
        return not content or content.isspace()

    def keep(self, content: str) -> str:
        """Replace what UTF-8 cannot hold."""
        return content.encode("utf-8", "replace").decode()  # half of a surrogate pair cannot be stored

    def excerpt(self, content: str, start: float | None, stop: float | None) -> str:
        """Return the characters of a span."""
        return content[None if start is None else int(start) : None if stop is None else int(stop)]
