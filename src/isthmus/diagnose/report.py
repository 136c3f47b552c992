"""One page that a person understands: HTML with nothing from elsewhere, readable offline, on paper and on a phone."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping
from html import escape
from importlib.resources import files

import numpy as np

from isthmus.diagnose.advice import RAW, Level
from isthmus.diagnose.collection import DEPTH, Card, Examination, Line, Moved
from isthmus.diagnose.diagnosis import Diagnosis
from isthmus.diagnose.drawings import bars, colour, scatter
from isthmus.diagnose.share import Shares

BADGES = {
    Level.FAIR: "✓ fair",
    Level.MENDED: "✓ mended by calibration",
    Level.PARTLY: "◐ mended in part",
    Level.UNFAIR: "✗ unfair",
    Level.UNSURE: "? cannot be told yet",
}
ASKED = {"text": "questions in words", "image": "questions by picture", "image+text": "questions in words and picture"}
MOVED = 4  # questions that are shown, each way


def page(found: Examination) -> str:
    """Return the whole page."""
    told = found.diagnosis
    style = files(__package__).joinpath("report.css").read_text(encoding="utf-8")
    sections = [_verdict(found), _gap(told), _top_ten(told), _hubs(found), _moves(found), _drift(told), _steps(told)]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>Is this search fair? {escape(told.state.place)}</title><style>{style}</style></head><body>"
        + "\n".join(sections)
        + f"{_footer(found)}</body></html>\n"
    )


def _verdict(found: Examination) -> str:
    told = found.diagnosis
    level = told.advice.level
    total = sum(told.corpus.values())
    kinds = ", ".join(f"{count:,} {escape(name)}" for name, count in told.corpus.items())
    whose = "your own" if found.own else "made from the documents, and general ones"
    findings = "".join(f"<li>{_marked(said)}</li>" for said in told.advice.findings)
    asked = sum(shares.questions for shares in told.shares)
    return (
        f'<p class="kicker">{escape(told.state.place)} · {total:,} documents ({kinds}) · {asked:,} questions ({whose}) '
        f"· calibration <code>{escape(told.state.spec)}</code></p>"
        f'<section class="verdict {level}"><span class="badge">{BADGES[level]}</span>'
        f"<h1>{escape(told.advice.verdict)}</h1><ul>{findings}</ul></section>"
    )


def _gap(told: Diagnosis) -> str:
    names = sorted(told.corpus)
    text = (
        "<h2>Is there a gap?</h2><p>Each dot is a document, placed by its vector: near dots are alike to the encoder. "
        "Large dots are the middle of each kind. Where kinds lie apart, a question is near all of one kind and far "
        "from all of another, whatever it asks.</p>"
    )
    if len(names) < 2:
        return f"{text}<p>All documents are of one kind, so there is no gap to look for.</p>"
    both = np.concatenate([told.picture.before, told.picture.after])
    reach = float(np.abs(both).max(initial=1e-6))
    before = scatter(told.picture.before, told.picture.modality, reach, "documents before calibration")
    caption = f"As the encoder gives them: the kind of document explains {_of(told.gap_before.share)}."
    figures = f"<figure>{before}<figcaption>{caption}</figcaption></figure>"
    if told.state.spec != RAW:
        after = scatter(told.picture.after, told.picture.modality, reach, "documents after calibration")
        figures += f"<figure>{after}<figcaption>After calibration: {_of(told.gap_after.share)}.</figcaption></figure>"
    rows = [
        [
            f"{escape(one.one)} – {escape(one.other)}",
            f"{one.distance:.2f}",
            f"{one.cosine:.2f}",
            f"{then.distance:.2f}",
        ]
        for one, then in zip(told.gap_before.pairs, told.gap_after.pairs, strict=True)
    ]
    table = _table(["between the middles of", "distance", "cosine", "distance after"], rows)
    note = (
        f'<p class="note">Kinds drawn by lot would explain about {told.gap_before.chance:.0%}. Calibration also '
        "changes scores, which no picture of vectors shows; and kinds may lie apart because they are about different "
        "things.</p>"
    )
    return f'{text}{_legend(names)}<div class="two">{figures}</div>{table}{note}'


def _of(share: float) -> str:
    return f"<b>{share:.0%}</b> of all differences"


def _top_ten(told: Diagnosis) -> str:
    parts = ["<h2>Who gets into the top 10?</h2>"]
    for shares in told.shares[:1]:
        parts.append(
            f"<p>Over {shares.questions:,} {ASKED.get(shares.asked, escape(shares.asked) + ' questions')}, each kind's "
            "share of the first ten places. The line marks its share of the collection. A question's own right "
            "document is not counted.</p>"
        )
        parts.append(_bars(told, shares.before, shares.after, shares.corpus, "an even chance for every document"))
        parts.append(_first(told, shares))
    rows = [
        [ASKED.get(one.asked, escape(one.asked)), f"{one.questions:,}", *(f"{off:.0%}" for off in one.off_chance)]
        for one in told.shares
    ]
    if len(told.shares) > 1:
        parts.append("<h3>By kind of question</h3>")
        parts.append(_table(["", "questions", "places off an even chance", "after calibration"], rows))
    return "".join(parts)


def _first(told: Diagnosis, shares: Shares) -> str:
    if not shares.known:
        return '<p class="note">No right answers are known, so chance is all there is to compare with.</p>'
    text = (
        f"<h3>And who comes first?</h3><p>For {shares.known:,} of them the right document is known. Counting as if "
        "each kind were asked for equally often, the line marks how often it should come first.</p>"
    )
    return text + _bars(
        told, shares.first_before, shares.first_after, shares.right, "how often it holds the right answer"
    )


def _bars(
    told: Diagnosis, before: Mapping[str, float], after: Mapping[str, float], ideal: Mapping[str, float], said: str
) -> str:
    rows = [("raw cosine", before, "pale"), ("calibrated", after, "full")]
    return bars(rows[:1] if told.state.spec == RAW else rows, ideal, said)


def _hubs(found: Examination) -> str:
    told, hubs = found.diagnosis, found.diagnosis.hubs
    after = "" if told.state.spec == RAW else f", {hubs.skew_after:.1f} after calibration"
    never = "" if told.state.spec == RAW else f", {hubs.never_after:.0%} after"
    text = (
        "<h2>The worst hubs</h2><p>Hubs are documents near everything: they turn up for questions that have nothing to "
        f"do with them. Over {hubs.questions:,} questions each document would be in about {hubs.expected:.1f} top-10 "
        f"lists if all turned up alike. The counts have a skewness of {hubs.skew_before:.1f}{after}; drawn by lot they "
        f"would have {hubs.skew_by_lot:.1f}, and 1 more than that says that a few crowd out others. "
        f"{hubs.never_before:.0%} of the documents are in no list{never}.</p>"
    )
    cards = "".join(_hub(found.cards[hub.document], hub.before, hub.after, told) for hub in hubs.worst)
    return f'{text}<ul class="hubs">{cards}</ul>'


def _hub(card: Card, before: int, after: int, told: Diagnosis) -> str:
    then = "" if told.state.spec == RAW else f"; {after} after calibration"
    return (
        f'<li class="card">{_face(card)}<div class="about"><div class="name">{escape(card.id)}</div>'
        f'<div class="kind">{_dot(card.modality, told.corpus)}{escape(card.modality)}</div>'
        f"<div>in <b>{before}</b> lists{then}</div></div></li>"
    )


def _moves(found: Examination) -> str:
    told = found.diagnosis
    moves = told.moves
    text = "<h2>What calibration changes</h2>"
    if told.state.spec == RAW:
        return f"{text}<p>No calibration is in use: the ranking is raw cosine.</p>"
    if not moves.questions:
        return f"{text}<p>No right answers are known, so nobody can say which changes are for the better.</p>"
    rows = [
        [
            f"{_dot(one.modality, told.corpus)}{escape(one.modality)}",
            str(one.questions),
            f"{one.first_before:.0%} → {one.first_after:.0%}",
            f"{one.ten_before:.0%} → {one.ten_after:.0%}",
        ]
        for one in moves.by_modality
    ]
    table = _table(["looked for", "questions", "right one first", "in the top 10"], rows)
    told_all = (
        f"<p>Of {moves.questions:,} questions whose right document is known, {moves.gained} find it in the first place "
        f"only after calibration, and {moves.lost} no longer do.</p>"
    )
    hidden = (
        ""
        if found.own
        else '<p class="note">Questions were made from documents: some words of a text, asked for the document without '
        "that text where it has a picture, too.</p>"
    )
    return (
        text + told_all + table + hidden + _several("Moved up most", found.up) + _several("Moved down most", found.down)
    )


def _several(title: str, moved: Iterable[Moved]) -> str:
    shown = "".join(_question(one) for one in list(moved)[:MOVED])
    return f"<h3>{title}</h3>{shown}" if shown else f'<h3>{title}</h3><p class="dim">None.</p>'


def _question(one: Moved) -> str:
    words = f"“{escape(one.words)}”" if one.words else f"(by the picture of {escape(one.source.id)})"
    lists = "".join(
        f'<div><span class="heading">{title}</span><ul class="list">{"".join(_line(line) for line in lines)}</ul></div>'
        for title, lines in (("raw cosine", one.raw), ("calibrated", one.calibrated))
    )
    return (
        f'<div class="question"><div class="asked">{words}</div><div class="change">right: {escape(one.source.id)} '
        f'({escape(one.target)}) · from place {_place(one.before)} to {_place(one.after)}</div><div class="two">{lists}'
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


def _drift(told: Diagnosis) -> str:
    text = "<h2>Drift since the last fit</h2>"
    when = f" The calibration was made {escape(told.state.made.replace('T', ' '))}." if told.state.made else ""
    said = (
        "So much has changed that calibrating again pays."
        if told.state.drifted
        else "Not enough has changed to calibrate again."
    )
    rows = [[escape(part), "new" if np.isinf(value) else f"{value:.2f}"] for part, value in told.state.drift.items()]
    table = _table(["part", "moved, in radii of its cloud"], rows) if rows else ""
    note = '<p class="note">0 is no change; from 0.2 a new calibration pays.</p>' if rows else ""
    return f"{text}<p>{said}{when}</p>{table}{note}"


def _steps(told: Diagnosis) -> str:
    steps = "".join(f"<li>{_marked(step)}</li>" for step in told.advice.steps)
    note = f'<p class="note">{escape(told.state.note)}</p>' if told.state.note else ""
    return f'<h2>What to do</h2><ol class="steps">{steps}</ol>{note}'


def _footer(found: Examination) -> str:
    return (
        f'<footer class="dim">The gap was measured on {found.sampled:,} documents, everything else on the whole '
        "collection. Made by <code>isthmus diagnose</code>; this page needs nothing from elsewhere.</footer>"
    )


def _marked(said: str) -> str:
    """Escape a sentence; what stands between backticks is code."""
    parts = escape(said).split("`")
    return "".join(f"<code>{part}</code>" if place % 2 else part for place, part in enumerate(parts))


def _table(head: list[str], rows: list[list[str]]) -> str:
    """Lay out a table; cells are HTML already."""
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
    return f'<div class="face"><span>{escape(card.text) or "(vectors alone)"}</span></div>'


def _data(picture: bytes) -> str:
    return f"data:image/jpeg;base64,{b64encode(picture).decode()}"
