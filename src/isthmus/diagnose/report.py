"""The report: a self-contained HTML page, readable offline, on paper and on a phone."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping
from html import escape
from importlib.resources import files

import numpy as np

from isthmus.diagnose.advice import RAW, Level
from isthmus.diagnose.collection import DEPTH, Card, Examination, Line, MovedQuery
from isthmus.diagnose.diagnosis import Diagnosis
from isthmus.diagnose.drawings import bars, colour, scatter
from isthmus.diagnose.share import ModalityShares
from isthmus.kinds import TEXT

BADGES = {
    Level.FAIR: "✓ fair",
    Level.CORRECTED: "✓ corrected by calibration",
    Level.PARTLY: "◐ partly corrected",
    Level.UNFAIR: "✗ unfair",
    Level.UNSURE: "? too early to say",
}
MOVED = 4  # queries shown in each direction


def page(found: Examination) -> str:
    """Return the whole page."""
    result = found.diagnosis
    style = files(__package__).joinpath("report.css").read_text(encoding="utf-8")
    sections = [
        _verdict(found),
        _gap(result),
        _top_ten(result),
        _hubs(found),
        _moves(found),
        _drift(result),
        _steps(result),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>Is this search fair? {escape(result.state.place)}</title><style>{style}</style></head><body>"
        + "\n".join(sections)
        + f"{_footer(found)}</body></html>\n"
    )


def _verdict(found: Examination) -> str:
    result = found.diagnosis
    level = result.advice.level
    total = sum(result.corpus.values())
    kinds = ", ".join(f"{count:,} {escape(name)}" for name, count in result.corpus.items())
    origin = "your own" if found.own else "made from the documents, and general ones"
    findings = "".join(f"<li>{_marked(text)}</li>" for text in result.advice.findings)
    queries = sum(shares.questions for shares in result.shares)
    return (
        f'<p class="kicker">{escape(result.state.place)} · {total:,} documents ({kinds}) · {queries:,} queries '
        f"({origin}) "
        f"· calibration <code>{escape(result.state.spec)}</code></p>"
        f'<section class="verdict {level}"><span class="badge">{BADGES[level]}</span>'
        f"<h1>{escape(result.advice.verdict)}</h1><ul>{findings}</ul></section>"
    )


def _gap(result: Diagnosis) -> str:
    names = sorted(result.corpus)
    text = (
        "<h2>Is there a gap?</h2><p>Each dot is a document, placed by its vector: near dots are similar to the "
        "encoder. Large dots are the means of each kind. If kinds lie apart, a query is near all of one kind and far "
        "from all of another, whatever it is about.</p>"
    )
    if len(names) < 2:
        return f"{text}<p>All documents are of one kind, so there can be no gap.</p>"
    both = np.concatenate([result.picture.before, result.picture.after])
    reach = float(np.abs(both).max(initial=1e-6))
    before = scatter(result.picture.before, result.picture.modality, reach, "documents before calibration")
    caption = f"Before calibration: the kind of document explains {_of(result.gap_before.share)}."
    figures = f"<figure>{before}<figcaption>{caption}</figcaption></figure>"
    if result.state.spec != RAW:
        after = scatter(result.picture.after, result.picture.modality, reach, "documents after calibration")
        figures += f"<figure>{after}<figcaption>After calibration: {_of(result.gap_after.share)}.</figcaption></figure>"
    rows = [
        [
            f"{escape(one.one)} – {escape(one.other)}",
            f"{one.distance:.2f}",
            f"{one.cosine:.2f}",
            f"{then.distance:.2f}",
        ]
        for one, then in zip(result.gap_before.pairs, result.gap_after.pairs, strict=True)
    ]
    table = _table(["between the means of", "distance", "cosine", "distance after"], rows)
    note = (
        f'<p class="note">Random kinds would explain about {result.gap_before.chance:.0%}. Calibration also '
        "changes scores, which a plot of vectors does not show; and kinds may lie apart because they are about "
        "different things.</p>"
    )
    return f'{text}{_legend(names)}<div class="two">{figures}</div>{table}{note}'


def _queries(modality: str) -> str:
    """Name the queries of a modality, text first.

    >>> _queries("tone"), _queries("image+text")
    ('tone queries', 'queries of text and image')
    """
    kinds = sorted(modality.split("+"), key=lambda kind: (kind != TEXT, kind))
    return escape(f"{kinds[0]} queries" if len(kinds) == 1 else f"queries of {' and '.join(kinds)}")


def _of(share: float) -> str:
    return f"<b>{share:.0%}</b> of the variance"


def _top_ten(result: Diagnosis) -> str:
    parts = ["<h2>Who gets into the top 10?</h2>"]
    for shares in result.shares[:1]:
        kind = _queries(shares.query_modality)
        parts.append(
            f"<p>Over {shares.questions:,} "
            f"{kind}: each kind's share of "
            "the top 10. The line marks its share of the collection. The right document of a query is not counted.</p>"
        )
        parts.append(_bars(result, shares.before, shares.after, shares.corpus, "an equal chance for every document"))
        parts.append(_first(result, shares))
    rows = [
        [
            _queries(one.query_modality),
            f"{one.questions:,}",
            *(f"{off:.0%}" for off in one.off_chance),
        ]
        for one in result.shares
    ]
    if len(result.shares) > 1:
        parts.append("<h3>By kind of query</h3>")
        parts.append(_table(["", "queries", "deviation from chance", "after calibration"], rows))
    return "".join(parts)


def _first(result: Diagnosis, shares: ModalityShares) -> str:
    if not shares.known:
        return '<p class="note">No right answers are known, so shares can only be compared with chance.</p>'
    text = (
        f"<h3>And who comes first?</h3><p>For {shares.known:,} of them the right document is known. Queries are "
        "weighted so that each kind is right equally often; the line marks how often it should come first.</p>"
    )
    return text + _bars(
        result, shares.first_before, shares.first_after, shares.right, "how often it has the right answer"
    )


def _bars(
    result: Diagnosis,
    before: Mapping[str, float],
    after: Mapping[str, float],
    ideal: Mapping[str, float],
    baseline: str,
) -> str:
    rows = [("raw cosine", before, "pale"), ("calibrated", after, "full")]
    return bars(rows[:1] if result.state.spec == RAW else rows, ideal, baseline)


def _hubs(found: Examination) -> str:
    result, hubs = found.diagnosis, found.diagnosis.hubs
    after = "" if result.state.spec == RAW else f", {hubs.skew_after:.1f} after calibration"
    never = "" if result.state.spec == RAW else f", {hubs.never_after:.0%} after"
    text = (
        "<h2>The worst hubs</h2><p>Hubs are documents near every query: they appear for unrelated ones. "
        f"With equal chances, each document would be in about {hubs.expected:.1f} of {hubs.questions:,} top-10 lists. "
        f"The counts have a skewness of {hubs.skew_before:.1f}{after}; random lists would have {hubs.skew_by_lot:.1f}, "
        "and 1 above that means that a few crowd out others. "
        f"{hubs.never_before:.0%} of the documents are in no list{never}.</p>"
    )
    lists = (
        [("", hubs.worst)]
        if result.state.spec == RAW
        else [("Raw cosine", hubs.worst), ("Calibrated", hubs.worst_after)]
    )
    for title, several in lists:
        cards = "".join(_hub(found.cards[hub.document], hub.before, hub.after, result) for hub in several)
        text += (f"<h3>{title}</h3>" if title else "") + f'<ul class="hubs">{cards}</ul>'
    return text


def _hub(card: Card, before: int, after: int, result: Diagnosis) -> str:
    then = "" if result.state.spec == RAW else f"; {after} after calibration"
    return (
        f'<li class="card">{_face(card)}<div class="about"><div class="name">{escape(card.id)}</div>'
        f'<div class="kind">{_dot(card.modality, result.corpus)}{escape(card.modality)}</div>'
        f"<div>in <b>{before}</b> lists{then}</div></div></li>"
    )


def _moves(found: Examination) -> str:
    result = found.diagnosis
    moves = result.moves
    text = "<h2>What calibration changes</h2>"
    if result.state.spec == RAW:
        return f"{text}<p>No calibration is in use: the ranking is raw cosine.</p>"
    if not moves.questions:
        return f"{text}<p>No right answers are known, so it is unknown which changes are improvements.</p>"
    rows = [
        [
            f"{_dot(one.modality, result.corpus)}{escape(one.modality)}",
            str(one.questions),
            f"{one.first_before:.0%} → {one.first_after:.0%}",
            f"{one.ten_before:.0%} → {one.ten_after:.0%}",
        ]
        for one in moves.by_modality
    ]
    table = _table(["right document", "queries", "in first place", "in the top 10"], rows)
    counts = (
        f"<p>Of {moves.questions:,} queries whose right document is known, {moves.gained} have it in first place only "
        f"after calibration, and {moves.lost} only before.</p>"
    )
    hidden = (
        ""
        if found.own
        else '<p class="note">Queries were made from documents: some words of a text. If the document also has a '
        "picture, the text was hidden from the search.</p>"
    )
    return (
        text + counts + table + hidden + _several("Moved up most", found.up) + _several("Moved down most", found.down)
    )


def _several(title: str, moved: Iterable[MovedQuery]) -> str:
    shown = "".join(_question(one) for one in list(moved)[:MOVED])
    return f"<h3>{title}</h3>{shown}" if shown else f'<h3>{title}</h3><p class="dim">None.</p>'


def _question(one: MovedQuery) -> str:
    words = f"“{escape(one.words)}”" if one.words else f"(the picture of {escape(one.source.id)})"
    lists = "".join(
        f'<div><span class="heading">{title}</span><ul class="list">{"".join(_line(line) for line in lines)}</ul></div>'
        for title, lines in (("raw cosine", one.raw), ("calibrated", one.calibrated))
    )
    return (
        f'<div class="question"><div class="asked">{words}</div><div class="change">right: {escape(one.source.id)} '
        f'({escape(one.target)}) · from rank {_place(one.before)} to {_place(one.after)}</div><div class="two">{lists}'
        "</div></div>"
    )


def _place(rank: int) -> str:
    return f"<b>{rank}</b>" if rank <= DEPTH else f"<b>beyond {DEPTH}</b>"


def _line(line: Line) -> str:
    kind = escape(line.card.modality)
    tick = ' <span class="tick">✓</span>' if line.right else ""
    picture = (
        f'<img src="{_data(line.card.picture)}" alt="">'
        if line.card.picture
        else '<span class="blank">' + kind + "</span>"
    )
    return (
        f'<li class="{"right" if line.right else "other"}"><span class="dim">{line.rank}</span>{picture}<span>'
        f'<span class="name">{escape(line.card.id)}</span>{tick}<br><span class="kind">{kind}</span></span></li>'
    )


def _drift(result: Diagnosis) -> str:
    heading = "<h2>Drift since the last fit</h2>"
    when = f" The calibration was made {escape(result.state.made.replace('T', ' '))}." if result.state.made else ""
    text = (
        "The documents have changed enough to calibrate again."
        if result.state.drifted
        else "The documents have not changed enough to calibrate again."
    )
    rows = [[escape(part), "new" if np.isinf(value) else f"{value:.2f}"] for part, value in result.state.drift.items()]
    table = _table(["part", "moved, in radii of its cloud"], rows) if rows else ""
    note = '<p class="note">0 is no change; from 0.2, calibrate again.</p>' if rows else ""
    return f"{heading}<p>{text}{when}</p>{table}{note}"


def _steps(result: Diagnosis) -> str:
    steps = "".join(f"<li>{_marked(step)}</li>" for step in result.advice.steps)
    note = f'<p class="note">{escape(result.state.note)}</p>' if result.state.note else ""
    return f'<h2>What to do</h2><ol class="steps">{steps}</ol>{note}'


def _footer(found: Examination) -> str:
    return (
        f'<footer class="dim">The gap was measured on {found.sampled:,} documents, everything else on the whole '
        "collection. Made by <code>isthmus diagnose</code>; this page is self-contained.</footer>"
    )


def _marked(text: str) -> str:
    """Escape a sentence; text between backticks becomes code."""
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if place % 2 else part for place, part in enumerate(parts))


def _table(head: list[str], rows: list[list[str]]) -> str:
    """Return a table; its cells are HTML."""
    top = "".join(f"<th>{name}</th>" for name in head)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def _legend(names: Iterable[str]) -> str:
    known = list(names)
    return '<ul class="legend">' + "".join(f"<li>{_dot(name, known)}{escape(name)}</li>" for name in known) + "</ul>"


def _dot(name: str, names: Iterable[str]) -> str:
    return f'<span class="dot {colour(name, list(names))}"></span>'


def _face(card: Card) -> str:
    if card.picture is not None:
        return f'<img src="{_data(card.picture)}" alt="{escape(card.text[:80] or card.id)}">'
    return f'<div class="face"><span>{escape(card.text) or "(only vectors)"}</span></div>'


def _data(picture: bytes) -> str:
    return f"data:image/jpeg;base64,{b64encode(picture).decode()}"
