"""Encoders: documents and queries become vectors.

encoder = encoders.load("mini")
encoder.encode_documents([Document(id="a", text="…"), Document(id="b", image="cat.jpg")])      Vectors
encoder.encode_passages(documents)                          Vectors, and the document of each row
encoder.encode_queries(["a cat on a red sofa"])             Vectors
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from os import PathLike
from pathlib import Path
from types import MappingProxyType

from isthmus.encoders.base import FULL, IN_FULL, Encoder, Progress, Settings
from isthmus.encoders.cache import Cache, FolderCache, MemoryCache
from isthmus.encoders.families import EncoderFamily, built_in, find_family, full_name
from isthmus.encoders.folder import DESCRIPTION, describe
from isthmus.encoders.locations import EMBEDDED, two_names
from isthmus.errors import BadFile, BadInput, UnknownName, shown

__all__ = [
    "KINDS",
    "REMOVED",
    "Cache",
    "Encoder",
    "EncoderFamily",
    "FolderCache",
    "MemoryCache",
    "load",
    "located",
    "open_named",
]

MINI = EMBEDDED["mini"]
REMOVED = {  # what was part of the package
    "mini-fusion": "It found less than mini where a text describes its picture. Use mini, or train your own by "
    "`isthmus train fusion` (onnx:OUT); `isthmus reencode --in FOLDER --encoder mini` moves a collection."
}
PLACES = ("FOLDER", "NAME_OR_PATH")  # what follows the colon in names that may hold a path


def load(
    name: str,
    *,
    device: str = "cpu",
    precision: str = FULL,
    threads: int | None = None,
    cache: str | PathLike[str] | Cache | None = None,
    batch: int | None = None,
    progress: Progress | None = None,
    trust_remote_code: bool = False,
) -> Encoder:
    """Load an encoder by its name, such as ``mini``, ``base``, ``onnx:FOLDER`` or ``st:NAME_OR_PATH``.

    ``KINDS`` has the families of this package; installed packages add others (``isthmus.encoders.families``).
    ``device`` is where the model runs; ``precision`` is ``full``, ``half`` (16 bits, for families that can) or ``auto``
    (half on a GPU), or a type of torch such as ``float16``;
    ``threads`` is the number of threads for the model and for reading pictures (default: all cores); ``cache`` is a
    folder that stores vectors for later runs (default: in memory only); ``batch`` is the number of passages or pictures
    per model call (default: 32, and 256 on a GPU of CUDA); ``progress(done, total)`` is called during the work, in
    passages and pictures; ``trust_remote_code=True`` lets code that comes with a model run on this machine.

    >>> load("minni")
    Traceback (most recent call last):
    isthmus.errors.UnknownName: No encoder is called 'minni'. Did you mean 'mini'?
    """
    settings = Settings(
        device=device,
        precision=precision,
        threads=threads,
        cache=cache,
        batch=batch,
        progress=progress,
        trust_remote_code=trust_remote_code,
    )
    return open_named(name, settings)


def open_named(name: str, settings: Settings) -> Encoder:
    """Load an encoder by its name, with settings."""
    if not isinstance(name, str) or "\0" in name or not _can_be_a_path(name):
        raise BadInput(f"{shown(name)} is not an encoder's name. Write {', '.join([*EMBEDDED, *NAMED])}.")
    if name in REMOVED:
        raise UnknownName(f"The encoder {name!r} is not part of isthmus any more. {REMOVED[name]}")
    kind, colon, which = name.partition(":")
    family = find_family(KINDS, kind)
    if bool(family.rest) != bool(colon) or (colon and not which):
        raise BadInput(f"{name!r} is not an encoder's full name. Write {full_name(kind, family)}.")
    if settings.precision not in IN_FULL and not family.halves:
        able = ", ".join(word for word, family in KINDS.items() if family.halves)
        raise BadInput(
            f"{name!r} cannot run in the precision {settings.precision!r}. Leave precision out (--precision); these "
            f"can: {able}."
        )
    return _watching(family.open(which or kind, settings))


def _watching(encoder: Encoder) -> Encoder:
    """Let an encoder with an image tower that runs here read videos, too, by their key frames."""
    from isthmus.encoders.media import MediaEncoder
    from isthmus.encoders.towers import TowerEncoder

    # not a subclass: a service would be sent, and paid for, hundreds of frames
    if isinstance(encoder, TowerEncoder) and type(encoder) is TowerEncoder and encoder.image is not None:
        return MediaEncoder.of(encoder)
    return encoder


def located(name: str) -> str:
    """Return a name with the absolute path of its folder, if it names one; others as they are.

    >>> located("mini"), located("st:no/such/folder")
    ('mini', 'st:no/such/folder')
    """
    kind, _, rest = name.partition(":")
    if kind == "matryoshka":
        dim, _, other = rest.partition(":")
        return f"{kind}:{dim}:{located(other)}"
    if kind == "vlm":
        style, _, place = rest.partition(":")
        return f"{kind}:{style}:{located(f'hf:{place}').removeprefix('hf:')}"
    if kind == "hf" and (pair := two_names(rest)) is not None:
        return "hf:" + "+".join(located(f"hf:{each}").removeprefix("hf:") for each in pair)
    if not rest or kind not in KINDS or KINDS[kind].rest not in PLACES or "\0" in rest:
        return name
    with suppress(RuntimeError, OSError):  # ~ and what is no user's name
        folder = Path(rest).expanduser()
        return f"{kind}:{folder.resolve()}" if folder.is_dir() else name
    return name


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
    return _with_sound(_open(folder, settings), settings)


def _with_sound(encoder: Encoder, settings: Settings) -> Encoder:
    """Let an encoder read sounds and videos too, if the sound tower is anchored in its text space."""
    from isthmus.encoders.media import MediaEncoder
    from isthmus.encoders.sounds import DESCRIPTION as SOUND
    from isthmus.encoders.sounds import FOLDER, SoundTower
    from isthmus.encoders.towers import TowerEncoder

    if not isinstance(encoder, TowerEncoder) or not (FOLDER / SOUND).exists():
        return encoder
    sound = SoundTower(settings)
    return MediaEncoder.of(encoder, sound) if encoder.identities.get("text") == sound.text else encoder


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
        "base": replace(_EMBEDDED, halves=True),  # its pictures, on a GPU of torch
        "onnx": EncoderFamily(open=_onnx, rest="FOLDER", summary="exported models, with an encoder.toml"),
        "hf": built_in(
            "hf", "NAME_OR_PATH", "CLIP, SigLIP and their like", "transformers", "torch", extra="hf", halves=True
        ),
        "st": built_in(
            "st", "NAME_OR_PATH", "sentence-transformers models", "sentence_transformers", extra="st", halves=True
        ),
        "vlm": built_in(
            "vlm", "PROMPTS:NAME_OR_PATH", "vision-language models", "transformers", "torch", extra="hf", halves=True
        ),
        "clap": built_in(
            "clap", "NAME_OR_PATH", "CLAP: texts and sound", "transformers", "torch", extra="hf", halves=True
        ),
        "open_clip": built_in(
            "open_clip", "MODEL/PRETRAINED", "models of open_clip", "open_clip", "torch", extra="open-clip", halves=True
        ),
        "http": built_in(
            "http", "FORMAT[/OUTPUT]:MODEL[@URL]", "services in the formats of OpenAI, Cohere, Voyage, Jina"
        ),
        "matryoshka": built_in("matryoshka", "DIM:NAME", "the first numbers of another encoder's vectors", halves=True),
        "mteb": built_in("mteb", "NAME_OR_PATH", "models of mteb", "mteb", extra="mteb"),
    }
)
NAMED = tuple(full_name(word, family) for word, family in KINDS.items() if family.rest)
