"""One file of a source: its path, its name, and its stamp."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.util import find_spec
from os import PathLike
from pathlib import Path, PurePosixPath

from isthmus import budget
from isthmus.documents import Document
from isthmus.errors import BadInput, CannotRead, IsthmusError, MissingExtra
from isthmus.sources.base import Found, SkippedInput, SourceUnit
from isthmus.sources.names import extension, readable

VERSION = 1  # raise it when the output of readers changes: every unit is then read again


@dataclass(frozen=True, slots=True)
class File:
    """A file as it was when it was listed.

    ``path`` is the real path; ``name`` is its name in the source, valid UTF-8; ``alone``: the source
    is this single file, so the ids of its rows do not include its name.
    """

    path: str
    name: str
    size: int
    modified_ns: int
    changed_ns: int
    alone: bool = False

    @classmethod
    def at(cls, path: str, name: str, *, alone: bool = False) -> File:
        """Return a regular file; anything else is rejected, because a pipe would never end."""
        try:
            status = Path(path).stat()
        except FileNotFoundError:
            raise CannotRead("does not exist: a broken link, or a file that was removed") from None
        except (OSError, ValueError) as error:
            raise CannotRead(unreadable(error)) from None
        if not stat.S_ISREG(status.st_mode):
            raise BadInput("is not a regular file")
        return cls(path, name, status.st_size, status.st_mtime_ns, status.st_ctime_ns, alone)

    @property
    def facts(self) -> dict[str, str | int]:
        """The metadata of a document of this file."""
        facts: dict[str, str | int] = {"path": readable(self.path), "name": PurePosixPath(self.name).name}
        facts |= {"folder": str(PurePosixPath(self.name).parent), "type": extension(self.name), "bytes": self.size}
        with suppress(OverflowError, ValueError, OSError):  # a clock that was far off
            facts["modified"] = datetime.fromtimestamp(self.modified_ns // 10**9, UTC).isoformat()
        return facts

    @property
    def stamp(self) -> str:
        """A string that changes with the content."""
        return f"{self.name} {self.size} {self.modified_ns} {self.changed_ns}"


@dataclass(frozen=True, slots=True)
class FileReader:
    """How to read files of a kind, and the optional module it needs."""

    name: str
    read: Callable[[File], Iterator[Found]]
    needs: str | None = None

    def unit(self, file: File) -> SourceUnit:
        """Make the unit of one file."""
        return unit(file.name, self.stamp(file), partial(_read_file, self, file))

    def stamp(self, *files: File) -> str:
        """Join the files' stamps; files skipped because of a missing module are read once it is installed."""
        can = self.needs is None or find_spec(self.needs) is not None
        return "\n".join([f"{VERSION} {self.name}{'' if can else ' missing'}", *(file.stamp for file in files)])


def unit(key: str, stamp: str, read: Callable[[], Iterator[Found]]) -> SourceUnit:
    """Make a unit whose reading never fails: errors become skipped entries."""
    return SourceUnit(key, stamp, partial(_carefully, key, read))


def unreadable(error: OSError | ValueError) -> str:
    """Return why a file or a folder cannot be read."""
    return f"cannot be read: {getattr(error, 'strerror', None) or error}. Check its permissions and the disk"


def from_system(error: BaseException) -> bool:
    """Whether an error is the system's (permissions, the disk), not a decoder's about damaged content."""
    return isinstance(error, OSError) and error.errno is not None


def is_missing(path: str | PathLike[str]) -> bool:
    """Whether a file is missing from its folder; False if the folder cannot be read."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):
        return False
    return False


def _read_file(reader: FileReader, file: File) -> Iterator[Found]:
    if file.size == 0:
        return iter([SkippedInput(file.name, "is empty (0 bytes)")])
    return reader.read(file)


def _carefully(where: str, read: Callable[[], Iterator[Found]]) -> Iterator[Found]:
    try:
        for found in read():
            problem = budget.too_long(found.text) if isinstance(found, Document) else None
            yield SkippedInput(found.id, problem) if isinstance(found, Document) and problem else found
    except MemoryError:
        raise
    except IsthmusError as error:
        yield SkippedInput(where, str(error), unreachable=isinstance(error, CannotRead | MissingExtra))
    except OSError as error:
        yield SkippedInput(where, unreadable(error), unreachable=from_system(error))
    except Exception as error:  # noqa: BLE001 - readers raise anything on damaged files
        yield SkippedInput(
            where, f"cannot be read: {type(error).__name__}: {error}. It is damaged, or has another format"
        )
