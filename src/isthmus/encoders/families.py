"""The families of encoders: one table from the first word of a name to what opens it.

Installed packages add rows by entry points of the group ``isthmus.encoders``. The name of an entry point is the first
word of an encoder's name (``tones`` for ``tones:NAME``), its value is an ``EncoderFamily``:

    [project.entry-points."isthmus.encoders"]
    tones = "your_package:TONES"
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeAlias

from isthmus.encoders.base import Encoder, Settings
from isthmus.errors import BadFile, BadInput, IsthmusError
from isthmus.registry import lookup

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "isthmus.encoders"  # of entry points
FIRST_WORD = re.compile(r"[a-z][a-z0-9_-]*")
Opener: TypeAlias = Callable[[str, Settings], Encoder]


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderFamily:
    """Encoders whose names start with the same word.

    ``open`` takes what follows the colon, and the settings. ``rest`` says what that is, as in ``NAME_OR_PATH``; it is
    empty for a family of one encoder, whose name has no colon. ``needs`` are modules that must be installed,
    ``install`` is the command that installs them. ``halves`` says whether it heeds ``Settings.precision``.
    """

    open: Opener
    rest: str = ""
    summary: str = ""
    needs: tuple[str, ...] = ()
    install: str = ""
    halves: bool = False

    @property
    def missing(self) -> tuple[str, ...]:
        """The modules of ``needs`` that are not installed."""
        return tuple(module for module in self.needs if find_spec(module) is None)


def built_in(module: str, rest: str, summary: str, *needs: str, extra: str = "", halves: bool = False) -> EncoderFamily:
    """Return the row of a module of this package, which has a function ``open_model(rest, settings)``."""
    install = f"pip install 'isthmus[{extra}]'" if extra else ""
    opener = partial(_open_by, module)
    return EncoderFamily(open=opener, rest=rest, summary=summary, needs=needs, install=install, halves=halves)


def _open_by(module: str, rest: str, settings: Settings) -> Encoder:
    opened: Encoder = import_module(f"isthmus.encoders.{module}").open_model(rest, settings)
    return opened


def find_family(known: Mapping[str, EncoderFamily], word: str) -> EncoderFamily:
    """Return the family of a word: a row of the table, or that of an installed package."""
    if word in known:
        return known[word]
    added: dict[str, Sequence[EntryPoint]] = dict.fromkeys(known, ()) | plug_ins()
    return from_package(word, lookup(added, word, "encoder"), known)


def plug_ins() -> dict[str, Sequence[EntryPoint]]:
    """Return the entry points of installed packages, by name. Nothing of them is imported."""
    from importlib.metadata import entry_points  # late: few need it

    found: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=GROUP):
        found.setdefault(point.name, []).append(point)
    return dict(found)


def from_package(word: str, points: Sequence[EntryPoint], known: Mapping[str, EncoderFamily]) -> EncoderFamily:
    """Load the family that a package adds; raise an error that names the package if that fails."""
    packages = " and ".join(sorted(map(_package, points)))
    if word in known:
        raise BadInput(f"The package {packages} adds an encoder called {word!r}, which is a name of isthmus. {_WHAT}")
    if len(points) > 1:
        raise BadInput(f"The packages {packages} both add an encoder called {word!r}. Uninstall one of them.")
    if not FIRST_WORD.fullmatch(word):
        raise BadInput(
            f"The package {packages} adds an encoder called {word!r}. A name has small letters, digits, _ and - only. "
            f"{_WHAT}"
        )
    try:
        family = points[0].load()
    except Exception as error:  # noqa: BLE001 - a package's import can fail in any way
        problem = f"{type(error).__name__}: {error}"
        raise BadFile(
            f"The package {packages} adds the encoder {word!r} and cannot be imported ({problem}). {_WHAT}"
        ) from None
    if not isinstance(family, EncoderFamily):
        raise BadFile(
            f"The package {packages} adds the encoder {word!r} as a {type(family).__name__}, not an EncoderFamily. "
            f"{_WHAT}"
        )
    return family


def installed(known: Mapping[str, EncoderFamily]) -> Iterator[tuple[str, str, EncoderFamily | IsthmusError]]:
    """Yield the name, the package and the family of every plug-in, or the error that loading it raises."""
    for word, points in sorted(plug_ins().items()):
        packages = ", ".join(sorted(map(_package, points)))
        try:
            yield word, packages, from_package(word, points, known)
        except IsthmusError as error:
            yield word, packages, error


def full_name(word: str, family: EncoderFamily) -> str:
    """Return how names of a family are written: ``mini``, ``onnx:FOLDER``."""
    return f"{word}:{family.rest}" if family.rest else word


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.value


_WHAT = "Update or uninstall the package."
