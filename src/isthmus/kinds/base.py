"""What a kind of content is: how it is checked, stored, hashed, compared and shown; and content that is files."""

from __future__ import annotations

import errno
import hashlib
import os
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

from isthmus.budget import PICTURE_BYTES
from isthmus.errors import BadInput, shown
from isthmus.files import digest_regular
from isthmus.kinds.names import with_article

FileLike: TypeAlias = str | PathLike[str] | bytes  # a path, or the bytes of a file


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
