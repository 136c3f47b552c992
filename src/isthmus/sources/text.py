"""Text files: UTF-8, or UTF-16 and UTF-32 with a byte order mark. Encodings are not guessed."""

from __future__ import annotations

import codecs
import errno
import re
import shlex
from collections.abc import Iterator
from pathlib import PurePosixPath

from isthmus.budget import CHARACTERS, TEXT_BYTES, mebibytes
from isthmus.documents import Document
from isthmus.errors import BadInput
from isthmus.files import read_regular
from isthmus.sources.base import Found
from isthmus.sources.files import File

CONTROLS = re.compile("[\x01-\x07\x0e-\x1a\x1c-\x1f\x7f]")  # not tab, line ends, backspace or the escape of colours
MOST_CONTROLS = 0.1  # text has almost none; binary data about an eighth
# The longer marks come first: UTF-32's begins with UTF-16's.
MARKS = [(codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF32_LE, "utf-32-le"), (codecs.BOM_UTF32_BE, "utf-32-be")]
MARKS += [(codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")]


def read(file: File) -> Iterator[Found]:
    """Yield the file as one text document."""
    yield Document(id=file.name, text=read_text(file), metadata=file.facts)


def read_text(file: File, *, characters: int = CHARACTERS) -> str:
    """Return the text of a file, or raise an error with the reason."""
    return decode(read_bytes(file), file.name, characters=characters)


def read_bytes(file: File) -> bytes:
    """Return the bytes of a file, if they are not too many."""
    try:
        return read_regular(file.path, TEXT_BYTES)
    except OSError as error:
        if error.errno != errno.EFBIG:
            raise
        most = f"{mebibytes(TEXT_BYTES)}, the limit for one document"
        raise BadInput(f"is larger than {most}. Split it") from None


def decode(data: bytes, name: str, *, characters: int = CHARACTERS) -> str:
    """Decode a text of at most ``characters``; ``name`` is used in error messages.

    >>> decode("café".encode("utf-16"), "a.txt")
    'café'
    >>> decode("café".encode("latin-1"), "a.txt")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    isthmus.errors.BadInput: is not UTF-8: byte 3 is 0xe9. If it is Windows-1252: iconv -f WINDOWS-1252 ...
    """
    mark, encoding = mark_of(data)
    try:
        text = data[len(mark) :].decode(encoding)
    except UnicodeDecodeError as error:
        at = error.start + len(mark)
        what_to_do = "It is truncated or damaged" if mark else convert("WINDOWS-1252", name)
        raise BadInput(f"is not {encoding.upper()}: byte {at} is 0x{data[at]:02x}. {what_to_do}") from None
    if len(text) > characters:
        raise BadInput(f"has {len(text):,} characters; the limit for one document is {characters:,}. Split it")
    if not text or text.isspace():
        raise BadInput("is empty: it contains only spaces")
    if "\0" in text:
        at = len(mark) + len(text[: text.index("\0")].encode(encoding))
        raise BadInput(f"is not text: byte {at} is NUL. {convert('UTF-16LE', name)}")
    controls = sum(1 for _ in CONTROLS.finditer(text))
    if controls > MOST_CONTROLS * len(text):
        first = CONTROLS.search(text)
        at = len(mark) + len(text[: first.start() if first else 0].encode(encoding))
        raise BadInput(
            f"is not text: {controls} of {len(text)} characters are control characters, the first at byte {at}"
        )
    return text


def mark_of(data: bytes) -> tuple[bytes, str]:
    """Return the byte order mark of a text, and its encoding.

    >>> mark_of(b"plain")
    (b'', 'utf-8')
    """
    return next(((mark, encoding) for mark, encoding in MARKS if data.startswith(mark)), (b"", "utf-8"))


def convert(encoding: str, name: str) -> str:
    """Return how to convert a file from an encoding."""
    known = {"WINDOWS-1252": "Windows-1252", "UTF-16LE": "UTF-16"}[encoding]
    old = PurePosixPath(name).name
    return f"If it is {known}: iconv -f {encoding} -t UTF-8 {shlex.quote(old)} > {shlex.quote(f'new-{old}')}"
