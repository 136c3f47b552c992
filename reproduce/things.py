"""Everyday things: how many of the first pictures for a word show it, with ``mini`` and ``base``.

    python reproduce/things.py --data DIR --packs PACKS [--encoders mini] [--cache FOLDER]   (needs CLIP's image tower)

One collection of COCO's test photos and of the scanned pages that training never saw. A picture shows a thing if one of
its texts names it. *Found* is the share of the first R pictures that show it, R = the number of pictures that do, at
most 10.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import packed
from mini import OPTIONS
from tables import Row, arguments, compared

from isthmus import encoders
from isthmus.documents import Query
from isthmus.encoders.base import Encoder

LIMIT = 10
PLAIN = (
    *("giraffe", "zebra", "elephant", "horse", "dog", "cat", "bird", "cow", "sheep", "bear"),
    *("pizza", "sandwich", "cake", "banana", "broccoli", "train", "bus", "truck", "motorcycle", "airplane"),
    *("boat", "umbrella", "clock", "toilet", "kitchen", "laptop", "kite"),
)
THINGS: Mapping[str, str] = {  # the query → what names it in a caption
    **{each: each for each in PLAIN},
    "skiing": "ski",
    "surfing": "surf",
    "skateboarding": "skateboard",
    "tennis match": "tennis",
    "baseball game": "baseball",
    "person on a bicycle": "bicycle|bike",
    "stop sign": "stop sign",
    "bedroom": "bed|bedroom",
    "letter": "a letter",
    "form": "a form",
    "table of numbers": "a table of numbers",
    "chart": "a chart",
    "invoice": "an invoice",
}


def found(encoder: Encoder, packs: Path) -> dict[str, float]:
    """Return the share found of each thing."""
    photos, pages = packed.photos(encoder, packs, "test"), packed.scans(encoder, packs)
    images = np.concatenate([photos.images, pages.images])
    texts = [" | ".join(several).lower() for several in [*photos.texts, *pages.texts]]
    asked = [f"a picture of {'an' if thing[0] in 'aeiou' else 'a'} {thing}" for thing in THINGS]
    queries = encoder.encode_queries([Query(text=text) for text in asked]).parts["text"]
    order = np.argsort(-(queries @ images.T), axis=1, kind="stable")
    shares = {}
    for row, (thing, pattern) in enumerate(THINGS.items()):
        shows = np.array([re.search(rf"\b(?:{pattern})(?:e?s|ing|ers?)?\b", text) is not None for text in texts])
        depth = min(LIMIT, int(shows.sum()))
        shares[thing] = float(shows[order[row][:depth]].mean()) if depth else 0.0
    return shares


def main(packs: Path, names: list[str], cache: str | None) -> list[Row]:
    columns = {name: found(encoders.load(name, batch=32, cache=cache), packs) for name in names}
    rows: list[Row] = [{"thing": thing, **{name: columns[name][thing] for name in names}} for thing in THINGS]
    mean: Row = {"thing": "mean of 40", **{name: float(np.mean(list(columns[name].values()))) for name in names}}
    return [*rows, mean]


if __name__ == "__main__":
    options = arguments(__doc__, {**OPTIONS, "encoders": "default: mini,base", "cache": "folder for vectors"})
    table = main(Path(options.packs), (options.encoders or "mini,base").split(","), options.cache)
    raise SystemExit(compared("things", table, options.write))
