"""The command line. It is thin: a verb parses its options, calls one library function and prints.

Nothing heavy is imported here: ``main`` must run before Ctrl-C can be handled.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isthmus.cli.verbs import app

__all__ = ["app", "main"]

INTERRUPTED = 130  # the exit code after Ctrl-C: 128 and the number of the signal


def __getattr__(name: str) -> Any:
    """Import the verbs when they are first used."""
    if name == "app":
        from isthmus.cli.verbs import app

        return app
    raise AttributeError(f"module 'isthmus.cli' has no attribute {name!r}")


def main() -> None:
    """Run the command line; exit with 0 done, 1 failed, 2 wrong usage, 3 done but for skipped inputs.

    After Ctrl-C the exit code is 130, even if a library has swallowed the exception; if the reader of the output has
    closed the pipe, it is 141, as for other programs.
    """
    interrupts: list[int] = []

    def interrupt(number: int, _: FrameType | None) -> None:
        interrupts.append(number)
        raise KeyboardInterrupt

    handled = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else Ctrl-C is ignored, as with nohup
    try:
        if handled:
            signal.signal(signal.SIGINT, interrupt)
        _open_standard_streams()
        from isthmus.cli.running import run

        code = run()
    except KeyboardInterrupt:
        code = INTERRUPTED
    finally:
        if handled:
            signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(INTERRUPTED if interrupts else code)


def _open_standard_streams() -> None:
    """Open the null device for closed standard streams, so that no other file takes their number."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
