"""A store that isthmus did not build, before and after: CLIP's vectors in each, searched with its own client.

    python reproduce/stores.py --data DIR        (or ISTHMUS_DATA=DIR; needs emb/clip_pairs.npz, the extra test-servers)

The corpus is 100 photos of Flickr8k and, for each, one caption; the queries are another caption of each. Reference
queries are the other three captions. The script is skipped where a client is missing.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from clip_f8k import F8k
from tables import Row, arguments, compared

sys.path.append(str(Path(__file__).parent.parent / "tests"))
from isthmus import stores
from store_clients import CLIENTS, Client, Rows, installed

EVERY = 200  # the whole corpus, so that every rank is known


def measured(name: str, client: Client, f8k: F8k) -> Row:
    """Make a store, calibrate it, and search both."""
    raw = f8k.documents.parts["image"]
    unit = raw / np.linalg.norm(raw, axis=1, keepdims=True)
    rows = Rows(list(range(EVERY)), unit, f8k.documents.modality)
    with TemporaryDirectory() as place:
        folder = Path(place)
        np.save(folder / "references.npy", f8k.references.parts["text"])
        source, target = client.build(folder, rows), client.target(folder)
        options = stores.StoreOptions(queries=folder / "references.npy", query_modality="text")
        stores.calibrate(source, target, folder / "photos.fold", options)
        fold = stores.load(folder / "photos.fold")
        asked = f8k.captions[:, 0]
        before = [client.search(source, query / np.linalg.norm(query), EVERY)[0] for query in asked]
        after = [client.search(target, fold.query(query), EVERY)[0] for query in asked]
    return {
        "store": name,
        "photos in top 10, raw": share(before),
        "photos in top 10, calibrated": share(after),
        "median rank of the photo, raw": rank(before),
        "median rank of the photo, calibrated": rank(after),
    }


def share(lists: list[list[int]]) -> float:
    return float(np.mean([np.asarray(found[:10]) < 100 for found in lists]))


def rank(lists: list[list[int]]) -> float:
    places: list[int] = [found.index(photo) + 1 for photo, found in enumerate(lists)]
    return float(np.median(places))


def main(data: Path) -> list[Row]:
    f8k = F8k(data)
    return [measured(name, client, f8k) for name, client in CLIENTS.items()]


if __name__ == "__main__":
    options = arguments(__doc__)
    if missing := [name for name in CLIENTS if not installed(name)]:
        print(f"stores.py: skipped, no client of {', '.join(missing)}: pip install '.[test-servers]'")
        raise SystemExit(0)
    raise SystemExit(compared("stores", main(options.data), options.write))
