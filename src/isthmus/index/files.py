"""Faiss indexes on disk, each with a note of its size and checksum: Faiss itself does not check the bytes it reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from isthmus import checksums
from isthmus._optional import need
from isthmus.atomic import replacing
from isthmus.errors import BadFile


def write(index: Any, file: Path) -> list[Path]:
    """Write an index and its note, each atomically."""
    note = _note(file)
    with replacing(file) as draft:
        need("faiss", extra="ann").write_index(index, str(draft))
        described = {"bytes": draft.stat().st_size, "xxh3": checksums.of_file(draft)}
    with replacing(note) as draft:
        draft.write_text(json.dumps(described), encoding="utf-8")
    return [file, note]


def read(file: Path, rows: int, width: int) -> Any:
    """Read an index of this many rows and dimensions, or raise an error."""
    try:
        described = json.loads(_note(file).read_text(encoding="utf-8"))
        whole = described == {"bytes": file.stat().st_size, "xxh3": checksums.of_file(file)}
    except (OSError, ValueError) as error:
        raise BadFile(f"{file} cannot be read ({error}). Build the index again from the vectors.") from None
    if not whole:
        raise BadFile(f"{file} is damaged: size or checksum differ from what was written. Build it again.")
    try:
        index = need("faiss", extra="ann").read_index(str(file))
    except RuntimeError as error:
        raise BadFile(f"{file} is no Faiss index ({str(error).splitlines()[0]}). Build it again.") from None
    if (index.ntotal, index.d) != (rows, width):
        raise BadFile(
            f"{file} indexes {index.ntotal} rows of {index.d} dimensions but the vectors are {rows} × {width}. "
            "They belong to different versions: build the index again."
        )
    return index


def _note(file: Path) -> Path:
    return file.with_name(file.name + ".json")
