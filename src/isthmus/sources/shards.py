"""WebDataset shards: tar files whose members follow one another sample by sample.

    0001.jpg  0001.txt  0001.json     one document, '0001'
    0002.jpg  0002.txt                the next

The archive is read once from front to back, and nothing is written to disk.
"""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from lzma import LZMAError
from pathlib import Path
from typing import Any

from isthmus.documents import Document
from isthmus.errors import BadInput
from isthmus.sources.base import Found, Skipped, Unit
from isthmus.sources.files import File, Reader, from_system, unreadable
from isthmus.sources.jsonl import loads
from isthmus.sources.names import extension, readable
from isthmus.sources.readers import look
from isthmus.sources.sidecars import PICTURES, caption_of
from isthmus.sources.text import LIMIT, decode

ENDINGS = (".tar", ".tar.gz", ".tgz")
WANTED = PICTURES | {"txt", "caption", "json"}
DAMAGE = (tarfile.TarError, EOFError, zlib.error, LZMAError, OSError)


@dataclass(slots=True)
class Sample:
    """The members of one key, as they come."""

    key: str
    shard: str
    image: bytes | None = None
    texts: list[str] = field(default_factory=list)
    captions: list[str] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)
    problems: list[Skipped] = field(default_factory=list)

    def take(self, kind: str, data: bytes) -> None:
        """Take a member in."""
        try:
            if kind in PICTURES:
                self.image = self.image or data
            elif kind == "json":
                captions, more = caption_of(loads(decode(data, self.key)))
                self.captions, self.metadata = self.captions + captions, self.metadata | more
            else:
                self.texts.append(decode(data, self.key).strip())
        except BadInput as error:
            self.skip(f".{kind}", str(error))

    def skip(self, ending: str, why: str) -> None:
        """Note a member that cannot be used."""
        self.problems.append(Skipped(f"{self.shard}, {self.key}{ending}", why))

    def found(self) -> Iterator[Found]:
        """Give the document, after what was wrong with its members."""
        yield from self.problems
        text = "\n".join(self.texts or self.captions) or None
        if self.image or text:
            metadata = {"shard": self.shard, **self.metadata}
            yield Document(id=self.key, text=text, image=self.image, metadata=metadata)
        elif not self.problems:
            yield Skipped(f"{self.shard}, {self.key}", "holds neither a picture nor a text")


class Member(tarfile.TarInfo):
    """A member whose damaged header is an error: `tarfile` takes it for the end of the archive."""

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> Member:
        """Read the next header."""
        try:
            return super().fromtarfile(archive)
        except tarfile.HeaderError as error:
            if type(error).__name__ in ("InvalidHeaderError", "TruncatedHeaderError"):
                raise tarfile.ReadError(str(error)) from None
            raise


def read(file: File) -> Iterator[Found]:
    """Give each sample as a document; what comes before damage is kept."""
    sample: Sample | None = None
    try:
        with Path(file.path).open("rb") as stream, tarfile.open(fileobj=stream, mode="r|*", tarinfo=Member) as archive:
            while (member := archive.next()) is not None:
                archive.members.clear()  # type: ignore[attr-defined] # it would remember them all
                key, kind = key_of(member.name)
                if not member.isfile() or not key:
                    continue
                if sample is None or sample.key != key:
                    yield from sample.found() if sample else ()
                    sample = Sample(key, file.name)
                _take(archive, member, sample, kind)
    except DAMAGE as error:
        last = f" after {sample.key!r}" if sample else ""
        why = f"cannot be read{last}: {error}" if from_system(error) else f"is damaged{last}: {error}"
        yield Skipped(file.name, f"{why}. What came before was read", unreachable=from_system(error))
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
    if member.size > LIMIT:
        sample.skip(f".{kind}", f"is larger than {LIMIT // 2**20} MiB")
        return
    opened = archive.extractfile(member)
    if opened is not None:
        sample.take(kind, opened.read())


SHARD = Reader("webdataset", read)


@dataclass(frozen=True, slots=True)
class ShardsSource:
    """A folder of shards, or one."""

    path: str

    @property
    def root(self) -> str:
        """The folder, or the shard."""
        return readable(self.path)

    def units(self) -> Iterator[Unit | Skipped]:
        """List the shards by name."""
        path = Path(self.path)
        try:
            shards = [path] if not path.is_dir() else sorted(below for below in path.iterdir() if is_shard(below.name))
        except OSError as error:
            yield Skipped(self.root, f"is a folder that {unreadable(error)}", unreachable=True)
            return
        if not shards:
            yield Skipped(self.root, f"has no {', '.join(ENDINGS)} in it")
        for shard in shards:
            file = look(str(shard), readable(shard.name), alone=True)
            yield SHARD.unit(file) if isinstance(file, File) else file


def is_shard(name: str) -> bool:
    """Tell a shard by its extension."""
    return name.lower().endswith(ENDINGS) and not name.startswith(".")
