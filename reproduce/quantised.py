"""What vectors of fewer bits or fewer numbers still find: recall@10 of the float vectors' first ten, with re-scoring.

    python reproduce/quantised.py --data DIR        (needs emb/clip_pairs.npz and flickr8k/)

Documents are rounded to 8 bits, to one bit (the sign), or cut to their first numbers; queries stay float. *alone*: the
share of the first ten by float vectors that are among the first ten; *both*: the same with queries rounded as documents
are. *of 40*, *of 100*: the first 40 or 100 are scored again by their float vectors. *centred*: a mean is subtracted
from documents and from queries first, as `center` does. CLIP: 500 captions asked of 1,090 photos, and the photos asked
of the captions. `mini`: 500 captions asked of 5,000 captions of other photos. Neither was trained to be cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from tables import Row, arguments, compared

from isthmus import encoders
from isthmus.encoders.base import unit
from isthmus.types import Matrix, Rows

K, AGAIN = 10, (40, 100)


def int8(rows: Matrix) -> Matrix:
    """Round to 8 bits, by one scale for all."""
    scale = 127 / np.abs(rows).max()
    rounded: Matrix = np.rint(rows * scale).astype(np.int8).astype(np.float32)
    return rounded


def binary(rows: Matrix) -> Matrix:
    """Keep the signs: packed, a row of 512 numbers takes 64 bytes."""
    bits = np.unpackbits(np.packbits(rows > 0, axis=1), axis=1, count=rows.shape[1])
    signs: Matrix = bits.astype(np.float32) * 2 - 1
    return signs


def cut(dim: int) -> Callable[[Matrix], Matrix]:
    """Keep the first numbers, at unit length."""

    def first(rows: Matrix) -> Matrix:
        kept = np.zeros_like(rows)
        kept[:, :dim] = unit(rows[:, :dim], "cut")
        return kept

    return first


def forms(dim: int) -> dict[str, Callable[[Matrix], Matrix]]:
    """Return what is done to documents, by name."""
    return {"int8": int8, "binary": binary, **{f"cut to 1/{part}": cut(dim // part) for part in (2, 4, 8)}}


def first(scores: Matrix, k: int) -> Rows:
    """Return the k best documents of each query, ``(n, k)``."""
    return np.argsort(-scores, axis=1, kind="stable")[:, :k]


def recall(found: Rows, right: Rows) -> float:
    """Return the mean share of the right documents that were found."""
    return float(np.mean([len(np.intersect1d(*pair)) / K for pair in zip(found, right, strict=True)]))


def measured(documents: Matrix, queries: Matrix, form: Callable[[Matrix], Matrix]) -> dict[str, float]:
    """Return the recall without and with re-scoring."""
    exact = queries @ documents.T  # (queries, documents)
    right, rough = first(exact, K), queries @ form(documents).T
    row = {"both": recall(first(form(queries) @ form(documents).T, K), right), "alone": recall(first(rough, K), right)}
    for count in AGAIN:
        some = first(rough, count)
        again = np.full_like(exact, -np.inf)
        np.put_along_axis(again, some, np.take_along_axis(exact, some, axis=1), axis=1)
        row[f"of {count}"] = recall(first(again, K), right)
    return row


def searches(data: Path) -> Iterator[tuple[str, Matrix, Matrix]]:
    """Yield a name, documents and queries."""
    with np.load(data / "emb/clip_pairs.npz") as held:
        photos, said = (held[name].astype(np.float32) for name in ("f8k_img", "f8k_txt"))
    yield "CLIP, text → image", photos, said
    yield "CLIP, image → text", said, photos
    lines = (data / "flickr8k/Flickr8k.token.txt").read_text("utf-8").splitlines()
    texts = [line.partition("\t")[2] for line in lines if "#0\t" in line]  # one of each photo
    several = encoders.load("mini").encode_queries(texts[:5500]).parts["text"]
    yield "mini, text → text", several[500:], several[:500]


def main() -> int:
    options = arguments(__doc__)
    rows: list[Row] = []
    for name, documents, queries in searches(options.data):
        for centred in (False, True):
            shifted = [each - each.mean(axis=0) if centred else each for each in (documents, queries)]
            one, other = (unit(each, name) for each in shifted)
            for form, change in forms(documents.shape[1]).items():
                row: Row = {"search": name, "vectors": "centred" if centred else "raw", "form": form}
                rows.append(row | {column: round(value, 3) for column, value in measured(one, other, change).items()})
    return compared("quantised", rows, options.write)


if __name__ == "__main__":
    raise SystemExit(main())
