"""Whether pictures that look like pages are told from others: by the vector of ``mini``, and by strokes and paper.

    python reproduce/page_test.py --data DIR --packs PACKS
                            (needs docvqa/, flickr8k/, scifact/, packed photos and drawings, scikit-learn; five minutes)

The share of pictures taken for pages: right for pages and screens, wrong for the others. Both tests were designed on
the pictures for design, whose threshold or weights they keep. ``mini`` was trained on neither the held-out pages nor
the photos of Flickr8k's test split. *Screens* are drawn here: terminals, web pages, notes; held out are other fonts,
colours and layouts (forms, chats, slides, cards). *Signs* are photos with a sign or a billboard in two captions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path

import numpy as np
from drawn_screens import screens
from stroke_test import SIDE, StrokeTest, features
from tables import Row, arguments, compared

from isthmus.encoders.images import Frame, read_bytes
from isthmus.search.page_test import page_test
from isthmus.train.data.packs import PackedPictures
from isthmus.train.data.pages import held_out
from isthmus.types import Mask, Matrix

COUNT = 200  # of each kind, at most
SIGNS = (" sign ", " signs ", " billboard ")
TOGETHER = 32
Make = Callable[[], Iterable[bytes]]


def pages(data: Path, *, test: bool) -> Iterator[bytes]:
    """Yield scanned pages."""
    found = [path for path in sorted((data / "docvqa" / "img640").glob("*.webp")) if held_out(path.stem) == test]
    for at in np.random.default_rng(0).permutation(len(found))[:COUNT]:
        yield found[at].read_bytes()


def photos(data: Path, split: str, words: tuple[str, ...] = ()) -> Iterator[bytes]:
    """Yield photos of a split, or those with one of the words in two of their captions."""
    folder = data / "flickr8k"
    said: dict[str, int] = {}
    for line in (folder / "Flickr8k.token.txt").read_text("utf-8").splitlines():
        name, _, caption = line.partition("\t")
        has = any(word in f" {caption.lower()} " for word in words)
        said[name.partition("#")[0]] = said.get(name.partition("#")[0], 0) + has
    names = (folder / f"Flickr_8k.{split}Images.txt").read_text("utf-8").split()
    chosen = (name for name in names if not words or said.get(name, 0) > 1)
    for name in islice(chosen, COUNT):
        yield (folder / "img224" / name).with_suffix(".webp").read_bytes()


def packed(packs: Path, name: str, half: int) -> Iterator[bytes]:
    """Yield every second picture of a pack, in random order."""
    files = list(PackedPictures.open(packs / name).files())[half::2]
    for at in np.random.default_rng(0).permutation(len(files))[:COUNT]:
        yield files[at]


def sets(data: Path, packs: Path) -> Mapping[tuple[str, str, bool], Make]:
    """Return what makes the pictures of each kind; whether they are pages."""
    return {
        ("design", "pages", True): lambda: pages(data, test=False),
        ("design", "screens", True): lambda: screens(data, "design", COUNT, 0),
        ("design", "photos", False): lambda: photos(data, "dev"),
        ("design", "emoji", False): lambda: packed(packs, "emoji", 0),
        ("design", "clip art", False): lambda: packed(packs, "clipart", 0),
        ("held-out", "pages", True): lambda: pages(data, test=True),
        ("held-out", "screens", True): lambda: screens(data, "held-out", COUNT, 1),
        ("held-out", "photos", False): lambda: photos(data, "test"),
        ("held-out", "photos of COCO", False): lambda: packed(packs, "coco", 0),
        ("held-out", "signs", False): lambda: photos(data, "train", SIGNS),
        ("held-out", "emoji", False): lambda: packed(packs, "emoji", 1),
        ("held-out", "stamps", False): lambda: packed(packs, "stamps", 1),
    }


def measured(make: Make) -> tuple[Matrix, Mask]:
    """Return the strokes of pictures, and which of them look like pages to ``mini``."""
    strokes: list[Matrix] = []
    looks: list[Mask] = []
    source = iter(make())
    while some := list(islice(source, TOGETHER)):
        strokes += [features(read_bytes(one, "a picture", Frame(SIDE, "within"))) for one in some]
        looks.append(page_test(None).pages(some))
    return np.stack(strokes), np.concatenate(looks)


def table(data: Path, packs: Path) -> list[Row]:
    """Return a row per kind of picture."""
    found = {key: measured(make) for key, make in sets(data, packs).items()}
    design = {key: strokes for key, (strokes, _) in found.items() if key[0] == "design"}
    each = [key for key, strokes in design.items() for _ in strokes]
    fitted = StrokeTest.fit(
        np.concatenate(list(design.values())), np.array([page for _, _, page in each]), [kind for _, kind, _ in each]
    )
    return [
        {
            "pictures": kind,
            "for": group,
            "are pages": "yes" if page else "no",
            "count": str(len(looks)),
            "mini": float(looks.mean()),
            "strokes": float(fitted.pages(strokes).mean()),
        }
        for (group, kind, page), (strokes, looks) in found.items()
    ]


if __name__ == "__main__":
    options = arguments(__doc__, {"packs": "packed photos and drawings"})
    raise SystemExit(compared("page_test", table(options.data, Path(options.packs)), options.write))
