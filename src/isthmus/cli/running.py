"""One run of the command line: errors become one line and an exit code; a closed output shows no traceback."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from contextlib import suppress

from isthmus.cli.extras import extra_of, install
from isthmus.cli.terminal import echo, guarded
from isthmus.cli.verbs import app
from isthmus.errors import IsthmusError, codes_of

CLOSED = 141  # the exit code when the output is closed: 128 plus the number of SIGPIPE


def run() -> int:
    """Run the verb of the command line; return the exit code."""
    code = 1
    with guarded():
        try:
            code = _verb()
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:
                    stream.flush()
        except BrokenPipeError:
            code = CLOSED
            _discard_output()
        except OSError as error:
            with suppress(OSError):
                echo(f"isthmus: {_failure(error)}", err=True)
            code = 1
            _discard_output()
    return code


def _verb() -> int:
    try:
        result = app()
    except SystemExit as ended:
        if isinstance(ended.__context__, BrokenPipeError):
            raise BrokenPipeError(errno.EPIPE, "the output is closed") from None
        result = ended.code
    except IsthmusError as error:
        echo(f"isthmus: {error}", err=True)
        return codes_of(error).exit
    except OSError:
        raise
    except Exception as error:  # noqa: BLE001 - shown with escapes, which the interpreter would not do
        extra = extra_of(error.name) if isinstance(error, ModuleNotFoundError) else None
        if extra is not None and isinstance(error, ModuleNotFoundError):
            echo(f"isthmus: This needs {error.name!r}. Install it with: {install(extra)}", err=True)
            return 1
        echo(traceback.format_exc().rstrip(), err=True)
        echo("isthmus: this is a bug in isthmus. Please report it with the lines above.", err=True)
        return 1
    return result if isinstance(result, int) else 0 if result is None else 1


def _failure(error: OSError) -> str:
    why = error.strerror or str(error)
    if error.filename is not None:
        return f"{error.filename!r} cannot be used: {why}."
    return f"the output cannot be written: {why}. Check the space on its device."


def _discard_output() -> None:
    """Send buffered output to the null device: otherwise Python would try to write it again at exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
            continue
        with suppress(OSError, ValueError, AttributeError):
            os.dup2(null, stream.fileno())
    os.close(null)
