"""Drawings with names: Open Clip Art, Tux Paint's stamps, and emoji. WordNet widens the names.

Open Clip Art's titles are in its SVG files (Debian: openclipart-svg, openclipart-png; public domain); a stamp's is in
a text file beside it (tuxpaint-stamps-default, GPL-2); emoji have names and tags in ``emoji.json``.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from isthmus.train.data.packs import PackedPicture, encoded
from isthmus.train.data.wordnet import Nouns

CLIPART = Path("/usr/share/openclipart")
STAMPS = Path("/usr/share/tuxpaint/stamps")
SIZE = 144  # pixels a side
HELD_OUT = 0.3  # share of the names kept for tests
PATTERNS = ("{}", "a drawing of {}", "clip art of {}", "a picture of {}")
# Folders whose pictures have no useful name: flags, playing cards, shapes, themes of icons.
UNNAMED = re.compile(r"shapes|special|logos|buttons|flags|cards|icons|stickmen|map_symbols|chess|dice|domino|geography")
TITLE = re.compile(r"<dc:title[^>]*>([^<]+)<")
KEYWORD = re.compile(r"<rdf:li[^>]*>([^<]+)<")
OF_TITLES = re.compile(r"clipart by .*? - |[^A-Za-z' -]+|\b(?:icon|clip ?art|svg|remix|simple)\b", re.IGNORECASE)
SKIN = re.compile(r"skin tone|keycap|flag:|button$")
LARGEST = 500_000  # bytes of a file; larger ones are a few posters
LONGEST = 6  # words of a title
CLAUSE = re.compile(r"[.,(;:!]")  # a description goes on after it; the name comes before


def held_out(name: str, share: float = HELD_OUT) -> bool:
    """Return whether everything called ``name`` is kept for tests: so no tested name was seen in training.

    >>> held_out("zebra"), held_out("Zebra "), held_out("a zebra."), held_out("drum")
    (False, False, False, True)
    """
    plain = re.sub(r"^(an?|the) ", "", name.strip().lower().strip("."))
    return int.from_bytes(hashlib.sha256(plain.encode()).digest()[:4]) < share * 2**32


def clipart(nouns: Nouns, folder: Path = CLIPART) -> Iterator[PackedPicture]:
    """Yield Open Clip Art's pictures that have a name with a meaning in WordNet."""
    for path in sorted((folder / "png").rglob("*.png")):
        inside = path.relative_to(folder / "png")
        svg = folder / "svg" / inside.with_suffix(".svg")
        if UNNAMED.search(inside.as_posix()) or not svg.exists():
            continue
        name, others = described(svg.read_text("utf-8", "replace"), nouns)
        if name and path.stat().st_size <= LARGEST:
            yield _picture(f"clipart/{inside.as_posix()}", path, name, others, nouns)


def described(svg: str, nouns: Nouns) -> tuple[str, list[str]]:
    """Return the title of an SVG file without its noise, and its keywords; a title without a known noun is empty."""
    titles = TITLE.findall(svg)
    title = " ".join(OF_TITLES.sub(" ", titles[0]).lower().split()) if titles else ""
    keywords = [k.replace("_", " ").strip().lower() for k in KEYWORD.findall(svg)]
    known = [keyword for keyword in dict.fromkeys(keywords) if len(keyword) > 2 and nouns.first(keyword) is not None]
    words = title.split()
    if len(words) > LONGEST or not any(nouns.first(word) for word in words if len(word) > 2):
        title = ""
    return title or (known[0] if known else ""), [k for k in known if k != "hash"][:4]


def stamps(nouns: Nouns, folder: Path = STAMPS) -> Iterator[PackedPicture]:
    """Yield Tux Paint's stamps; the first line of the text is the English description."""
    for path in sorted(folder.rglob("*.png")):
        text = path.with_suffix(".txt")
        lines = text.read_text("utf-8", "replace").splitlines() if text.exists() else []
        name = lines[0].strip().rstrip(".!") if lines else ""
        if name and "=" not in name and not re.search(r"letter|number|sign language|symbols", f"{name} {path}".lower()):
            yield _picture(f"stamps/{path.relative_to(folder).as_posix()}", path, name, [], nouns)


def emoji(nouns: Nouns, folder: Path) -> Iterator[PackedPicture]:
    """Yield emoji with their names and tags, without those that differ in skin tone alone."""
    for row in json.loads((folder / "emoji.json").read_text("utf-8")):
        if not SKIN.search(row["name"]):
            yield _picture(f"emoji/{row['name']}", folder / row["file"], row["name"], row["tags"][:4], nouns)


def _picture(name: str, path: Path, title: str, others: Sequence[str], nouns: Nouns) -> PackedPicture:
    plain = re.sub(r"^(an?|the) ", "", CLAUSE.split(title.lower())[0]).strip()
    return PackedPicture(name, encoded(path, SIZE), texts(plain, others, nouns))


def texts(name: str, others: Sequence[str], nouns: Nouns) -> list[str]:
    """Return the texts of a drawing: its name in several patterns, its tags, and what WordNet adds."""
    last = name.split()[-1] if name.split() else name
    wide = nouns.widened(name)
    wide = nouns.widened(last)[1:] if len(wide) == 1 else wide[1:]  # "small dog": what WordNet knows of dogs
    article = "an" if name[:1] in "aeiou" else "a"
    patterns = [pattern.format(name if pattern == "{}" else f"{article} {name}") for pattern in PATTERNS]
    return list(dict.fromkeys([*patterns, *others, *wide]))
