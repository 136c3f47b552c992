"""What the terminal shows: hits, progress, and what was skipped."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from isthmus.cli.terminal import echo, line, redraw
from isthmus.documents import Document
from isthmus.queries.phrases import SENTENCE, content_words
from isthmus.search import Hit, Indexed, Skipped
from isthmus.search.hits import Explanation
from isthmus.storage.base import Begun

if TYPE_CHECKING:
    from isthmus.align import Aligned

BAR = 10  # characters of a full bar
BLOCKS = " ▏▎▍▌▋▊▉█"
SNIPPET = 60
EVERY = 10.0  # seconds between lines where nothing can be redrawn
LISTED = 20  # skipped inputs that are named before the rest is counted


def bar(share: float) -> str:
    """Draw a share of 1 as a bar.

    >>> bar(0.5)
    '█████     '
    """
    eighths = round(max(0.0, min(1.0, share)) * BAR * 8)
    whole, rest = divmod(eighths, 8)
    return (BLOCKS[8] * whole + (BLOCKS[rest] if rest else "")).ljust(BAR)


def snippet(hit: Hit, query: str = "", width: int = SNIPPET) -> str:
    """Return the sentence of the best passage that shares most words with the query; else say that it is a picture."""
    if hit.passage is None:
        return "(a picture)" if hit.document.image is not None else ""
    asked = {word.lower() for word in content_words(query)}
    sentences = [part for part in SENTENCE.split(hit.passage.text) if part.strip()]
    best = max(sentences, key=lambda part: len(asked & {word.lower() for word in content_words(part)}), default="")
    words = " ".join(best.split())
    return words if len(words) <= width else words[: width - 1].rstrip() + "…"


def hits(found: Sequence[Hit], query: str = "", *, explain: bool = False) -> None:
    """Print hits, best first: rank, bar and P(match), score, modality, id, snippet."""
    if not found:
        echo("Nothing found.")
        return
    wide = max(len(hit.modality) for hit in found)
    names = min(40, max(len(line(hit.id)) for hit in found))
    for hit in found:
        drawn = bar(hit.probability or 0.0)
        p = "   –" if hit.probability is None else f"{hit.probability:4.0%}"
        name = line(hit.id)
        name = name if len(name) <= names else "…" + name[1 - names :]
        left = f"{hit.rank:>3}  {drawn} {p}  {hit.score:7.3f}"
        echo(f"{left}  {hit.modality:<{wide}}  {name:<{names}}  {line(snippet(hit, query))}")
        if hit.duplicates:
            echo(f"     and nearly the same: {', '.join(map(line, hit.duplicates))}")
        if explain and hit.explanation is not None:
            echo(f"     {line(hit.explanation)}")


def alignment(aligned: Aligned | None) -> None:
    """Print what became of a query before it was searched, and what that cost."""
    if aligned is None:
        return
    lines = [("caption", aligned.caption, aligned.seconds.get("caption"))]
    lines += [("searched", aligned.query.text, aligned.seconds.get("rewrite"))]
    lines += [("fell back", aligned.fell_back, None), ("untouched", aligned.untouched, None)]
    for name, said, seconds in lines:
        if said:
            cost = "" if seconds is None else f" ({seconds:.2f} s)"
            echo(f"{name:<12} {line(' '.join(said.split()))}{cost}")
    if aligned.fell_back and aligned.counts is not None:
        echo(f"{'so far':<12} {aligned.counts}")


def hit_json(hit: Hit) -> dict[str, Any]:
    """Return a hit as JSON can hold it; pictures by their path."""
    return {
        "rank": hit.rank,
        "id": hit.id,
        "score": hit.score,
        "similarity": hit.similarity,
        "probability": hit.probability,
        "modality": hit.modality,
        **document_json(hit.document),
        "passage": None if hit.passage is None else asdict(hit.passage),
        "duplicates": list(hit.duplicates),
        **({"matched": hit.matched} if hit.matched is not None else {}),
        **({"explanation": explanation_json(hit.explanation)} if hit.explanation is not None else {}),
    }


def explanation_json(told: Explanation) -> dict[str, Any]:
    """Return an explanation as JSON can hold it; of the query that was searched, its words."""
    plain = asdict(replace(told, aligned=None))
    del plain["aligned"]
    if told.aligned is None:
        return plain
    searched = {"query": told.aligned.query.text, "caption": told.aligned.caption, "fell_back": told.aligned.fell_back}
    searched |= {"untouched": told.aligned.untouched}
    counts = None if told.aligned.counts is None else asdict(told.aligned.counts)
    return plain | {"aligned": {**searched, "seconds": dict(told.aligned.seconds), "counts": counts}}


def document_json(document: Document) -> dict[str, Any]:
    """Return a document as JSON can hold it."""
    path = document.image if isinstance(document.image, str) else None
    return {"id": document.id, "text": document.text, "image": path, "metadata": dict(document.metadata)}


def unfinished(folder: object, begun: Begun) -> str:
    """Say how far a re-encoding has come, and how to go on."""
    return f"{begun}; run `isthmus reencode --in {folder} --encoder {begun.encoder}` to go on"


def skipped(several: Sequence[Skipped], what: str = "skipped") -> None:
    """Say what was skipped and why, on stderr: the first ones by name, the rest by reason."""
    if not several:
        return
    echo(f"{len(several)} {what}:", err=True)
    for one in several[:LISTED]:
        echo(f"  {line(one.id)}: {line(one.why)}", err=True)
    if len(several) > LISTED:
        reasons = Counter(one.why.split(":")[0].split("(")[0][:60] for one in several[LISTED:])
        echo(f"  and {len(several) - LISTED} more; `isthmus stats` lists them all. Most often:", err=True)
        for reason, count in reasons.most_common(5):
            echo(f"    {count} × {line(reason)}", err=True)


@contextmanager
def progress(what: str, *, quiet: bool = False) -> Iterator[Callable[[Indexed], None]]:
    """Show how far an index run has come, on stderr."""
    began = time.monotonic()
    with _line_of(what, quiet=quiet) as tell:

        def show(report: Indexed) -> None:
            encoded = report.added + report.updated
            rate = encoded / max(time.monotonic() - began, 1e-9)
            tell(f"{what}: {report.done:,} documents, {encoded:,} encoded ({rate:.0f}/s)")

        yield show


@contextmanager
def counting(what: str, then: str, *, quiet: bool = False) -> Iterator[Callable[[int, int], None]]:
    """Show how much of a known number is done, on stderr; ``then`` says what comes after the last."""
    began = time.monotonic()
    first: int | None = None
    with _line_of(what, quiet=quiet) as tell:

        def show(done: int, total: int) -> None:
            nonlocal first
            first = done if first is None else first
            rate = (done - first) / max(time.monotonic() - began, 1e-9)
            tell(f"{what}: {done:,} of {total:,} documents ({rate:.0f}/s)", done == total)
            if done == total:
                tell(f"{then} …", True)

        yield show


@contextmanager
def _line_of(what: str, *, quiet: bool) -> Iterator[Callable[..., None]]:
    """Show work on stderr: one line that is redrawn, or a line now and then."""
    if quiet:
        yield lambda *_: None
        return
    drawn = sys.stderr is not None and sys.stderr.isatty()
    last = time.monotonic()
    tell: Callable[[str], None] = redraw if drawn else partial(echo, err=True)
    tell(f"{what} …")

    def show(text: str, at_once: bool = False) -> None:
        nonlocal last
        now = time.monotonic()
        if not drawn and not at_once and now - last < EVERY:
            return
        last = now
        tell(text)

    try:
        yield show
    finally:
        if drawn:
            redraw("")
