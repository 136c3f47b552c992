"""``isthmus copy``: the same collection on another engine."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from isthmus.cli import INTERRUPTED, progress
from isthmus.cli.options import Json, Quiet
from isthmus.cli.terminal import echo, echo_json
from isthmus.errors import counted
from isthmus.search import Collection, Copied


def copy(
    source: Annotated[str, typer.Argument(metavar="SRC", help="the collection: a folder or postgresql://…")],
    target: Annotated[str, typer.Argument(metavar="DST", help="the copy: a new folder or postgresql://…")],
    vectors: Annotated[
        str | None,
        typer.Option(help="where the copy's folded vectors live, as for `isthmus index`; default: with the copy"),
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Copy a collection to another engine, and compare the copy with it.

        isthmus copy things.isthmus "postgresql://host/library?collection=things"

    Documents, vectors, files that were read, calibrations and queries come along; both then answer alike. SRC can be
    searched and written meanwhile: the copy is what it was when the command began. Interrupt it at any time: the same
    command continues, and until then DST cannot be opened. Nothing is overwritten. Of a finished copy, the same command
    compares both again.
    """
    with Collection.open(source, create=False, follow=False) as things:
        try:
            with progress.stages("documents", resumes=True, quiet=quiet or json) as stage:
                done = things.copy_to(target, vectors=vectors, progress=stage)
        except KeyboardInterrupt:
            echo("\nInterrupted. Run the same command to continue.", err=True)
            raise typer.Exit(INTERRUPTED) from None
    if json:
        echo_json(asdict(done))
        return
    _told(done)


def _told(done: Copied) -> None:
    before = f" ({done.earlier:,} copied in earlier runs)" if done.earlier and not done.already else ""
    echo(f"{done.target} is {'still ' if done.already else ''}equal to {done.source}{before}:")
    for name, digest in done.sha256.items():
        echo(f"  {getattr(done, name):,} {name}, SHA-256 {digest}")
    earlier = len(done.calibrations) - 1
    more = f", with {counted(earlier, 'earlier calibration')}" if earlier > 0 else ""
    echo(f"Calibration {done.calibration}: {done.spec}{more}." if done.calibration else "It has no calibration yet.")
    if done.changed:
        echo(f"{done.source} has changed meanwhile: the copy is what it was when this command began.", err=True)
