"""Why a search found nothing: no document passes the filter, none reaches the P(match), or the offset is too large."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from isthmus.cli.options import conditions, names_in
from isthmus.cli.terminal import echo, line
from isthmus.documents import Query
from isthmus.errors import counted
from isthmus.registry import suggestion
from isthmus.search import Collection


def explain(
    things: Collection,
    query: Query,
    where: Sequence[str],
    modalities: Sequence[str],
    least: float | None,
    align: str | None,
    offset: int,
) -> None:
    """Print on stderr why nothing was found, if the reason is known."""
    total = len(things)
    if not total:
        echo(f"{things.path} is empty. Index some documents first.", err=True)
        return
    passing = _passing(things, where, modalities)
    if not passing:
        _explain_filter(things, where, modalities, total)
    elif offset >= passing:
        echo(f"--offset {offset} skips all {counted(passing, 'document')}.", err=True)
    elif least is not None:
        best = things.search(query, 1, where=conditions(list(where)), modalities=list(modalities) or None, align=align)
        if best and best[0].probability is not None:
            echo(f"The best hit is {best[0].id!r} with P(match) {best[0].probability:.0%}.", err=True)


def _explain_filter(things: Collection, where: Sequence[str], modalities: Sequence[str], total: int) -> None:
    filters = [(f"--where {text}", _passing(things, [text], [])) for text in where]
    if modalities:
        option = " ".join(f"--modality={name}" for name in modalities)
        filters.append((option, _passing(things, [], modalities)))
    echo(f"No document passes the filter. Of {counted(total, 'document')}:", err=True)
    for option, count in filters:
        echo(f"  {count:,} pass{'es' if count == 1 else ''} {line(option)}", err=True)
    known = things.fields()
    for name in names_in(where):
        if name not in known:
            echo(f"No document has metadata called {name!r}. {suggestion(name, known)}", err=True)


def _passing(things: Collection, where: Sequence[str], modalities: Sequence[str]) -> int:
    """Count the documents that pass conditions."""
    several: list[Any] = [conditions([text]) for text in where]
    into = ["+".join(sorted(name.split("+"))) for name in modalities if name[:1] != "-"]
    out = ["+".join(sorted(name[1:].split("+"))) for name in modalities if name[:1] == "-"]
    several += [{"modality": {"in": into}}] if into else []
    several += [{"modality": {"not": out}}] if out else []
    return len(things.ids({"and": several} if several else None))
