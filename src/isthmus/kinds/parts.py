"""Parts of documents and queries: a kind and its content, and their JSON form."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

from isthmus.errors import BadInput, shown
from isthmus.kinds.base import FileKind, FileLike
from isthmus.kinds.image import ImageLike
from isthmus.kinds.names import AUDIO, IMAGE, TEXT, VIDEO, with_article
from isthmus.kinds.table import get, stored

_set = object.__setattr__  # of parts, which never change otherwise


class Part:
    """One part of a document or a query: its kind and its content. It never changes.

    >>> Part("text", "a dog on the grass") == Text("a dog on the grass")
    True
    """

    __slots__ = ("content", "kind")

    kind: str
    content: Any

    def __init__(self, kind: str, content: Any) -> None:
        get(kind).check(content)
        _set(self, "kind", kind)
        _set(self, "content", content)

    @classmethod
    def restored(cls, kind: str, content: str | bytes) -> Part:
        """Return a part that a collection holds, without the checks of a new one."""
        part = object.__new__(cls)
        _set(part, "kind", kind)
        _set(part, "content", content)
        return part

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"A part never changes; make another one instead of setting {name}.")

    def __reduce__(self) -> tuple[Any, ...]:
        return Part.restored, (self.kind, self.content)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Part):
            return NotImplemented
        return self.kind == other.kind and stored(self.kind).same(self.content, other.content)

    def __hash__(self) -> int:
        return hash((self.kind, self.content if isinstance(self.content, str) else None))

    def __repr__(self) -> str:
        return f"Part({self.kind!r}, {self.shown})"

    @property
    def shown(self) -> str:
        """Its content in at most a line."""
        return stored(self.kind).show(self.content)

    def to_json(self, *, inline: bool = True) -> dict[str, str | None]:
        """Return the JSON form: ``kind``, and ``content`` (a text, or bytes as a data: URI) or ``path``.

        Without ``inline``, bytes are left out.

        >>> Image(b"...").to_json()
        {'kind': 'image', 'content': 'data:;base64,Li4u', 'path': None}
        """
        content, path = self.content, self.path
        if isinstance(content, bytes):
            content = f"data:;base64,{b64encode(content).decode()}" if inline else None
        elif path is not None:
            content = None
        elif not isinstance(content, str):
            raise BadInput(f"{self.shown} cannot be written as JSON. Give its path, or the bytes of its file.")
        return {"kind": self.kind, "content": content, "path": path}

    @classmethod
    def from_json(cls, form: object, folder: str | PathLike[str] = "") -> Part:
        """Read the JSON form; a path is relative to ``folder``."""
        if not isinstance(form, Mapping) or not {"kind"} <= form.keys() <= {"kind", "content", "path"}:
            raise BadInput(f"has a part that is {shown(form)}. Write {{'kind': 'image', 'path': 'a.jpg'}}, or content.")
        kind, content, path = form["kind"], form.get("content"), form.get("path")
        known = get(kind)
        if (content is None) == (path is None):
            raise BadInput(f"has a part of kind {shown(kind)} without content or path, or with both. Give one.")
        if path is not None and not isinstance(path, str):
            raise BadInput(f"has a path that is {shown(path)}, not a string.")
        if path is not None:
            return Part(kind, str(Path(folder, path)))
        if isinstance(known, FileKind):
            if not isinstance(content, str) or not content.startswith("data:"):
                raise BadInput(
                    f"has {with_article(kind)} whose content is {shown(content)}, no data: URI. Give its path."
                )
            return Part(kind, from_uri(content))
        return Part(kind, content)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing in it."""
        return stored(self.kind).is_empty(self.content)

    @property
    def path(self) -> str | None:
        """The file that it stands for; None where the content is held inline."""
        return stored(self.kind).path(self.content)


class Text(Part):
    """A part of words."""

    __slots__ = ()

    def __init__(self, content: str) -> None:
        super().__init__(TEXT, content)


class Image(Part):
    """A picture: a path, the bytes of a file, a Pillow image or an array."""

    __slots__ = ()

    def __init__(self, content: ImageLike) -> None:
        super().__init__(IMAGE, content)


class Audio(Part):
    """A sound: a path, or the bytes of a file."""

    __slots__ = ()

    def __init__(self, content: FileLike) -> None:
        super().__init__(AUDIO, content)


class Video(Part):
    """A film: a path, or the bytes of a file. Its sound track is no part of it; give the same file as ``Audio``."""

    __slots__ = ()

    def __init__(self, content: FileLike) -> None:
        super().__init__(VIDEO, content)


def from_uri(uri: str) -> bytes:
    """Return the bytes of a data: URI."""
    head, _, body = uri.partition(",")
    data = unquote_to_bytes(body)
    try:
        return b64decode(data, validate=True) if head.endswith(";base64") else data
    except ValueError:
        raise BadInput("has an image in a data: URI that is not base64. Write it again") from None
