"""``isthmus reencode``: switch a collection to another encoder."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from isthmus.cli import INTERRUPTED, progress, show
from isthmus.cli.index import SKIPPED, because
from isthmus.cli.opening import open_existing
from isthmus.cli.options import ENCODERS, Device, In, Json, Precision, Quiet, Threads, TrustRemoteCode
from isthmus.cli.terminal import echo, echo_json
from isthmus.encoders.base import FULL
from isthmus.errors import CannotEncode, counted
from isthmus.search import Collection, Reencoded, Skipped
from isthmus.search.reencode import SHOWN


def reencode(
    into: In,
    encoder: Annotated[
        str,
        typer.Option(
            envvar="ISTHMUS_ENCODER",
            help=f"the new encoder: {ENCODERS}",
        ),
    ],
    drop: Annotated[
        bool,
        typer.Option(
            "--drop", help="delete documents that cannot be encoded, for example because their pictures are gone"
        ),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="switch even if the collection is searched worse with the new encoder")
    ] = False,
    device: Device = "cpu",
    precision: Precision = FULL,
    trust_remote_code: TrustRemoteCode = False,
    threads: Threads = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Encode every document again with another encoder, and switch to it in one step at the end.

        isthmus reencode --in things.isthmus --encoder onnx:models/mine

    Until then, searches use the old vectors. Interrupt it at any time: the same command continues where it stopped, and
    another encoder starts over. The collection is calibrated again by the same spec. If a document cannot be encoded,
    nothing changes, unless --drop is given. The score before and after, on the same questions, is shown; if it falls by
    more than chance explains, nothing changes, unless --force is given.
    """
    with open_existing(into, device, precision, threads, trust_remote_code=trust_remote_code) as things:
        try:
            bar = progress.counting("re-encoding", "documents", then="calibrating", resumes=True, quiet=quiet or json)
            with bar as update:
                done = things.reencode(encoder, drop=drop, force=force, progress=update)
        except KeyboardInterrupt:
            begun = things.stats().reencoding
            kept = f"{begun} so far. Run the same command to continue." if begun else "Nothing was changed."
            echo(f"\nInterrupted. {kept}", err=True)
            raise typer.Exit(INTERRUPTED) from None
        except CannotEncode as error:
            if len(error.skipped) > SHOWN:  # otherwise the error lists them all
                show.skipped([Skipped(*one) for one in error.skipped])
            raise
        _told(things, done, json)
        show.used(things, err=True)
    if done.skipped:
        raise typer.Exit(SKIPPED)


def _told(things: Collection, done: Reencoded, json: bool) -> None:
    now = things.calibration
    if json:
        spec = None if now is None else str(now.fitted.spec)
        echo_json({**asdict(done), "documents": len(things), "calibration": spec})
        return
    if done.already:
        echo(f"No changes. {things.path} already has the vectors of {done.encoder}.")
        return
    before = f" ({done.earlier:,} in earlier runs)" if done.earlier else ""
    echo(f"{counted(done.encoded + done.earlier, 'document')} re-encoded with {done.encoder}{before}.")
    for part in done.kept:
        echo(f"The vectors of {part} were kept: both encoders make the same.")
    if now is not None:
        echo(f"Calibration: {now.fitted.spec}{because(now)}")
    if done.score is not None:
        echo(f"Score: {done.score}")
    show.skipped(done.skipped, "deleted")
