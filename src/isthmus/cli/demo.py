"""``isthmus demo``: the main job on a sample folder, raw and calibrated side by side."""

from __future__ import annotations

import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from isthmus import samples
from isthmus.cli import progress
from isthmus.cli.options import Quiet
from isthmus.cli.serve import need_serve
from isthmus.cli.terminal import echo, line
from isthmus.errors import BadInput, counted
from isthmus.kinds import TEXT
from isthmus.search import Collection, Hit

SHOWN = 3  # searches shown side by side
WIDTH = 52  # of a column
TOP = 5


def demo(
    into: Annotated[
        Path | None, typer.Option(help="where to keep the collection; default: it is deleted when the demo ends")
    ] = None,
    serve: Annotated[
        bool, typer.Option("--serve", help="then open the page on the sample folder, until Ctrl-C")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="port of the page; 0: any free port")] = 8080,
    quiet: Quiet = False,
) -> None:
    """Index sample notes and photos, and compare searches with and without calibration, side by side.

    With --serve the collection is then served, with a page, at http://127.0.0.1:8080/.
    """
    if serve:
        need_serve()
    with tempfile.TemporaryDirectory() as scratch:
        place = into or Path(scratch, "demo.isthmus")
        began = time.monotonic()
        echo(f"Indexing {samples.folder()} …")
        with Collection.open(place, follow=False) as things:
            if len(things) and samples.queries()[0].right[0] not in things:
                raise BadInput(f"{place} holds documents of your own. Name a new folder: --into NEW.isthmus.")
            with progress.indexing(quiet=quiet) as update:
                things.index(samples.folder(), ocr="never", progress=update)  # the same on every machine
            echo("Calibrating on queries generated from the documents …")
            with progress.counting("calibrating", "steps", quiet=quiet) as tell_steps:
                calibrated = things.calibrate(progress=tell_steps)
            counts = ", ".join(f"{count} {name}" for name, count in things.stats().documents.items())
            echo(f"{counted(len(things), 'document')} ({counts}) in {time.monotonic() - began:.0f} s.")
            echo(f"Calibration chosen automatically: {calibrated.fitted.spec}\n")
            _compared(things)
        echo(_next(place if into is not None else None))
        if serve:
            _serve(place, port)


def _serve(place: Path, port: int) -> None:
    from isthmus.serve.run import run
    from isthmus.serve.settings import ServeSettings

    settings = ServeSettings(paths=(place,), port=port)
    run(settings, lambda url: echo(f"\nOpen {url} in a browser. Press Ctrl-C to stop.", err=True))


def _compared(things: Collection) -> None:
    queries = samples.queries()
    words = [one.query for one in queries]
    raw = things.search_many(words, k=10, calibration="none")
    fair = things.search_many(words, k=10)
    gain = [_rank(one.right, r) - _rank(one.right, f) for one, r, f in zip(queries, raw, fair, strict=True)]
    first = [at for at, one in enumerate(queries) if _rank(one.right, fair[at]) == 1 and one.kind != TEXT]
    for place in sorted(first, key=lambda at: -gain[at])[:SHOWN]:
        _side_by_side(words[place], queries[place].right, raw[place], fair[place])
    _table(queries, raw, fair)


def _side_by_side(query: str, right: Sequence[str], raw: Sequence[Hit], fair: Sequence[Hit]) -> None:
    echo(f"» {query}")
    echo(f"  {'raw cosine':<{WIDTH}}calibrated")
    for before, after in zip(raw[:TOP], fair[:TOP], strict=False):
        echo(f"  {_cell(before, right):<{WIDTH}}{_cell(after, right)}")
    echo("")


def _cell(hit: Hit, right: Sequence[str]) -> str:
    mark = "✓" if hit.id in right else " "
    return f"{mark} {hit.modality:<10} {line(hit.id)}"[: WIDTH - 2]


def _rank(right: Sequence[str], hits: Sequence[Hit]) -> int:
    return min((hit.rank for hit in hits if hit.id in right), default=len(hits) + 1)


def _table(queries: Sequence[samples.SampleQuery], raw: Sequence[Sequence[Hit]], fair: Sequence[Sequence[Hit]]) -> None:
    first: dict[str, list[tuple[bool, bool]]] = defaultdict(list)
    for one, before, after in zip(queries, raw, fair, strict=True):
        found = (_rank(one.right, before) == 1, _rank(one.right, after) == 1)
        first[one.kind].append(found)
        first["all"].append(found)
    echo(f"How often the right document comes first, of {counted(len(queries), 'query')}:")
    echo(f"  {'right document':<16}{'raw cosine':>12}{'calibrated':>12}")
    for kind in [*sorted(set(first) - {"all"}), "all"]:
        shares = [sum(found[side] for found in first[kind]) / len(first[kind]) for side in (0, 1)]
        echo(f"  {kind:<16}{shares[0]:>12.0%}{shares[1]:>12.0%}")


def _next(kept: Path | None) -> str:
    place = str(kept) if kept is not None else "things.isthmus"
    lines = ["", "Try next:"]
    if kept is None:
        lines += [f"  isthmus index YOUR_FOLDER --into {place}"]
    lines += [
        f'  isthmus search "a cat" --in {place} --explain',
        f'  isthmus search "a cat" --in {place} --calibration none      raw cosine, for comparison',
        f"  isthmus stats --in {place}",
        f"  isthmus {f'serve {place}' if kept is not None else 'demo --serve'}      a page in the browser",
        "  isthmus --help",
    ]
    return "\n".join(lines)
