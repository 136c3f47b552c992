r"""Names of files: any path becomes valid UTF-8, reversibly.

A name on disk may contain invalid bytes. They are written as ``\x`` and two hexadecimal digits; a backslash before such
digits is written ``\x5c``, so that names stay distinct.
"""

from __future__ import annotations

import re

_ESCAPED = re.compile("[\ud800-\udfff]|\\\\(?=x[0-9a-f]{2}|u[0-9a-f]{4})")
_ESCAPE = re.compile(r"\\x([0-9a-f]{2})|\\u([0-9a-f]{4})")


def readable(path: str) -> str:
    r"""Write a path as valid UTF-8.

    >>> readable("caf\udce9.txt"), readable("café.txt"), readable("caf\\xe9.txt")
    ('caf\\xe9.txt', 'café.txt', 'caf\\x5cxe9.txt')
    """
    return _ESCAPED.sub(_escape, path)


def true_path(name: str) -> str:
    r"""Undo `readable`.

    >>> true_path(readable("caf\udce9.txt")) == "caf\udce9.txt"
    True
    """
    return _ESCAPE.sub(_unescape, name)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if 0xDC80 <= code <= 0xDCFF:  # an invalid byte, as Python represents it
        return f"\\x{code - 0xDC00:02x}"
    return f"\\u{code:04x}" if code > 0x7F else f"\\x{code:02x}"


def _unescape(match: re.Match[str]) -> str:
    code = int(match[1] or match[2], 16)
    return chr(code + 0xDC00 if match[1] and code > 0x7F else code)


def extension(name: str) -> str:
    """Return the extension in lower case without its dot, empty if there is none.

    >>> extension("Photo.JPG"), extension("Makefile"), extension("a.tar.gz"), extension("notes.")
    ('jpg', '', 'gz', '')
    """
    stem, dot, last = name.rpartition(".")
    return last.lower() if dot and stem.strip(".") else ""
