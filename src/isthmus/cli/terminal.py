r"""Safe output: control characters in documents, file names and errors never reach the terminal.

A text may contain escape sequences that clear the screen, rewrite earlier lines or type into the shell, and marks that
change the direction of the text after them. Such characters are written as escapes (``\x1b``, ``\u202e``).

    echo("…")                      a message; line ends stay, other control characters do not
    echo(f"{line(name)}: …")       ``line`` keeps a name on one line as well
    guarded()                      the same for everything else on the standard streams: click's errors, warnings
"""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TextIO, cast

import numpy as np
import typer

# C0 except tab and line end, DEL, C1; lone surrogates; line and paragraph separators; marks and overrides of direction
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def safe(text: str) -> str:
    r"""Write control characters as escapes; tabs and line ends stay.

    >>> safe("a \x1b[31mred\x9b2J\u202e\ud800 word\tand\n")
    'a \\x1b[31mred\\x9b2J\\u202e\\ud800 word\tand\n'
    """
    return UNSAFE.sub(_escaped, text)


def line(text: object) -> str:
    r"""Write a value on one line: line ends and tabs become escapes, too.

    >>> line("two\nlines")
    'two\\nlines'
    """
    return safe(str(text)).replace("\n", "\\n").replace("\t", "\\t")


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code > 0xFF:
        return f"\\u{code:04x}"
    return "\\r" if code == 0x0D else f"\\x{code:02x}"


def echo(text: object = "", *, err: bool = False, nl: bool = True) -> None:
    """Print a message."""
    typer.echo(safe(str(text)), err=err, nl=nl)


def reporter(*, quiet: bool) -> Callable[[str], None]:
    """Return a function that prints a log line on stderr, or nothing with ``quiet``."""
    return (lambda _: None) if quiet else partial(echo, err=True)


def echo_json(value: Any) -> None:
    """Print one JSON value for machines; non-finite numbers become null, unsafe characters JSON escapes."""
    echo(as_json(value))


def as_json(value: Any) -> str:
    r"""Write JSON that is safe to print: control characters become ``\uXXXX``, which means the same in JSON.

    >>> print(as_json({"é": "\x1b\x9b\u202e", "drift": float("inf")}))
    {"é": "\u001b\u009b\u202e", "drift": null}
    """
    try:
        written = json.dumps(value, ensure_ascii=False, default=_plain, allow_nan=False)
    except ValueError:
        finite = json.loads(json.dumps(value, default=_plain), parse_constant=lambda _: None)
        written = json.dumps(finite, ensure_ascii=False)
    return safe_json(written)


def safe_json(text: str) -> str:
    """Escape control characters in JSON text; they occur only inside its strings."""
    return UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _plain(value: Any) -> Any:
    if isinstance(value, np.floating | np.integer):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    return str(value)


def on_terminal() -> bool:
    """Whether stderr is a terminal, where a line can be redrawn."""
    return sys.stderr is not None and sys.stderr.isatty()


def raw_stderr() -> TextIO:
    """Return stderr for our own control sequences; never write text from elsewhere to it."""
    stream = sys.stderr
    return cast("TextIO", _Raw(stream)) if isinstance(stream, _Guarded) else stream


class _Guarded(io.TextIOWrapper):
    """A text stream that escapes control characters."""

    def write(self, text: str) -> int:
        """Write text with escapes."""
        return super().write(safe(text))

    def write_raw(self, text: str) -> int:
        """Write our own control sequences."""
        return super().write(text)


class _Raw(io.TextIOBase):
    """Writes past a guard, for our own control sequences."""

    def __init__(self, guarded_stream: _Guarded) -> None:
        self._stream = guarded_stream

    def write(self, text: str) -> int:
        """Write text as it is."""
        return self._stream.write_raw(text)

    def flush(self) -> None:
        """Flush the stream below."""
        self._stream.flush()

    def isatty(self) -> bool:
        """Whether the stream below is a terminal."""
        return self._stream.isatty()


@contextmanager
def guarded() -> Iterator[None]:
    """Escape everything written to the standard streams inside the block."""
    before = sys.stdout, sys.stderr
    now = [_guard(stream) for stream in before]
    sys.stdout, sys.stderr = now
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        for stream in now:
            if isinstance(stream, _Guarded):
                with suppress(OSError, ValueError):  # the last writer has already raised it
                    stream.detach()  # otherwise the stream below would be closed with it


def _guard(stream: TextIO) -> TextIO:
    buffer = getattr(stream, "buffer", None)  # a replaced stream may have none
    if buffer is None:
        return stream
    stream.flush()
    return _Guarded(
        buffer, encoding=stream.encoding, errors="backslashreplace", line_buffering=stream.isatty(), write_through=False
    )
