"""WebDataset shards: tar files whose members are grouped by sample.

    0001.jpg  0001.txt  0001.json     one document, '0001'
    0002.jpg  0002.txt                the next

The archive is read once from start to end, and nothing is written to disk. Sizes in headers are not trusted: the length
of headers and the expanded size of a compressed archive are limited.
"""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from typing import Any

from isthmus.budget import HEADER_BYTES, PROBLEMS, SHARD_BYTES, SHARD_RATIO, TEXT_BYTES, mebibytes
from isthmus.documents import Document, Part, Text
from isthmus.errors import BadInput
from isthmus.files import open_regular
from isthmus.kinds import AUDIO, IMAGE, VIDEO
from isthmus.sources.base import Found, SkippedInput, SourceUnit
from isthmus.sources.files import File, FileReader, from_system, unreadable
from isthmus.sources.jsonl import loads
from isthmus.sources.names import extension, readable
from isthmus.sources.readers import look
from isthmus.sources.sidecars import MEDIA, PICTURES, caption_of
from isthmus.sources.text import decode

MEDIA_KINDS = (AUDIO, VIDEO)
ENDINGS = (".tar", ".tar.gz", ".tgz")
FILES = dict.fromkeys(PICTURES, IMAGE) | MEDIA  # kinds by extension
WANTED = {*FILES, "txt", "caption", "json"}
DAMAGE = (tarfile.TarError, EOFError, zlib.error, OSError, ValueError)  # ValueError: invalid numbers in a header
STEP = 8 * HEADER_BYTES  # all headers of one member, and bytes read ahead
PAST_THE_END = 8  # empty reads
BUFFER = 256 * 1024
GZIP = b"\x1f\x8b"
DESCRIBING = {tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE}
DESCRIBING |= {tarfile.SOLARIS_XHDTYPE}  # members that describe the next one


@dataclass(slots=True)
class Sample:
    """The members of one key, in the order of the archive."""

    key: str
    shard: str
    files: dict[str, bytes] = field(default_factory=dict)  # by kind: a picture, a sound, a video
    texts: list[str] = field(default_factory=list)
    captions: list[str] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)
    problems: list[SkippedInput] = field(default_factory=list)
    room: int = field(default_factory=lambda: TEXT_BYTES)  # bytes that its members may still use

    def take(self, kind: str, data: bytes) -> None:
        """Add a member."""
        self.room -= len(data)
        try:
            if kind in FILES:
                self.files.setdefault(FILES[kind], data)
            elif kind == "json":
                captions, more = caption_of(loads(decode(data, self.key)))
                self.captions, self.metadata = self.captions + captions, self.metadata | more
            else:
                self.texts.append(decode(data, self.key).strip())
        except BadInput as error:
            self.skip(f".{kind}", str(error))

    def skip(self, ending: str, why: str) -> None:
        """Record a member that cannot be used, unless there are too many."""
        if len(self.problems) < PROBLEMS:
            self.problems.append(SkippedInput(f"{self.shard}, {self.key}{ending}", why))

    def found(self) -> Iterator[Found]:
        """Yield the problems of its members, then the document."""
        yield from self.problems
        text = "\n".join(self.texts or self.captions)
        there = [Part(kind, self.files[kind]) for kind in (IMAGE, *MEDIA_KINDS) if self.files.get(kind)]
        if there or text:
            metadata = {"shard": self.shard, **self.metadata}
            yield Document(self.key, parts=[*([Text(text)] if text else []), *there], metadata=metadata)
        elif not self.problems:
            yield SkippedInput(f"{self.shard}, {self.key}", "has neither a picture nor a text")


class Member(tarfile.TarInfo):
    """A member whose damaged header is an error; `tarfile` would treat it as the end of the archive."""

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> Member:
        """Read the next header."""
        try:
            return super().fromtarfile(archive)
        except tarfile.HeaderError as error:
            if type(error).__name__ in ("InvalidHeaderError", "TruncatedHeaderError"):
                raise tarfile.ReadError(str(error)) from None
            raise
        except RecursionError:
            raise tarfile.ReadError("a member has too many nested headers") from None

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Member:
        """Read a header, up to a limit; `tarfile` has none."""
        made = super().frombuf(buf, encoding, errors)
        if made.type in DESCRIBING and not 0 <= made.size <= HEADER_BYTES:
            raise tarfile.ReadError(f"a header claims {made.size:,} bytes; the limit is {mebibytes(HEADER_BYTES)}")
        return made


class Metered:
    """A stream that limits how much of an archive is read."""

    def __init__(self, stream: BufferedReader | gzip.GzipFile, total: int) -> None:
        self._stream = stream
        # reads in pieces, so that data before damage is not lost
        self._read = stream.read1 if isinstance(stream, gzip.GzipFile) else stream.read
        self._total = self._most = total  # bytes that may be read in total
        self.step = STEP  # and before the next member
        self._empty = 0  # consecutive empty reads

    def read(self, size: int = -1) -> bytes:
        """Read, within the limits."""
        if not 0 <= size <= self._total:
            raise tarfile.ReadError(f"it expands to more than {mebibytes(self._most)}")
        if size > self.step:
            raise tarfile.ReadError(
                f"a member takes more than {mebibytes(SHARD_BYTES)}, or its headers {mebibytes(STEP)}"
            )
        data = self._read(size)
        self._empty = 0 if data else self._empty + 1
        if self._empty > PAST_THE_END:  # `tarfile` continues up to the size in a header
            raise tarfile.ReadError("unexpected end of data")
        self._total -= len(data)
        self.step -= len(data)
        return data

    def seek(self, place: int, whence: int = 0) -> int:
        """Seek, in an archive that is not compressed."""
        return self._stream.seek(place, whence)

    def tell(self) -> int:
        """Return the position."""
        return self._stream.tell()


@contextmanager
def _opened(file: File) -> Iterator[tuple[tarfile.TarFile, Metered]]:
    """Open an archive, with a meter of the bytes read. An uncompressed archive is not read where it is skipped."""
    with ExitStack() as stack:
        plain = stack.enter_context(open_regular(file.path))
        packed = plain.peek(2)[:2] == GZIP
        stream = stack.enter_context(gzip.GzipFile(fileobj=plain)) if packed else plain
        meter = Metered(stream, SHARD_BYTES + SHARD_RATIO * file.size)
        fileobj: Any = meter
        archive = tarfile.open(fileobj=fileobj, mode="r|" if packed else "r:", bufsize=BUFFER, tarinfo=Member)  # noqa: SIM115
        yield stack.enter_context(archive), meter


def read(file: File) -> Iterator[Found]:
    """Yield each sample as a document; samples before damage are kept."""
    sample: Sample | None = None
    try:
        with _opened(file) as (archive, meter):
            while (member := archive.next()) is not None:
                archive.members.clear()  # type: ignore[attr-defined] # free the list of members
                meter.step = min(member.size, SHARD_BYTES) + STEP  # the next header is read after this member
                key, kind = key_of(member.name)
                if not member.isfile() or not key:
                    continue
                if sample is None or sample.key != key:
                    yield from sample.found() if sample else ()
                    sample = Sample(key, file.name)
                _take(archive, member, sample, kind)
    except DAMAGE as error:
        last = f" after {sample.key!r}" if sample else ""
        yield from sample.problems if sample else ()
        why = f"cannot be read{last}: {error}" if from_system(error) else f"is damaged{last}: {error}"
        yield SkippedInput(file.name, f"{why}. Everything before it was read", unreachable=from_system(error))
        return
    if sample is None:
        raise BadInput("holds no files")
    yield from sample.found()


def key_of(member: str) -> tuple[str, str]:
    """Return the key of a sample and the kind of a member; no key for hidden files.

    >>> key_of("./train/0001.seg.PNG"), key_of("._0001.jpg")
    (('train/0001', 'png'), ('', ''))
    """
    folder, slash, name = readable(member.removeprefix("./")).rpartition("/")
    stem = name.partition(".")[0]
    return (f"{folder}{slash}{stem}", extension(name)) if stem else ("", "")


def _take(archive: tarfile.TarFile, member: tarfile.TarInfo, sample: Sample, kind: str) -> None:
    if kind not in WANTED:
        return
    if kind in FILES and FILES[kind] in sample.files:
        return
    if not 0 <= member.size <= sample.room:
        alone = member.size > TEXT_BYTES
        limit = f"{mebibytes(TEXT_BYTES)}, the limit for all members of one sample"
        sample.skip(f".{kind}", f"is larger than {limit}" if alone else f"exceeds {limit}")
        return
    opened = archive.extractfile(member)
    if opened is not None:
        sample.take(kind, opened.read())


SHARD = FileReader("webdataset", read)


@dataclass(frozen=True, slots=True)
class ShardsSource:
    """A folder of shards, or one shard."""

    path: str

    @property
    def root(self) -> str:
        """The folder, or the shard."""
        return readable(self.path)

    def units(self) -> Iterator[SourceUnit | SkippedInput]:
        """List the shards by name."""
        path = Path(self.path)
        try:
            shards = [path] if not path.is_dir() else sorted(below for below in path.iterdir() if is_shard(below.name))
        except OSError as error:
            yield SkippedInput(self.root, f"is a folder that {unreadable(error)}", unreachable=True)
            return
        if not shards:
            yield SkippedInput(self.root, f"has no {', '.join(ENDINGS)} in it")
        for shard in shards:
            file = look(str(shard), readable(shard.name), alone=True)
            yield SHARD.unit(file) if isinstance(file, File) else file


def is_shard(name: str) -> bool:
    """Return whether a file is a shard, by its extension."""
    return name.lower().endswith(ENDINGS) and not name.startswith(".")
