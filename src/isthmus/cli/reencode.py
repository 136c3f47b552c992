"""``isthmus reencode``: another encoder's vectors in place of a collection's."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from isthmus.cli import INTERRUPTED, show
from isthmus.cli.index import SKIPPED, because
from isthmus.cli.options import Device, In, Json, Threads
from isthmus.cli.terminal import echo, echo_json
from isthmus.errors import CannotEncode
from isthmus.search import Collection, Reencoded, Skipped
from isthmus.search.reencoding import SHOWN


def reencode(
    into: In,
    encoder: Annotated[
        str,
        typer.Option(envvar="ISTHMUS_ENCODER", help="the new one: mini, mini-fusion, onnx:FOLDER, st:NAME, mteb:NAME"),
    ],
    drop: Annotated[
        bool, typer.Option("--drop", help="delete documents that cannot be encoded, as their pictures are gone")
    ] = False,
    device: Device = "cpu",
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Encode every document again, by another encoder, and switch to it in one step when all is done.

        isthmus reencode --in things.isthmus --encoder onnx:models/mine

    Searches go on with the old vectors until then. Interrupt it at any time; the same command goes on where it stopped,
    and another encoder begins anew. The collection is calibrated for the new vectors as it was for the old: by auto, or
    by the spec it was given. While a document cannot be encoded nothing is switched, unless --drop says to delete it.
    """
    with Collection.open(into, create=False, follow=False, device=device, threads=threads) as things:
        with show.counting("re-encoding", "calibrating", quiet=json) as tell:
            try:
                done = things.reencode(encoder, drop=drop, progress=tell)
            except KeyboardInterrupt:
                begun = things.stats().reencoding
                kept = f"{begun} are kept; the same command goes on" if begun else "nothing was changed"
                echo(f"\ninterrupted: {kept}.", err=True)
                raise typer.Exit(INTERRUPTED) from None
            except CannotEncode as error:
                if len(error.skipped) > SHOWN:  # else the error names them all
                    show.skipped([Skipped(*one) for one in error.skipped])
                raise
        _told(things, done, json)
    if done.skipped:
        raise typer.Exit(SKIPPED)


def _told(things: Collection, done: Reencoded, json: bool) -> None:
    now = things.calibration
    if json:
        spec = None if now is None else str(now.fitted.spec)
        echo_json({**asdict(done), "documents": len(things), "calibration": spec})
        return
    if done.already:
        echo(f"nothing to do: {things.path} has the vectors of {done.encoder}.")
        return
    before = f" ({done.earlier:,} of them before)" if done.earlier else ""
    echo(f"{done.encoded + done.earlier:,} documents re-encoded into {done.encoder}{before}.")
    if now is not None:
        echo(f"calibration: {now.fitted.spec}{because(now)}")
    show.skipped(done.skipped, "deleted")
