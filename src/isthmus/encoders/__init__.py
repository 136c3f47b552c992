"""Encoders: documents and queries become vectors.

encoder = encoders.load("mini")
encoder.encode_documents([Document(id="a", text="…"), Document(id="b", image="cat.jpg")])      Vectors
encoder.encode_passages(documents)                          Vectors, and the document of each row
encoder.encode_queries(["a cat on a red sofa"])             Vectors
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from types import MappingProxyType

from isthmus.encoders.base import Encoder, Progress, Settings
from isthmus.encoders.cache import Cache, FolderCache, MemoryCache
from isthmus.encoders.families import EncoderFamily, built_in, find_family, full_name
from isthmus.encoders.folder import DESCRIPTION, describe
from isthmus.encoders.locations import EMBEDDED
from isthmus.errors import BadFile, BadInput, shown

__all__ = ["KINDS", "Cache", "Encoder", "EncoderFamily", "FolderCache", "MemoryCache", "load", "open_named"]

MINI = EMBEDDED["mini"]


def load(
    name: str,
    *,
    device: str = "cpu",
    precision: str = "float32",
    threads: int | None = None,
    cache: str | PathLike[str] | Cache | None = None,
    batch: int = 32,
    progress: Progress | None = None,
) -> Encoder:
    """Load an encoder by its name, such as ``mini``, ``base``, ``onnx:PATH`` or ``st:NAME_OR_PATH``.

    ``KINDS`` has the families of this package; installed packages add others (``isthmus.encoders.families``).
    ``device`` is where the model runs, ``precision`` may be ``float16`` or ``bfloat16`` for families that can;
    ``threads`` is the number of threads for the model and for reading pictures (default: all cores); ``cache`` is a
    folder that stores vectors for later runs (default: in memory only); ``batch`` is the number of passages or pictures
    per model call; ``progress(done, total)`` is called during the work, in passages and pictures.

    >>> load("minni")
    Traceback (most recent call last):
    isthmus.errors.UnknownName: No encoder is called 'minni'. Did you mean 'mini'?
    """
    if not isinstance(name, str) or "\0" in name or not _can_be_a_path(name):
        raise BadInput(f"{shown(name)} is not an encoder's name. Write {', '.join([*EMBEDDED, *NAMED])}.")
    settings = Settings(
        device=device, precision=precision, threads=threads, cache=cache, batch=batch, progress=progress
    )
    return open_named(name, settings)


def open_named(name: str, settings: Settings) -> Encoder:
    """Load an encoder by its name, with settings."""
    kind, colon, which = name.partition(":")
    family = find_family(KINDS, kind)
    if bool(family.rest) != bool(colon) or (colon and not which):
        raise BadInput(f"{name!r} is not an encoder's full name. Write {full_name(kind, family)}.")
    if settings.precision != "float32" and not family.halves:
        able = ", ".join(word for word, family in KINDS.items() if family.halves)
        raise BadInput(f"{name!r} cannot run in {settings.precision}. Leave precision out; these can: {able}.")
    return family.open(which or kind, settings)


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


_EMBEDDED = EncoderFamily(open=_embedded, summary="part of the package")
KINDS: Mapping[str, EncoderFamily] = MappingProxyType(
    {
        **dict.fromkeys(EMBEDDED, _EMBEDDED),
        "onnx": EncoderFamily(open=_onnx, rest="FOLDER", summary="exported models, with an encoder.toml"),
        "hf": built_in(
            "hf", "NAME_OR_PATH", "CLIP, SigLIP and their like", "transformers", "torch", extra="hf", halves=True
        ),
        "st": built_in(
            "st", "NAME_OR_PATH", "sentence-transformers models", "sentence_transformers", extra="st", halves=True
        ),
        "http": built_in("http", "FORMAT:MODEL[@URL]", "services in the formats of OpenAI, Cohere, Voyage, Jina"),
        "matryoshka": built_in("matryoshka", "DIM:NAME", "the first numbers of another encoder's vectors", halves=True),
        "mteb": built_in("mteb", "NAME_OR_PATH", "models of mteb", "mteb", extra="mteb"),
    }
)
NAMED = tuple(full_name(word, family) for word, family in KINDS.items() if family.rest)
