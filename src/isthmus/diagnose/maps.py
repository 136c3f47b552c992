"""A self-contained HTML page with a map for each hit."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from io import BytesIO

import numpy as np

from isthmus.diagnose import heat
from isthmus.documents import ImageLike, Query
from isthmus.encoders.images import Frame, read
from isthmus.errors import BadImage
from isthmus.search import Map, Shares, WordShare
from isthmus.types import Matrix

PICTURE = 448  # pixels of a picture's longer side
TALL = 20  # maximum height of a picture, in lines of text
STRONGEST = 3
FAINT = 0.06  # of the strongest: words below have no colour
LEAST = 5e-5  # shown as 0.0000: a rounding error, which never has a colour
FLAT = "No single patch matters: without any one of them the similarity stays the same."
SAID = (
    "The share of a word, or of a patch of a picture, is the raw similarity that is lost when this piece is left out "
    "and everything else is computed again. Warm pieces count for the match, cool ones against it. The encoder has "
    "seen the surroundings of each piece, so a share belongs to a place rather than to a thing. Shares do not add up."
)


def maps_page(query: Query, maps: Sequence[Map], place: str) -> str:
    """Return the whole page; ``place`` says which collection was searched."""
    style = "".join(
        files(__package__).joinpath(name).read_text(encoding="utf-8") for name in ("report.css", "maps.css")
    )
    title = _title(query)
    count = "1 hit" if len(maps) == 1 else f"{len(maps)} hits"
    scales = _Scales(maps)
    hits = "\n".join(_hit(query, one, scales) for one in maps)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>Why these? {escape(title)}</title><style>{style}</style></head><body>"
        f'<p class="kicker">{escape(place)} · {count}, and what made each similar</p>'
        f"<h1>{escape(title)}</h1><p>{SAID}</p>{_key(scales)}"
        f"{hits or '<p>There is no hit to explain.</p>'}"
        '<footer class="dim">Made by <code>isthmus search --explain-maps</code>; this page is '
        "self-contained.</footer></body></html>\n"
    )


class _Scales:
    """The largest share of each kind on the page: a pale map matters less than the others."""

    def __init__(self, maps: Sequence[Map]) -> None:
        self.words = _most(share for one in maps for _, _, share in one.document.words or ())
        self.query_words = _most(share for one in maps for _, _, share in one.query.words or ())
        self.patches = _most(_strongest(side.patches) for one in maps for side in (one.document, one.query))


def _strongest(patches: Matrix | None) -> float:
    return 0.0 if patches is None else float(np.abs(patches).max())


def _most(shares: Iterable[float]) -> float:
    most = max((abs(share) for share in shares), default=0.0)
    return most if most >= LEAST else 0.0


def _title(query: Query) -> str:
    words = " ".join((query.text or "").split())
    said = f"“{words if len(words) <= 200 else words[:199].rstrip() + '…'}”" if words else ""
    return f"{said} and a picture" if said and query.image is not None else said or "A picture"


def _key(scales: _Scales) -> str:
    ramp = ", ".join(f"rgb({r:.0f} {g:.0f} {b:.0f})" for r, g, b in heat.RAMP)
    patches = (
        f'<li>patches: {_signed(-scales.patches)}<span class="ramp" style="background:linear-gradient(90deg,{ramp})">'
        f"</span>{_signed(scales.patches)}</li>"
    )
    words = (
        '<li><span class="word for" style="--a:1">word</span> counts for the match</li>'
        '<li><span class="word against" style="--a:1">word</span> against it</li>'
    )
    return f'<ul class="key">{patches if scales.patches else ""}{words}</ul>'


def _hit(query: Query, one: Map, scales: _Scales) -> str:
    hit = one.hit
    likely = "" if hit.probability is None else f" · P(match) {hit.probability:.0%}"
    parts = [
        f'<section class="hit"><h2><span class="rank">{hit.rank}</span>{escape(hit.id)}</h2>'
        f'<p class="numbers">{escape(hit.modality)} · score {hit.score:.3f} · similarity {one.similarity:.3f}{likely}'
        "</p>"
    ]
    if hit.document.image is not None:
        parts.append(_picture(hit.document.image, hit.id, one.document.patches, scales.patches))
    if hit.document.text and one.document.words is not None:
        start, stop = (0, len(hit.document.text)) if hit.passage is None else (hit.passage.start, hit.passage.stop)
        more = "" if stop - start >= len(hit.document.text) else ", the passage that matched"
        parts.append(
            f"<h3>its text{more}</h3>{_text(hit.document.text, start, stop, one.document.words, scales.words)}"
        )
    parts += _query(query, one.query, scales)
    parts += [f'<p class="note">{escape(note)}</p>' for note in one.notes]
    return "".join(parts) + "</section>"


def _query(query: Query, shares: Shares, scales: _Scales) -> list[str]:
    parts = []
    if query.text and shares.words is not None:
        text = _text(query.text, 0, len(query.text), shares.words, scales.query_words)
        parts.append(f"<h3>the query, as it met this document</h3>{text}")
    if query.image is not None and shares.patches is not None:
        parts.append("<h3>the query's picture, as it met this document</h3>")
        parts.append(_picture(query.image, "the query", shares.patches, scales.patches))
    return parts


def _text(text: str, start: int, stop: int, words: Sequence[WordShare], most: float) -> str:
    """Mark the words of ``text[start:stop]``, and list those that count most."""
    parts, at = [], start
    for word in words:
        parts += [escape(text[at : word.start]), _word(text[word.start : word.end], word.share, most)]
        at = word.end
    said = "".join(parts) + escape(text[at:stop])
    readable = [word for word in words if any(letter.isalnum() for letter in text[word.start : word.end])]
    top = sorted((word for word in readable if abs(word.share) >= LEAST), key=lambda word: -abs(word.share))[:STRONGEST]
    listed = ", ".join(f"<b>{escape(text[word.start : word.end])}</b> {_signed(word.share)}" for word in top)
    return f'<p class="said">{said}</p><p class="strongest">strongest: {listed or "none"}</p>'


def _word(word: str, share: float, most: float) -> str:
    strength = abs(share) / most if most else 0.0
    if strength < FAINT:
        return f'<span title="{_signed(share)}">{escape(word)}</span>'
    kind = "for" if share > 0 else "against"
    return f'<span class="word {kind}" style="--a:{strength:.2f}" title="{_signed(share)}">{escape(word)}</span>'


def _picture(image: ImageLike, name: str, patches: Matrix | None, most: float) -> str:
    shown = _jpeg(image)
    if shown is None:
        return ""
    plain, (width, height) = _data("jpeg", shown[0]), shown[1]
    figure = f'<figure style="max-width:{TALL * width / height:.1f}rem">'
    flat = patches is not None and _strongest(patches) < LEAST
    said = f"<figcaption>{FLAT}</figcaption>" if flat else ""
    figures = f'{figure}<img src="{plain}" alt="{escape(name)}">{said}</figure>'
    if patches is not None and not flat:
        strongest = f"The strongest patch is {heat.where(patches)}: {_signed(float(np.max(patches)))}"
        figures += (
            f'{figure}<div class="heat"><img src="{plain}" alt=""><img src="{_data("png", heat.layer(patches, most))}" '
            f'alt="Heat over {escape(name)}. {strongest}."></div><figcaption>{strongest}</figcaption></figure>'
        )
    return f'<div class="seen">{figures}</div>'


def _jpeg(image: ImageLike) -> tuple[bytes, tuple[int, int]] | None:
    """Return a picture at the size of the page, and its width and height; None if it cannot be read."""
    from PIL import Image

    try:
        pixels = read(image, Frame(PICTURE, "within"))
    except BadImage:
        return None
    file = BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=80, optimize=True)
    return file.getvalue(), (pixels.shape[1], pixels.shape[0])


def _signed(share: float) -> str:
    return f"{share:+.4f}".replace("-", "−")


def _data(kind: str, content: bytes) -> str:
    return f"data:image/{kind};base64,{b64encode(content).decode()}"
