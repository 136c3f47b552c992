"""The exceptions of isthmus, as one tree.

Each message says what is wrong, why it matters and what to do about it.

    IsthmusError
    ├── BadInput (ValueError)          an argument or input cannot be used
    │   ├── BadVectors                 shape, dimension, NaN, a zero row
    │   ├── UnknownName                an unknown name; the nearest known one is suggested
    │   │   └── UnknownDocument        an id no document of the collection has
    │   ├── BadImage                   a picture that cannot be read, or is too large
    │   ├── CannotRead                 a file that cannot be opened now, but perhaps later
    │   ├── CannotEncode               documents that an encoder cannot read, each with the reason
    │   ├── WorseEncoder               a collection would find less after a re-encoding
    │   ├── BadSpec                    a calibration spec that cannot be read or composed
    │   └── UnknownModality            a modality the fitted calibration never saw
    ├── CannotFit (ValueError)         the data is not sufficient for the fit
    ├── BadFile (ValueError)           a file that is damaged or has another format
    │   └── UnfinishedCopy             a copy of a collection that is not complete yet
    ├── CannotWrite (OSError)          a full disk, a read-only folder, another active writer
    │   └── Closed                     the collection was closed; open it again
    ├── CannotReach (OSError)          a service does not answer, refuses, or returns an invalid answer
    └── MissingExtra (ImportError)     an optional dependency is not installed

``CODES`` maps every class to the exit code of the command line and to the status of an HTTP response.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from isthmus.urls import without_password

SHOWN = 80  # characters of a value that a message repeats


def shown(value: object) -> str:
    """Format a value for a message: short, and safe for values whose repr fails.

    >>> shown("a" * 100)[-4:], shown(5)
    ('aaa…', '5')
    """
    try:
        said = without_password(repr(value))
    except Exception:  # noqa: BLE001 - nested too deep, or a repr of its own that fails
        return f"a {type(value).__name__}"
    return said if len(said) <= SHOWN else f"{said[:SHOWN]}…"


def counted(number: int, noun: str) -> str:
    """Format a number with its noun, in the singular or the plural.

    >>> counted(1, "document"), counted(1204, "document"), counted(0, "query")
    ('1 document', '1,204 documents', '0 queries')
    """
    several = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else several}"


class IsthmusError(Exception):
    """The base class of all exceptions of isthmus. Passwords are removed from the URLs in a message."""

    def __init__(self, *args: object) -> None:
        super().__init__(*(without_password(one) if isinstance(one, str) else one for one in args))


class BadInput(IsthmusError, ValueError):
    """An argument or input cannot be used."""


class BadVectors(BadInput):
    """Vectors of the wrong shape or dimension, with NaN, or of length zero."""


class UnknownName(BadInput):
    """An unknown name."""


class UnknownDocument(UnknownName):
    """An id that no document of the collection has."""


class BadImage(BadInput):
    """A picture that cannot be read, or that has more pixels than the budget allows."""


class CannotRead(BadInput):
    """A file or folder that cannot be opened now: permissions, the disk, a broken link."""


class CannotEncode(BadInput):
    """Documents that an encoder cannot read: ``skipped`` has the id of each, and why."""

    def __init__(self, message: str, skipped: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(message)
        self.skipped = tuple(skipped)


class WorseEncoder(BadInput):
    """An encoder with which a collection would find less: ``before`` and ``after`` are its scores."""

    def __init__(self, message: str, before: float | None = None, after: float | None = None) -> None:
        super().__init__(message)
        self.before, self.after = before, after


class BadSpec(BadInput):
    """A calibration spec that cannot be read, or steps that do not compose."""


class UnknownModality(BadInput):
    """A modality that the fitted calibration never saw."""


class CannotFit(IsthmusError, ValueError):
    """The data is not sufficient for the fit."""


class BadFile(IsthmusError, ValueError):
    """A file that is damaged, or has another format or version."""


class UnfinishedCopy(BadFile):
    """A copy of a collection that is not complete yet."""


class CannotWrite(IsthmusError, OSError):
    """Nothing can be written: the disk is full, the folder read-only, or another process is writing."""


class Closed(CannotWrite):
    """The collection was closed. It is a ``CannotWrite`` because versions before 0.2 raised that."""


class CannotReach(IsthmusError, OSError):
    """A service does not answer, refuses, or returns an invalid answer."""


class MissingExtra(IsthmusError, ImportError):
    """An optional dependency is not installed."""


class Codes(NamedTuple):
    """The codes of an error: ``exit`` for the command line, ``status`` for HTTP."""

    exit: int
    status: int


CODES: Mapping[type[IsthmusError], Codes] = MappingProxyType(
    {
        IsthmusError: Codes(exit=1, status=500),
        BadInput: Codes(exit=1, status=400),
        BadVectors: Codes(exit=1, status=400),
        UnknownName: Codes(exit=2, status=400),
        UnknownDocument: Codes(exit=2, status=404),
        BadImage: Codes(exit=1, status=422),
        CannotRead: Codes(exit=1, status=422),
        CannotEncode: Codes(exit=1, status=422),
        WorseEncoder: Codes(exit=1, status=409),
        BadSpec: Codes(exit=2, status=400),
        UnknownModality: Codes(exit=1, status=400),
        CannotFit: Codes(exit=1, status=409),  # the request is fine; the collection lacks the data for it
        BadFile: Codes(exit=1, status=500),
        UnfinishedCopy: Codes(exit=1, status=503),
        CannotWrite: Codes(exit=1, status=503),
        Closed: Codes(exit=1, status=503),
        CannotReach: Codes(exit=1, status=502),
        MissingExtra: Codes(exit=1, status=501),
    }
)


def codes_of(error: IsthmusError) -> Codes:
    """Return the codes of an error; a class outside the table has those of its nearest base.

    >>> codes_of(UnknownName("No calibration is called 'centre'.")).exit
    2
    """
    return next(CODES[kind] for kind in type(error).__mro__ if kind in CODES)
