"""Where files of encoders are: the folders of the embedded encoders, and the user's cache."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

COMPLETE = ("mini", "mini-fusion")  # these need nothing but the package; `base` also needs CLIP's image tower
SHARED_TEXTS = ("mini",)  # the embedded encoders whose text tower others may use
EMBEDDED: Mapping[str, Path] = MappingProxyType(  # the encoders that are part of the package
    {name: Path(__file__).parent / name for name in (*COMPLETE, "base")}
)


def user_cache() -> Path:
    """Return the cache folder: ``ISTHMUS_CACHE``, or ``isthmus`` in the user's cache folder."""
    given = os.environ.get("ISTHMUS_CACHE")
    return Path(given) if given else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "isthmus"
