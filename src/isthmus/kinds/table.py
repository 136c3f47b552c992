"""The table of kinds: those built in, those registered, and those of installed packages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from isthmus.errors import BadInput, shown
from isthmus.kinds.base import Kind
from isthmus.kinds.image import ImageKind
from isthmus.kinds.recordings import AudioKind, VideoKind
from isthmus.kinds.text import TextKind
from isthmus.registry import lookup
from isthmus.types import part_name

GROUP = "isthmus.kinds"  # of entry points
SUFFIX = re.compile(r"\.[a-z0-9_-]+")

BUILT_IN = (TextKind(), ImageKind(), AudioKind(), VideoKind())
_KINDS: dict[str, Kind] = {kind.name: kind for kind in BUILT_IN}
KINDS: Mapping[str, Kind] = MappingProxyType(_KINDS)


def register(kind: Kind) -> None:
    """Add a kind to the table, in place of one of the same name."""
    if not isinstance(kind, Kind) or "+" in part_name(getattr(kind, "name", None)):
        raise BadInput(
            f"{shown(kind)} is not a kind. Give an instance of a subclass of isthmus.kinds.Kind with a name."
        )
    for suffix in kind.suffixes:
        if not SUFFIX.fullmatch(suffix):
            raise BadInput(
                f"The kind {kind.name!r} has the suffix {shown(suffix)}. Write it in lower case with one dot, at the "
                "front, as in '.tone'."
            )
    _KINDS[kind.name] = kind


def unregister(name: str) -> None:
    """Take a kind out of the table."""
    if name in {kind.name for kind in BUILT_IN}:
        raise BadInput(f"The kind {name!r} is built in and cannot be removed.")
    _KINDS.pop(name, None)


def get(name: str) -> Kind:
    """Return a kind by its name, from an installed package if need be."""
    if name in _KINDS:
        return _KINDS[name]
    if isinstance(name, str):
        from importlib.metadata import entry_points  # late: few need it

        for point in entry_points(group=GROUP):
            if point.name == name:
                register(point.load())
    return lookup(KINDS, name, "kind of part")


def stored(name: str) -> Kind:
    """Return the kind of a stored part; where its package is no longer installed, one that takes it as it is."""
    if name in _KINDS:
        return _KINDS[name]
    try:
        return get(name)
    except BadInput:
        unknown: Kind = type("UnknownKind", (Kind,), {"name": name})()
        return unknown


def by_suffix(suffix: str) -> Kind | None:
    """Return the kind that makes documents of files with this ending, as ``.tone``."""
    return next((kind for kind in KINDS.values() if suffix in kind.suffixes), None)
