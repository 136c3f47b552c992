"""Encoders: documents and queries become vectors.

encoder = encoders.load("mini")
encoder.encode_documents([Document(id="a", text="…"), Document(id="b", image="cat.jpg")])      Vectors
encoder.encode_passages(documents)                          Vectors, and the document of each row
encoder.encode_queries(["a cat on a red sofa"])             Vectors
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from types import MappingProxyType

from isthmus.encoders.base import Encoder, Progress, Settings
from isthmus.encoders.cache import Cache, FolderCache, MemoryCache
from isthmus.encoders.folder import DESCRIPTION, describe
from isthmus.encoders.locations import EMBEDDED
from isthmus.errors import BadFile, BadInput, shown
from isthmus.registry import lookup

__all__ = ["KINDS", "Cache", "Encoder", "FolderCache", "MemoryCache", "load"]

MINI = EMBEDDED["mini"]
NAMED = ("onnx:FOLDER", "st:NAME_OR_PATH", "mteb:NAME_OR_PATH")


def load(
    name: str,
    *,
    device: str = "cpu",
    threads: int | None = None,
    cache: str | PathLike[str] | Cache | None = None,
    batch: int = 32,
    progress: Progress | None = None,
) -> Encoder:
    """Load an encoder: ``mini``, ``mini-fusion``, ``base``, ``onnx:PATH``, ``st:NAME_OR_PATH``, ``mteb:NAME_OR_PATH``.

    ``threads`` is the number of threads for the model and for reading pictures (default: all cores); ``cache`` is a
    folder that stores vectors for later runs (default: in memory only); ``batch`` is the number of passages or pictures
    per model call; ``progress(done, total)`` is called during the work, in passages and pictures.

    >>> load("minni")
    Traceback (most recent call last):
    isthmus.errors.UnknownName: No encoder is called 'minni'. Did you mean 'mini'?
    """
    if not isinstance(name, str) or "\0" in name or not _can_be_a_path(name):
        raise BadInput(f"{shown(name)} is not an encoder's name. Write {', '.join([*EMBEDDED, *NAMED])}.")
    kind, colon, which = name.partition(":")
    opener = lookup(KINDS, kind, "encoder")
    settings = Settings(device=device, threads=threads, cache=cache, batch=batch, progress=progress)
    if (kind in EMBEDDED) == bool(colon) or (colon and not which):
        raise BadInput(f"{name!r} is not an encoder's full name. Write {', '.join([*EMBEDDED, *NAMED])}.")
    return opener(which or kind, settings)


def _can_be_a_path(name: str) -> bool:
    try:
        os.fsencode(name)
    except UnicodeEncodeError:  # half of a surrogate pair, which no file name can contain
        return False
    return True


def _embedded(name: str, settings: Settings) -> Encoder:
    folder = EMBEDDED[name]
    if not (folder / DESCRIPTION).exists():
        raise BadFile(
            f"The encoder {name!r} is not in this installation: {folder} has no {DESCRIPTION}. Install isthmus again, "
            f"or name another encoder ({', '.join(NAMED)})."
        )
    return _open(folder, settings)


def _onnx(folder: str, settings: Settings) -> Encoder:
    return _open(Path(folder).expanduser(), settings)


def _open(folder: Path, settings: Settings) -> Encoder:
    """Make an encoder from a folder with ``encoder.toml``: with its own towers, or on another encoder's towers."""
    described = describe(folder)
    if described.fusion is None:
        from isthmus.encoders.onnx import open_towers

        return open_towers(described, settings)
    from isthmus.encoders.fusion import open_fusion

    towers = described.fusion.towers
    return open_fusion(described, described.fusion, EMBEDDED.get(towers, folder / towers), settings)


def _st(name: str, settings: Settings) -> Encoder:
    from isthmus.encoders.st import open_model

    return open_model(name, settings)


def _mteb(name: str, settings: Settings) -> Encoder:
    from isthmus.encoders.mteb import open_model

    return open_model(name, settings)


KINDS: Mapping[str, Callable[[str, Settings], Encoder]] = MappingProxyType(
    {**dict.fromkeys(EMBEDDED, _embedded), "onnx": _onnx, "st": _st, "mteb": _mteb}
)
