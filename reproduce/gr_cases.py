"""GR-CLIP's case studies: the first five documents of some queries, raw and centred, as pictures.

    python reproduce/gr_cases.py --data DIR [--out OUT]        (needs flickr8k/ and mix/)

Appendix G of Li et al. (2025), with ``mini`` on Flickr8k's mixed corpus. The queries are not chosen by their result:
the first three queries for each modality of the right document. ``--out`` (default: out/cases) gets a picture of each:
the right document has a green frame. The photos are Flickr users' and the captions research data, so the pictures are
not part of this repository. The last rows are over all queries: median rank, and the mean number of each modality.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tables import Row, arguments, compared

from isthmus import encoders
from isthmus.evaluate import fit
from isthmus.evaluate.benchmarks import Benchmark, load
from isthmus.evaluate.builders import MODALITIES
from isthmus.evaluate.compare import Corpus, scored
from isthmus.evaluate.encode import encoded
from isthmus.types import Matrix, Rows

SPECS = ("none", "center")
EACH, FIRST = 3, 5


def ranked(corpus: Corpus, spec: str) -> tuple[Matrix, Rows]:
    """Return all scores, and each query's documents, best first."""
    scores = np.vstack([block for _, block in scored(corpus, fit(corpus, spec))])
    return scores, np.argsort(-scores, axis=1, kind="stable")


def counted(modality: list[str]) -> str:
    """Write how many of each modality there are."""
    found = Counter(modality)
    return ", ".join(f"{found[name]} {name}" for name in MODALITIES if found[name])


def table(corpus: Corpus, orders: dict[str, Rows], right: Rows, chosen: list[int]) -> Iterator[Row]:
    """Yield the chosen queries, then all of them, by the modality of the right document."""
    kind = np.array(list(corpus.modality.values()))
    for query in chosen:
        for spec, order in orders.items():
            rank = float(np.flatnonzero(order[query] == right[query])[0] + 1)
            first = counted([str(each) for each in kind[order[query, :FIRST]]])
            yield {
                "query": str(corpus.query_ids[query]),
                "right": str(kind[right[query]]),
                "calibration": spec,
                "rank of the right": rank,
                "first five": first,
            }
    for name in MODALITIES:
        rows = np.flatnonzero(kind[right] == name)
        for spec, order in orders.items():
            rank = float(np.median((order[rows] == right[rows][:, None]).argmax(axis=1) + 1))
            shares = [(kind[order[rows, :FIRST]] == each).sum(axis=1).mean() for each in MODALITIES]
            first = ", ".join(f"{share:.1f} {each}" for share, each in zip(shares, MODALITIES, strict=True))
            yield {
                "query": f"all {len(rows)}",
                "right": name,
                "calibration": spec,
                "rank of the right": rank,
                "first five": first,
            }


def draw(benchmark: Benchmark, query: int, found: dict[str, tuple[Matrix, Rows]], right: int, out: Path) -> None:
    """Draw the first five documents of a query under each calibration."""
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(len(found), FIRST, figsize=(2.6 * FIRST, 3.3 * len(found)), layout="constrained")
    question = benchmark.questions[query]
    figure.suptitle(textwrap.fill(f"{question.id}: {question.query.text}", 100), fontsize=12)
    for line, (spec, (scores, order)) in zip(axes, found.items(), strict=True):
        for number, (place, row) in enumerate(zip(line, order[query, :FIRST], strict=True), 1):
            document = benchmark.documents[row]
            _tile(place, document.text, document.image, framed=row == right)
            place.set_title(f"{spec} {number}: {document.modality} {scores[query, row]:.2f}", fontsize=9)
    figure.savefig(out / f"{question.id}.png", dpi=80)
    plt.close(figure)


def _tile(place: Any, text: str | None, image: Any, *, framed: bool) -> None:
    from PIL import Image

    place.set(xticks=[], yticks=[], xlim=(0, 1), ylim=(0, 1))
    for spine in place.spines.values():
        spine.set(color="#2a9d3a" if framed else "0.8", linewidth=5 if framed else 1)
    if image is not None:
        bottom = 0.42 if text else 0.02
        inset = place.inset_axes((0.02, bottom, 0.96, 0.98 - bottom))
        inset.imshow(Image.open(image).convert("RGB"))
        inset.axis("off")
    if text:
        middle = 0.2 if image is not None else 0.5
        place.text(0.5, middle, textwrap.fill(text, 26), ha="center", va="center", fontsize=8)


def main(data: Path, out: Path) -> list[Row]:
    benchmark = load("flickr8k-mix", data)
    corpus = encoded(benchmark, encoders.load("mini", batch=64)).with_means("own")
    place = {name: row for row, name in enumerate(corpus.document_ids)}
    right = np.array([place[next(iter(corpus.qrels[query]))] for query in corpus.query_ids])
    kind = np.array(list(corpus.modality.values()))[right]
    chosen = [int(row) for name in MODALITIES for row in np.flatnonzero(kind == name)[:EACH]]
    found = {spec: ranked(corpus, spec) for spec in SPECS}
    out.mkdir(parents=True, exist_ok=True)
    for query in chosen:
        draw(benchmark, query, found, int(right[query]), out)
    print(f"{len(chosen)} pictures in {out}\n")
    return list(table(corpus, {spec: order for spec, (_, order) in found.items()}, right, chosen))


if __name__ == "__main__":
    options = arguments(__doc__, {"out": "the folder of the pictures"})
    made = main(options.data, Path(options.out or "out/cases"))
    raise SystemExit(compared("gr_cases", made, options.write))
