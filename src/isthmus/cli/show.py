"""Print hits and skipped inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from isthmus.cli.terminal import echo, line
from isthmus.kinds import IMAGE
from isthmus.queries.phrases import SENTENCE, content_words
from isthmus.search import Collection, Hit, Skipped
from isthmus.storage.base import UnfinishedReencode

if TYPE_CHECKING:
    from isthmus.align import Aligned

BAR = 10  # characters of a full bar
BLOCKS = " ▏▎▍▌▋▊▉█"
SNIPPET = 60
LISTED = 20  # skipped inputs that are listed by name


def bar(share: float) -> str:
    """Draw a share of 1 as a bar.

    >>> bar(0.5)
    '█████     '
    """
    eighths = round(max(0.0, min(1.0, share)) * BAR * 8)
    whole, rest = divmod(eighths, 8)
    return (BLOCKS[8] * whole + (BLOCKS[rest] if rest else "")).ljust(BAR)


def snippet(hit: Hit, query: str = "", width: int = SNIPPET) -> str:
    """Return the page or the time, and the sentence of the best passage that shares most words with the query.

    Without words the kind is named. ``[read]`` marks words that were read from a picture.
    """
    where = f"{hit.moment} " if hit.moment else ""
    if hit.page is not None and not hit.id.endswith(f"#page={hit.page}"):
        where = f"p. {hit.page}: "
    read = "[read] " if hit.passage is not None and hit.passage.from_picture else ""
    return f"{where}{read}{_sentence(hit, query, width - len(where) - len(read))}"


def _sentence(hit: Hit, query: str, width: int) -> str:
    if hit.passage is None:
        kinds = [part.kind for part in hit.document.parts]
        return "(a picture)" if IMAGE in kinds else f"({kinds[0]})" if kinds else ""
    wanted = {word.lower() for word in content_words(query)}
    sentences = [part for part in SENTENCE.split(hit.passage.text) if part.strip()]
    best = max(sentences, key=lambda part: len(wanted & {word.lower() for word in content_words(part)}), default="")
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
            echo(f"     near-duplicates: {', '.join(map(line, hit.duplicates))}")
        if explain and hit.explanation is not None:
            echo(f"     {line(hit.explanation)}")
            if hit.passage is not None and hit.passage.from_picture:
                echo("     its text was read from the picture and may have mistakes")


def alignment(aligned: Aligned | None) -> None:
    """Print how a query was aligned before the search, and the time it took."""
    if aligned is None:
        return
    lines = [("caption", aligned.caption, aligned.seconds.get("caption"))]
    lines += [("searched", aligned.query.text, aligned.seconds.get("rewrite"))]
    lines += [("fell back", aligned.fell_back, None), ("unchanged", aligned.untouched, None)]
    for name, text, seconds in lines:
        if text:
            cost = "" if seconds is None else f" ({seconds:.2f} s)"
            echo(f"{name:<12} {line(' '.join(text.split()))}{cost}")
    if aligned.fell_back and aligned.counts is not None:
        echo(f"{'so far':<12} {aligned.counts}")


def failed_alignment(aligned: Aligned | None) -> None:
    """Say that a query was searched as it was because its rewriter failed."""
    if aligned is not None and aligned.fell_back:
        echo(f"The query was not rewritten: {line(aligned.fell_back)}. It was searched as it is.", err=True)


def unfinished(folder: object, begun: UnfinishedReencode) -> str:
    """Return how much of a re-encoding is done, and how to continue it; all of it if the new encoder was worse."""
    complete = begun.done == begun.documents
    why = "see why the collection was not switched" if complete else "continue"
    return f"{begun}; run `isthmus reencode --in {folder} --encoder {begun.encoder}` to {why}"


def skipped(several: Sequence[Skipped], what: str = "skipped") -> None:
    """List skipped inputs on stderr: the first by name, the rest by reason."""
    if not several:
        return
    echo(f"{len(several):,} {what}:", err=True)
    for one in several[:LISTED]:
        echo(f"  {line(one.id)}: {line(one.why)}", err=True)
    if len(several) > LISTED:
        reasons = Counter(one.why.split(":")[0].split("(")[0][:60] for one in several[LISTED:])
        echo(f"  and {len(several) - LISTED:,} more; `isthmus stats` lists them all. Most frequent reasons:", err=True)
        for reason, count in reasons.most_common(5):
            echo(f"    {count} × {line(reason)}", err=True)


def reliability(held_out: Mapping[str, float]) -> str:
    """Return how well P(match) did on queries it was not fitted on, in one line."""
    return f"AUROC {held_out['auroc']:.3f}, ECE {held_out['ece']:.3f} ({held_out['answers']:.0f} answers)"


def used(things: Collection, *, err: bool = False) -> None:
    """Print what services were asked, and what it cost."""
    for name, usage in things.usage.items():
        echo(f"Used by {line(name)}: {usage}.", err=err)
