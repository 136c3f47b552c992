"""Every error isthmus raises on purpose, as one tree.

Each message says what is wrong, why it matters and what to do about it.

    IsthmusError
    ├── BadInput (ValueError)          something handed in cannot be used
    │   ├── BadVectors                 shape, dimension, NaN, a zero row
    │   ├── UnknownName                a name no table holds; the nearest one is suggested
    │   ├── BadImage                   a picture that cannot be read, or is too large to
    │   ├── CannotRead                 a file that the system does not give now, and may give later
    │   ├── CannotEncode               documents that an encoder cannot read, each with the reason
    │   ├── BadSpec                    a calibration spec that cannot be read or composed
    │   └── UnknownModality            a modality the fitted calibration never saw
    ├── CannotFit (ValueError)         the data do not determine what was asked for
    ├── BadFile (ValueError)           a file that is damaged or of another kind
    ├── CannotWrite (OSError)          a full disk, a folder that is read-only, another writer at work
    ├── CannotReach (OSError)          a service does not answer, refuses, or answers nonsense
    └── MissingExtra (ImportError)     an optional dependency is not installed
"""

from collections.abc import Sequence

SHOWN = 80  # characters of a value that a message repeats


def shown(value: object) -> str:
    """Write a value for a message: short, and safe for values that cannot be written at all.

    >>> shown("a" * 100)[-4:], shown(5)
    ('aaa…', '5')
    """
    try:
        said = repr(value)
    except Exception:  # noqa: BLE001 - nested too deep, or a repr of its own that fails
        return f"a {type(value).__name__}"
    return said if len(said) <= SHOWN else f"{said[:SHOWN]}…"


class IsthmusError(Exception):
    """The root: catch this to catch everything isthmus raises on purpose."""


class BadInput(IsthmusError, ValueError):
    """Something handed in cannot be used."""


class BadVectors(BadInput):
    """Vectors of the wrong shape or dimension, with NaN, or of length zero."""


class UnknownName(BadInput):
    """A name that no table holds."""


class BadImage(BadInput):
    """A picture that cannot be read, or that has more pixels than the budget allows."""


class CannotRead(BadInput):
    """A file or folder that the system does not give now: permissions, the disk, a link that leads nowhere."""


class CannotEncode(BadInput):
    """Documents that an encoder cannot read: ``skipped`` has the id of each, and why."""

    def __init__(self, message: str, skipped: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(message)
        self.skipped = tuple(skipped)


class BadSpec(BadInput):
    """A calibration spec that cannot be read, or steps that do not compose."""


class UnknownModality(BadInput):
    """A modality that the fitted calibration never saw."""


class CannotFit(IsthmusError, ValueError):
    """The data do not determine what was asked for."""


class BadFile(IsthmusError, ValueError):
    """A file that is damaged, or of another kind or version."""


class CannotWrite(IsthmusError, OSError):
    """Nothing can be written: the disk is full, the folder read-only, or another process is writing."""


class CannotReach(IsthmusError, OSError):
    """A service does not answer, refuses, or answers what nobody can read."""


class MissingExtra(IsthmusError, ImportError):
    """An optional dependency is not installed."""
