"""Progress of long work, on stderr: a bar on a terminal, occasional lines elsewhere, nothing with ``--quiet``.

with counting("re-encoding", "documents", quiet=quiet) as update:
    things.reencode(encoder, progress=update)          # update(done, total)

re-encoding ━━━━━━━━━━━━━━╺━━━━━━━━━━━  1,204 of 2,310 documents, 31/s, 0:36 left
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Protocol

from isthmus.cli.terminal import echo, on_terminal, raw_stderr
from isthmus.errors import counted
from isthmus.search import Indexed

EVERY = 10.0  # seconds between lines if stderr is not a terminal
WIDTH = 28  # of a bar


class Show(Protocol):
    """Shows a line of text and the share of the work that is done."""

    def __call__(self, text: str, share: float | None = None, *, stage: str = "") -> None:
        """Show it; ``stage`` is the name of the next stage, if one begins."""


class Meter:
    """Formats progress: how much is done, the rate, and the time left.

    ``before`` was done before this run, and is not counted in the rate and the time left.

    >>> meter = Meter("documents", clock=iter([0.0, 10.0]).__next__)
    >>> meter.text(20, 100, 0.2)
    '20 of 100 documents, 2.0/s, 0:40 left'
    """

    def __init__(self, noun: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.noun, self.clock, self.began = noun, clock, clock()
        self.before, self.share_before = 0, 0.0

    def text(self, done: int, total: int | None, share: float | None) -> str:
        """Return the text. ``share`` is the part of the work that is done, from 0 to 1; None if it is unknown."""
        seconds = max(self.clock() - self.began, 1e-9)
        counted = f"{done:,}" if total is None else f"{done:,} of {total:,}"
        rate = (done - self.before) / seconds
        speed = f", {rate:,.0f}/s" if rate >= 10 else f", {rate:.1f}/s" if rate > 0 else ""
        gained = 0.0 if share is None else share - self.share_before
        if share is None or share >= 1 or gained <= 0:
            return f"{counted} {self.noun}{speed}"
        return f"{counted} {self.noun}{speed}, {duration(seconds * (1 - share) / gained)} left"


def duration(seconds: float) -> str:
    """Format a number of seconds as hours, minutes and seconds.

    >>> duration(40), duration(3723)
    ('0:40', '1:02:03')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


@contextmanager
def indexing(*, quiet: bool = False) -> Iterator[Callable[[Indexed], None]]:
    """Show the progress of an index run."""
    meter = Meter("documents")
    with _shown("indexing", quiet=quiet) as show:

        def update(report: Indexed) -> None:
            more = "+" if report.listing else ""
            share = report.files / report.listed if report.listed > 1 and not report.listing else None
            pages = f", {counted(report.pages.read, 'page')} read" if report.pages.read else ""
            done = f"{report.files:,} of {report.listed:,}{more} files{pages}"
            show(f"{done}, {meter.text(report.done, None, share)}", share)

        yield update


@contextmanager
def counting(
    what: str, noun: str, *, then: str = "", resumes: bool = False, quiet: bool = False
) -> Iterator[Callable[[int, int], None]]:
    """Show how much of a known number is done; ``then`` names the stage after the last.

    ``resumes``: the number in the first call was done in an earlier run.
    """
    meter, called = Meter(noun), False
    with _shown(what, quiet=quiet) as show:

        def update(done: int, total: int) -> None:
            nonlocal called
            share = done / total if total else 1.0
            if resumes and not called:
                meter.before, meter.share_before = done, share
            called = True
            show(meter.text(done, total, share), share)
            if then and done == total:
                show("", stage=then)

        yield update


@contextmanager
def stages(
    noun: str, *, resumes: bool = False, quiet: bool = False
) -> Iterator[Callable[[str], Callable[[int, int], None]]]:
    """Show work of several stages, each counted; the function that is yielded begins one. ``resumes`` as above."""
    with ExitStack() as stack:

        def begin(what: str) -> Callable[[int, int], None]:
            stack.close()  # the stage before has ended
            return stack.enter_context(counting(what, noun, resumes=resumes, quiet=quiet))

        yield begin


@contextmanager
def waiting(what: str, *, quiet: bool = False) -> Iterator[None]:
    """Show that work of unknown length is running."""
    with _shown(what, quiet=quiet):
        yield


@contextmanager
def _shown(what: str, *, quiet: bool) -> Iterator[Show]:
    if quiet:
        yield lambda *_, **__: None
    elif on_terminal():
        with _bar(what) as show:
            yield show
    else:
        yield _lines(what)


def _lines(what: str) -> Show:
    last = time.monotonic()
    echo(f"{what} …", err=True)

    def show(text: str, share: float | None = None, *, stage: str = "") -> None:  # noqa: ARG001 - only a bar shows it
        nonlocal last
        if stage:
            echo(f"{stage} …", err=True)
        elif time.monotonic() - last >= EVERY:
            last = time.monotonic()
            echo(f"{what}: {text}", err=True)

    return show


@contextmanager
def _bar(what: str) -> Iterator[Show]:
    from rich.console import Console  # late: most verbs show no progress
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(WIDTH))
    console = Console(file=raw_stderr(), force_terminal=True)
    drawn = Progress(
        *columns,
        TextColumn("{task.fields[text]}", markup=False),
        console=console,
        transient=True,
        redirect_stdout=False,  # other output is escaped, see terminal.py
        redirect_stderr=False,
    )
    task = drawn.add_task(what, total=None, text="")

    def show(text: str, share: float | None = None, *, stage: str = "") -> None:
        total = None if share is None else 1.0
        drawn.update(task, description=stage or what, total=total, completed=share or 0.0, text=text)

    with drawn:
        yield show
