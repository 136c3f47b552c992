"""The table of readers, by extension."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from types import MappingProxyType

from isthmus import kinds
from isthmus.documents import Document, Part
from isthmus.errors import BadInput, CannotRead
from isthmus.sources import delimited, html, jsonl, parquet, pdf, text
from isthmus.sources.base import Found, SkippedInput, SourceUnit
from isthmus.sources.files import File, FileReader, unit
from isthmus.sources.names import extension
from isthmus.sources.sidecars import MEDIA, PICTURES, read_picture, takes_sidecars
from isthmus.sources.text import read_text

TEXT = FileReader("text", text.read)
HTML = FileReader("html", html.read, html.MODULE)
PDF = FileReader("pdf", pdf.read, pdf.MODULE)
JSON = FileReader("json", jsonl.read_json)
JSONL = FileReader("jsonl", jsonl.read)
CSV = FileReader("csv", delimited.read)
TSV = FileReader("tsv", delimited.read_tabs)
PARQUET = FileReader("parquet", parquet.read, parquet.MODULE)

WORDS = "txt text md markdown rst log tex org adoc asciidoc srt vtt"
CODE = (
    "py pyi js mjs jsx ts tsx java kt scala c h cc cpp hpp cs go rs rb php pl lua r jl swift m hs ml ex exs clj lisp "
    "el vim sh bash zsh ps1 bat sql css scss toml yaml yml ini cfg conf xml"
)
_BY_KIND = {TEXT: f"{WORDS} {CODE}", HTML: "html htm xhtml", PDF: "pdf", JSON: "json", JSONL: "jsonl ndjson"}
_BY_KIND |= {CSV: "csv", TSV: "tsv tab", PARQUET: "parquet"}
READERS: Mapping[str, FileReader] = MappingProxyType(
    {e: reader for reader, all_ in _BY_KIND.items() for e in all_.split()}
)


def may_hold_pictures(name: str) -> bool:
    """Return whether documents of a file may have pictures, by its extension.

    >>> may_hold_pictures("a.pdf"), may_hold_pictures("a.md")
    (True, False)
    """
    return READERS.get(extension(name)) not in (TEXT, HTML)


def may_hold_sounds(name: str) -> bool:
    """Return whether documents of a file may have sounds or videos, by its extension: tables and shards may.

    >>> may_hold_sounds("a.mp3"), may_hold_sounds("a.tar"), may_hold_sounds("a.md"), may_hold_sounds("a.png")
    (True, True, False, False)
    """
    return extension(name) not in PICTURES and READERS.get(extension(name)) not in (TEXT, HTML, PDF)


def unit_of(file: File, sidecars: Iterable[File | SkippedInput] = ()) -> SourceUnit | SkippedInput:
    """Make the unit of a file by its extension; that of a picture, a sound or a video with its sidecars."""
    if takes_sidecars(file.name):
        return _picture(file, list(sidecars))
    kind = extension(file.name)
    if kind in READERS:
        return READERS[kind].unit(file)
    if (other := kinds.by_suffix(f".{kind}")) is not None:
        return FileReader(other.name, partial(_whole, other.name), other.needs).unit(file)
    if not kind:
        return SkippedInput(file.name, "has no extension, so its kind is unknown. Rename it, for example to .txt")
    return SkippedInput(file.name, f"isthmus does not read .{kind} files")


def _whole(kind: str, file: File) -> Iterator[Found]:
    """Yield one document per file of a registered kind: its path for a ``FileKind``, else the text in it."""
    is_file = isinstance(kinds.get(kind), kinds.FileKind)
    yield Document(file.name, parts=[Part(kind, file.path if is_file else read_text(file))], metadata=file.facts)


def look(path: str, name: str, *, alone: bool = False) -> File | SkippedInput:
    """Return a file, or why it is skipped."""
    try:
        return File.at(path, name, alone=alone)
    except BadInput as error:
        return SkippedInput(name, str(error), unreachable=isinstance(error, CannotRead))


def _picture(file: File, sidecars: list[File | SkippedInput]) -> SourceUnit:
    there = [sidecar for sidecar in sidecars if isinstance(sidecar, File)]
    gone = [sidecar for sidecar in sidecars if isinstance(sidecar, SkippedInput)]
    kind = MEDIA.get(extension(file.name))
    reader = PICTURE if kind is None else FileReader(kind, PICTURE.read, kinds.get(kind).needs)
    stamp = "\n".join([reader.stamp(file, *there), *(f"{skipped.where} {skipped.why}" for skipped in gone)])
    return unit(file.name, stamp, partial(_read, file, there, gone))


def _read(file: File, there: list[File], gone: list[SkippedInput]) -> Iterator[Found]:
    yield from gone
    if not file.size and extension(file.name) in MEDIA:
        yield SkippedInput(file.name, "is empty (0 bytes)")
        return
    yield from read_picture(file, there)


PICTURE = FileReader("picture", partial(read_picture, sidecars=()))
