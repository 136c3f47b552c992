"""The kinds of parts that documents and queries are made of: one table.

A kind says how content is checked, stored, hashed, compared and shown, and what the span of a segment measures. Nothing
else in isthmus lists kinds: a kind that is registered here can be indexed, searched, calibrated and exported, given an
encoder that reads it.

>>> class Tone(Kind):
...     name = "tone"
...     span = "seconds"
>>> register(Tone())
>>> Part("tone", b"...")
Part('tone', <3 bytes>)
>>> unregister("tone")

Packages register theirs by an entry point of the group ``isthmus.kinds`` that names an instance of ``Kind``.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias
from urllib.parse import unquote_to_bytes

import numpy as np

from isthmus.budget import MEDIA_BYTES, PICTURE_BYTES
from isthmus.errors import BadImage, BadInput, shown
from isthmus.files import digest_regular
from isthmus.registry import lookup
from isthmus.types import part_name

if TYPE_CHECKING:
    from PIL.Image import Image as Pillow

# A path, the bytes of a file, a Pillow image, or an array (height, width[, 3 or 4]).
ImageLike: TypeAlias = "str | PathLike[str] | bytes | Pillow | np.ndarray[Any, Any]"
FileLike: TypeAlias = str | PathLike[str] | bytes  # a path, or the bytes of a file

TEXT = "text"
IMAGE = "image"
AUDIO = "audio"
VIDEO = "video"
SECONDS = "seconds"  # what a span of a sound or a video measures
GROUP = "isthmus.kinds"  # of entry points
SUFFIX = re.compile(r"\.[a-z0-9_-]+")
PNG_MODES = ("1", "L", "LA", "I", "I;16", "P", "RGB", "RGBA")  # of Pillow's, those that a PNG keeps as they are


class Kind:
    """One kind of content. The defaults take strings (inline content) and bytes.

    Subclass it, set ``name``, and override what differs; ``register`` an instance.
    """

    name: ClassVar[str]
    span: ClassVar[str] = ""  # what the span of a segment measures: "characters", "page", "seconds"
    suffixes: ClassVar[tuple[str, ...]] = ()  # of files that `index` makes documents of, as in (".tone",)
    accepts: ClassVar[str] = "a string or bytes"
    cost: ClassVar[int] = 1  # of a batch, in texts: content that is slow to encode costs more
    needs: ClassVar[str | None] = None  # a module without which its files cannot be read

    def check(self, content: object) -> None:
        """Raise ``BadInput`` for content of another type; the message continues "Document 'a' …"."""
        if not isinstance(content, str | bytes):
            raise BadInput(f"has {with_article(self.name)} of type {type(content).__name__}. Give {self.accepts}.")

    def is_empty(self, content: Any) -> bool:
        """Whether there is nothing in it, so that it is no part."""
        return not len(content)

    def keep(self, content: Any) -> str | bytes:
        """Return the content as it is stored: a string (text, a path) or the bytes themselves."""
        return content if isinstance(content, bytes) else str(content)

    def digest(self, kept: str | bytes) -> bytes | None:
        """Hash stored content; None where it cannot be read, so that it is never taken for unchanged."""
        return hashlib.sha256(kept if isinstance(kept, bytes) else kept.encode()).digest()

    def same(self, one: Any, other: Any) -> bool:
        """Whether two contents are equal."""
        return type(one) is type(other) and bool(one == other)

    def show(self, content: Any) -> str:
        """Write content for a line of a message or a report."""
        return f"<{len(content):,} bytes>" if isinstance(content, bytes) else shown(content)

    def excerpt(self, content: Any, start: float | None, stop: float | None) -> str | None:  # noqa: ARG002
        """Return the words of a span; None for content without words."""
        return None

    def path(self, content: Any) -> str | None:  # noqa: ARG002
        """Return the file that content stands for; None for content that is held inline."""
        return None


class _Text(Kind):
    """Words: a string. A span counts characters."""

    name = TEXT
    span = "characters"
    accepts = "a string"

    def check(self, content: object) -> None:
        if not isinstance(content, str):
            raise BadInput(f"has a text of type {type(content).__name__}; it must be a string. Decode bytes first.")

    def is_empty(self, content: str) -> bool:
        return not content or content.isspace()

    def keep(self, content: str) -> str:
        return content.encode("utf-8", "replace").decode()  # half of a surrogate pair cannot be stored

    def excerpt(self, content: str, start: float | None, stop: float | None) -> str:
        return content[None if start is None else int(start) : None if stop is None else int(stop)]


class FileKind(Kind):
    """Content of files: a path, or the bytes of a file. Nothing is read before it is needed."""

    accepts = "a path or the bytes of a file"
    cost = 2
    largest: ClassVar[int] = PICTURE_BYTES  # bytes of a file

    def check(self, content: object) -> None:
        """Raise ``BadInput`` for what is neither a path nor bytes."""
        if not isinstance(content, str | PathLike | bytes):
            raise BadInput(f"has {with_article(self.name)} of type {type(content).__name__}. Give {self.accepts}.")
        if isinstance(content, str | bytes) and not content:
            raise BadInput(
                f"has {with_article(self.name)} of length zero. Give a path or the bytes of a file, or leave it out."
            )

    def is_empty(self, content: Any) -> bool:  # noqa: ARG002
        """Return False: what is in a file is not known before it is read."""
        return False

    def keep(self, content: Any) -> str | bytes:
        """Make a path absolute."""
        if isinstance(content, bytes):
            return content
        path: str = os.path.abspath(content)  # noqa: PTH100 - resolve() would follow links; a name stays what it is
        return path

    def digest(self, kept: str | bytes) -> bytes | None:
        """Hash the bytes of the file."""
        if isinstance(kept, bytes):
            return hashlib.sha256(kept).digest()
        try:
            return digest_regular(kept, self.largest)
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.EISDIR):
                raise BadInput(f"its {self.name} {kept} is not a regular file. Give the path of a file.") from None
            return None  # the encoder says why it cannot be read
        except ValueError:
            return None

    def same(self, one: Any, other: Any) -> bool:
        """Whether two paths are equal, or two contents."""
        if isinstance(one, str | PathLike) and isinstance(other, str | PathLike):
            return Path(one) == Path(other)
        return super().same(one, other)

    def show(self, content: Any) -> str:
        """Write the path, or how many bytes there are."""
        return shown(str(content)) if isinstance(content, PathLike) else super().show(content)

    def path(self, content: Any) -> str | None:
        """Return the path; None for bytes."""
        return os.fspath(content) if isinstance(content, str | PathLike) else None


class _Image(FileKind):
    """A picture: a path, the bytes of a file, a Pillow image or an array."""

    name = IMAGE
    accepts = "a path, the bytes of a file, a Pillow image or an array (height, width[, 3 or 4])"

    def check(self, content: object) -> None:
        if not isinstance(content, np.ndarray) and not _is_pillow(content):
            super().check(content)

    def keep(self, content: Any) -> str | bytes:
        """Make a path absolute; encode pixels in memory as PNG."""
        if isinstance(content, str | PathLike | bytes):
            return super().keep(content)
        from isthmus.isolated.picture import from_array  # late: few need it

        out = io.BytesIO()
        try:
            picture = from_array(content) if isinstance(content, np.ndarray) else content
            if picture.mode not in PNG_MODES:
                picture = picture.convert("RGB")
            picture.save(out, "PNG")
        except (OSError, ValueError, TypeError, SyntaxError) as error:
            raise BadImage(
                f"its picture cannot be kept ({error}). Give a path, the bytes of a file, or 8-bit pixels."
            ) from None
        return out.getvalue()

    def digest(self, kept: str | bytes) -> bytes | None:
        try:
            return super().digest(kept)
        except BadInput:
            shown_path = os.fsdecode(kept)
            raise BadImage(f"its picture {shown_path} is not a regular file. Give the path of a picture.") from None

    def same(self, one: Any, other: Any) -> bool:
        if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
            return np.array_equal(one, other)
        return super().same(one, other)

    def show(self, content: Any) -> str:
        if isinstance(content, np.ndarray):
            return f"<array {content.shape}>"
        return "<Pillow image>" if _is_pillow(content) else super().show(content)


class _Audio(FileKind):
    """A sound: a path or the bytes of a file. A span counts seconds."""

    name = AUDIO
    span = SECONDS
    suffixes = (".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".m4a", ".aac", ".aif", ".aiff", ".au", ".wma")
    cost = 8
    needs = "soundfile"
    largest = MEDIA_BYTES


class _Video(FileKind):
    """A film: a path or the bytes of a file. A span counts seconds."""

    name = VIDEO
    span = SECONDS
    suffixes = (".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".mpg", ".mpeg", ".wmv", ".flv", ".ogv", ".3gp")
    cost = 32
    needs = "av"
    largest = MEDIA_BYTES


BUILT_IN = (_Text(), _Image(), _Audio(), _Video())
_KINDS: dict[str, Kind] = {kind.name: kind for kind in BUILT_IN}
KINDS: Mapping[str, Kind] = MappingProxyType(_KINDS)


def register(kind: Kind) -> None:
    """Add a kind to the table, in place of one of the same name."""
    if not isinstance(kind, Kind) or "+" in part_name(getattr(kind, "name", None)):
        raise BadInput(
            f"{shown(kind)} is not a kind. Give an instance of a subclass of isthmus.kinds.Kind with a name."
        )
    for suffix in kind.suffixes:
        if not SUFFIX.fullmatch(suffix):
            raise BadInput(
                f"The kind {kind.name!r} has the suffix {shown(suffix)}. Write it in lower case with one dot, at the "
                "front, as in '.tone'."
            )
    _KINDS[kind.name] = kind


def unregister(name: str) -> None:
    """Take a kind out of the table."""
    if name in {kind.name for kind in BUILT_IN}:
        raise BadInput(f"The kind {name!r} is built in and cannot be removed.")
    _KINDS.pop(name, None)


def get(name: str) -> Kind:
    """Return a kind by its name, from an installed package if need be."""
    if name in _KINDS:
        return _KINDS[name]
    if isinstance(name, str):
        from importlib.metadata import entry_points  # late: few need it

        for point in entry_points(group=GROUP):
            if point.name == name:
                register(point.load())
    return lookup(KINDS, name, "kind of part")


def stored(name: str) -> Kind:
    """Return the kind of a stored part; where its package is no longer installed, one that takes it as it is."""
    if name in _KINDS:
        return _KINDS[name]
    try:
        return get(name)
    except BadInput:
        unknown: Kind = type("UnknownKind", (Kind,), {"name": name})()
        return unknown


def by_suffix(suffix: str) -> Kind | None:
    """Return the kind that makes documents of files with this ending, as ``.tone``."""
    return next((kind for kind in KINDS.values() if suffix in kind.suffixes), None)


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


def moment(start: float, stop: float) -> str:
    """Write a span of seconds.

    >>> moment(42.0, 47.0), moment(3599.5, 3604.5)
    ('0:42–0:47', '59:59–1:00:04')
    """
    return f"{clock(start)}–{clock(stop)}"


def clock(seconds: float) -> str:
    """Write a time as minutes and seconds.

    >>> clock(62.7), clock(3723)
    ('1:02', '1:02:03')
    """
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def from_uri(uri: str) -> bytes:
    """Return the bytes of a data: URI."""
    head, _, body = uri.partition(",")
    data = unquote_to_bytes(body)
    try:
        return b64decode(data, validate=True) if head.endswith(";base64") else data
    except ValueError:
        raise BadInput("has an image in a data: URI that is not base64. Write it again") from None


def atoms(name: str) -> list[str]:
    """Return the kinds that a part's name, a vector's name or a modality is made of.

    >>> atoms("image+text")
    ['image', 'text']
    """
    return name.split("+")


def joined(names: Any) -> str:
    """Return the modality of names: every kind once, in alphabetical order.

    >>> joined(["text", "image+text"])
    'image+text'
    """
    return "+".join(sorted({atom for name in names for atom in name.split("+")}))


def with_article(name: str) -> str:
    """Return a kind's name with its article.

    >>> with_article("image"), with_article("video")
    ('an image', 'a video')
    """
    return f"{'an' if name[:1] in 'aeiou' else 'a'} {name}"


def _is_pillow(image: object) -> bool:
    """Tell a Pillow image without importing Pillow: whoever made one has imported it."""
    return any(base.__module__ == "PIL.Image" and base.__name__ == "Image" for base in type(image).__mro__)
