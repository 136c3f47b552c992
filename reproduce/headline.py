"""The headline: all calibrations side by side on mixed corpora, overall and by modality.

    python reproduce/headline.py --data DIR        (needs flickr8k/, mix/, docvqa/, emb/; --write also draws it)

`mini` on Flickr8k's mixed corpus and on DocVQA's pages, CLIP ViT-B/32's vectors of Flickr8k photos (yardsticks.py).
nDCG@10 with 95% bootstrap intervals. Two references use information that no calibration has: *alone*, each kind
searched separately (perfect routing), and *one kind*, all documents are of the kind of the right one, so there is no
gap.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from tables import SINGLE, Row, arguments, compared
from yardsticks import CORPORA, Mixed

from isthmus.evaluate import Interval, interval, slices, values
from isthmus.evaluate.compare import ALONE, alone, fit, ranked

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SPECS = (
    *SINGLE,
    "center+standardize",
    "center+nnn(k=16)",
    "nnn(k=16)+standardize",
    "center+nnn(k=16)+standardize",
    "learned",
    "center+learned",
    "auto",
)
ONE_KIND = "one kind"
SLICES = ("overall", "text", "image", "image+text")
MEASURE, K = "nDCG@10", 10
PICTURE = Path(__file__).parent.parent / "docs" / "images" / "headline.png"
Found = dict[str, Interval]


def measured(mixed: Mixed, spec: str) -> Found:
    """Return the value of each slice. If documents are each kind in turn, a query counts once, with its mean."""
    print(f"{mixed.name}: {spec}", file=sys.stderr)
    found: dict[str, dict[str, list[float]]] = {part: {} for part in SLICES}
    for part, query, value in _values(mixed, spec):
        found[part].setdefault(query, []).append(value)
    return {part: interval([float(np.mean(each)) for each in of.values()]) for part, of in found.items()}


def _values(mixed: Mixed, spec: str) -> Iterator[tuple[str, str, float]]:
    for corpus in mixed.corpora:
        parts = slices(corpus.qrels, modality=corpus.modality)
        run = ranked(corpus, fit(corpus, spec), K) if spec not in (ALONE, ONE_KIND) else {}
        for part in SLICES[1:]:
            if spec == ALONE:
                run = alone(corpus, parts[part], K)
            elif spec == ONE_KIND:
                run = ranked(mixed.one_kind[part], fit(mixed.one_kind[part], "none"), K)
            for query, value in values(MEASURE, run, parts[part]).items():
                yield part, query, value
                yield SLICES[0], query, value


def draw(tables: Mapping[str, Mapping[str, Found]], picture: Path) -> None:
    """Draw a panel for each corpus and slice: a dot with its interval for each calibration."""
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(len(tables), len(SLICES), figsize=(10, 10.5), sharey=True, layout="constrained")
    for row, (corpus, table) in enumerate(tables.items()):
        names = [name for name in table if name not in (ALONE, ONE_KIND)]
        for axis, part in zip(panels[row], SLICES, strict=True):
            _panel(axis, [table[name][part] for name in names], names)
            axis.axvline(table[ALONE][part].value, color="#999999", linestyle=":", label="alone")
            axis.axvline(table[ONE_KIND][part].value, color="#2a6f97", linestyle="--", label="one kind")
            axis.set_title(part if part != "overall" else f"{corpus}: overall", loc="left", fontsize=10)
    panels[-1][0].set_xlabel("nDCG@10")
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside upper right", ncols=2, frameon=False)
    figure.savefig(picture, dpi=100)


def _panel(axis: Axes, found: Sequence[Interval], names: Sequence[str]) -> None:
    places = range(len(names))
    for place, each in zip(places, found, strict=True):
        colour = "#c1502e" if names[place] == "auto" else "#333333"
        axis.plot([each.low, each.high], [place, place], color=colour, linewidth=1.2)
        axis.plot(each.value, place, "o", color=colour, markersize=4)
    axis.axvline(found[0].value, color="#cccccc", linewidth=1)
    axis.set_yticks(places, names, fontsize=8)
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.tick_params(axis="x", labelsize=8)
    axis.grid(axis="x", alpha=0.3)


if __name__ == "__main__":
    options = arguments(__doc__)
    results: dict[str, dict[str, Found]] = {}
    for load in CORPORA.values():
        made = load(options.data)
        results[made.name] = {spec: measured(made, spec) for spec in (*SPECS, ONE_KIND, ALONE)}
    if options.write:
        draw(results, PICTURE)
    rows: list[Row] = [
        {
            "corpus": corpus,
            "calibration": spec,
            "overall": found["overall"].value,
            "from": found["overall"].low,
            "to": found["overall"].high,
            **{part: found[part].value for part in SLICES[1:]},
        }
        for corpus, table in results.items()
        for spec, found in table.items()
    ]
    raise SystemExit(compared("headline", rows, options.write))
