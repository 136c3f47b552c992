"""The quality of ``base``: photos and drawings by words, and words by photos. Its texts have the vectors of ``mini``'s.

    python reproduce/base.py --data DIR --packs PACKS [--cache FOLDER]
                                             (needs flickr8k/ and CLIP's image tower; half an hour on 2 cores)

``isthmus doctor`` says how to get the tower. PACKS as for ``mini.py``.
"""

from __future__ import annotations

from pathlib import Path

import flickr8k
import packed
from mini import OPTIONS, PER_PHOTO
from tables import Row, arguments, compared

from isthmus import encoders


def main(data: Path, packs: Path, cache: str | None) -> list[Row]:
    encoder = encoders.load("base", batch=16, cache=cache)
    found = {"Flickr8k test": flickr8k.recall(flickr8k.split(encoder, data / "flickr8k", "test"))}
    found["COCO test"] = packed.recall(encoder, packed.photos(encoder, packs, "test"), PER_PHOTO)
    found |= {kind: packed.recall(encoder, packed.named(encoder, packs, kind), 1) for kind in packed.DRAWINGS}
    return [
        {"measure": f"{name}, {measure}", "value": value}
        for name, several in found.items()
        for measure, value in several.items()
    ]


if __name__ == "__main__":
    options = arguments(__doc__, {**OPTIONS, "cache": "folder that keeps vectors for other runs"})
    table = main(options.data, Path(options.packs), options.cache)
    raise SystemExit(compared("base", table, options.write))
