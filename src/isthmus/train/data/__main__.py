"""Pack Flickr8k, drawings, emoji and pages for training: ``python -m isthmus.train.data DIR OUT``.

COCO's photos are packed by the script beside its captions, into ``OUT/coco`` and ``OUT/coco-plain``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from isthmus.train.data import drawings, packs, pages, texts
from isthmus.train.data.packs import PackedPicture
from isthmus.train.data.wordnet import Nouns

FLICKR8K_SIZE = 224
FLICKR8K_QUALITY = 60


def flickr8k(folder: Path) -> Iterator[PackedPicture]:
    """Yield the photos of all splits with their captions; a photo's split is the start of its name."""
    captions: dict[str, list[str]] = {}
    for line in (folder / "Flickr8k.token.txt").read_text("utf-8").splitlines():
        key, _, caption = line.partition("\t")
        captions.setdefault(key.partition("#")[0], []).append(caption.strip())
    for split in ("train", "dev", "test"):
        for name in (folder / f"Flickr_8k.{split}Images.txt").read_text("utf-8").split():
            path = folder / "img224" / f"{Path(name).stem}.webp"
            if name in captions and path.exists():
                data = packs.encoded(path, FLICKR8K_SIZE, FLICKR8K_QUALITY)
                yield PackedPicture(f"{split}/{name}", data, captions[name])


def main(data: Path, out: Path, wordnet: Path, clipart: Path, stamps: Path) -> None:
    """Write every set that is there."""
    nouns = Nouns.read(wordnet)
    out.mkdir(parents=True, exist_ok=True)
    for name, several in (("sentences", texts.sentences), ("passages", texts.passages)):
        (out / f"{name}.json").write_text(json.dumps(several(data / "docvqa", nouns)), "utf-8")
    sets = {
        "flickr8k": flickr8k(data / "flickr8k"),
        "clipart": drawings.clipart(nouns, clipart),
        "stamps": drawings.stamps(nouns, stamps),
        "emoji": drawings.emoji(nouns, data / "emoji"),
        "pages": pages.pages(data / "docvqa"),
    }
    for name, pictures in sets.items():
        if (out / name / packs.INDEX).exists():
            sys.stdout.write(f"{name}: packed before\n")
            continue
        sys.stdout.write(f"{name}: {packs.write(out / name, pictures):,} pictures\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--wordnet", type=Path, default=Path("/usr/share/wordnet"))
    parser.add_argument("--clipart", type=Path, default=drawings.CLIPART, help="folder with png/ and svg/")
    parser.add_argument("--stamps", type=Path, default=drawings.STAMPS)
    main(**vars(parser.parse_args()))
