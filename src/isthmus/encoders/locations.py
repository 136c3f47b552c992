"""Where files of encoders are: the folders of the embedded encoders, and the user's cache."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

COMPLETE = ("mini",)  # these need nothing but the package; `base` also needs CLIP's image tower
SHARED_TEXTS = ("mini",)  # the embedded encoders whose text tower others may use
EMBEDDED: Mapping[str, Path] = MappingProxyType(  # the encoders that are part of the package
    {name: Path(__file__).parent / name for name in (*COMPLETE, "base")}
)


def user_cache() -> Path:
    """Return the cache folder: ``ISTHMUS_CACHE``, or ``isthmus`` in the user's cache folder."""
    given = os.environ.get("ISTHMUS_CACHE")
    if given:
        return Path(given).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "isthmus"


def two_names(name: str) -> tuple[str, str] | None:
    """Return the names of ``TEXT+IMAGE``; None for one name, and for a folder with a plus sign in its path.

    >>> two_names("nomic-ai/text+nomic-ai/vision"), two_names("openai/clip-vit-base-patch32")
    (('nomic-ai/text', 'nomic-ai/vision'), None)
    """
    first, plus, second = name.partition("+")
    if not plus or not first or not second or Path(name).expanduser().is_dir():
        return None
    return first, second
