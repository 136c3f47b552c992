"""The output of `clip-retrieval inference`: vectors in shards, with a table for each.

    img_emb/img_emb_0.npy   text_emb/text_emb_0.npy   metadata/metadata_0.parquet

A document has the parts that have a vector, so nothing needs to be encoded; a caption without one is metadata.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any, Literal

import numpy as np

from isthmus.documents import Document
from isthmus.errors import BadInput
from isthmus.files import open_regular
from isthmus.sources import parquet
from isthmus.sources.base import Found, SkippedInput, SourceUnit
from isthmus.sources.files import File, FileReader, is_missing, unit, unreadable
from isthmus.sources.names import readable
from isthmus.sources.readers import look
from isthmus.sources.rows import fields, storable
from isthmus.types import Matrix

FOLDERS = {"image": "img_emb", "text": "text_emb"}
SHARD = re.compile(r"(?:img_emb|text_emb)_(\w+)\.npy")
HEADERS = {(1, 0): np.lib.format.read_array_header_1_0}  # 2.0, which reads 3.0 too, otherwise
READER = FileReader("clip-retrieval", parquet.read, parquet.MODULE)  # for its stamp


@dataclass(frozen=True, slots=True)
class ClipRetrievalSource:
    """A folder of vectors."""

    path: str

    @property
    def root(self) -> str:
        """The folder."""
        return readable(self.path)

    def units(self) -> Iterator[SourceUnit | SkippedInput]:
        """List the shards, by number if they have one."""
        root = Path(self.path)
        names: set[str] = set()
        for folder in FOLDERS.values():
            try:
                names |= {match[1] for file in _names(root / folder) if (match := SHARD.fullmatch(file))}
            except OSError as error:
                yield SkippedInput(self.root, f"has a folder {folder} that {unreadable(error)}", unreachable=True)
        if not names:
            yield SkippedInput(self.root, "has no img_emb/img_emb_*.npy and no text_emb/text_emb_*.npy in it")
        for name in sorted(names, key=lambda name: (len(name), name)):
            inside = {part: f"{folder}/{folder}_{name}.npy" for part, folder in FOLDERS.items()}
            inside["metadata"] = f"metadata/metadata_{name}.parquet"
            there = {part: path for part, path in inside.items() if not is_missing(root / path)}
            found = {part: look(str(root / path), path) for part, path in there.items()}
            files = {part: file for part, file in found.items() if isinstance(file, File)}
            gone = [file for file in found.values() if isinstance(file, SkippedInput)]
            key = f"shard {name}"
            yield unit(key, READER.stamp(*files.values()), partial(_read, root, name, files, gone))


def _names(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return []


def _read(root: Path, shard: str, files: Mapping[str, File], gone: list[SkippedInput]) -> Iterator[Found]:
    yield from gone
    if gone:
        return  # without one of its files, rows would not match documents
    vectors = {part: _load(files[part]) for part in FOLDERS if part in files}
    counts = {part: len(matrix) for part, matrix in vectors.items()}
    if len(set(counts.values())) > 1:
        raise BadInput(f"has {counts['image']} image vectors and {counts['text']} text vectors. Make it again")
    total = next(iter(counts.values()))
    table: Iterator[Mapping[str, Any]] = repeat({}, total)
    if "metadata" in files:
        rows = parquet.count(files["metadata"].path)
        if rows != total:
            raise BadInput(f"has {total} vectors and {rows} rows of metadata. Make it again")
        table = parquet.rows(files["metadata"].path)
    for number, row in enumerate(table):
        try:
            own = {part: np.array(matrix[number]) for part, matrix in vectors.items()}
            yield _document(root, f"{shard}-{number}", row, own)
        except ValueError as error:
            yield SkippedInput(f"shard {shard}, row {number}", str(error))


def _load(file: File) -> Matrix:
    """Map an array from the open file: its path may have been replaced."""
    try:
        with open_regular(file.path) as stream:
            version = np.lib.format.read_magic(stream)
            header = HEADERS.get(version, np.lib.format.read_array_header_2_0)(stream)
            shape, fortran, dtype = header
            if dtype.kind not in "fiu" or len(shape) != 2 or min(shape) < 1:
                raise BadInput(
                    f"{file.name} has shape {shape} and type {dtype}; it must be (rows, dimensions) of numbers"
                )
            order: Literal["F", "C"] = "F" if fortran else "C"
            return np.memmap(stream, dtype=dtype, mode="r", offset=stream.tell(), shape=shape, order=order)
    except BadInput:
        raise
    except (ValueError, EOFError, OverflowError) as error:
        raise BadInput(f"{file.name} is not an array, or damaged: {error}") from None


def _document(root: Path, fallback: str, row: Mapping[str, Any], vectors: Mapping[str, Matrix]) -> Document:
    left = dict(row)
    path = left.get("image_path")
    text = None
    if "text" in vectors and isinstance(left.get("caption"), str) and left["caption"].strip():
        text = storable(left.pop("caption"), "caption")
    there = "image" in vectors and isinstance(path, str) and path != "" and (root / path).is_file()
    return Document(
        id=storable(str(path or left.get("key") or fallback), "image_path"),
        text=text,
        image=str(root / str(path)) if there else None,
        metadata=fields(left),
        vectors=vectors,
    )
