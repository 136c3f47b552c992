"""What a strength of ``blend`` gains and costs, and what bounds of its bias do, on the mixtures for design.

    python reproduce/strengths.py --data DIR --packs PACKS [--mixtures OUT] [--cache CACHE]
                                            (the data of mixtures.py; ten minutes; --write also draws the picture)

*strength*: nDCG@10 by slice, means over the three mixtures; every kind of query has the same strength. *lower*: the
bound of the bias, at strength 1. Documents far from all reference queries have a small bias, which lifts them; the
bound ends that at so many standard deviations below the mean. *most often first*: the share of 1,000 general queries,
about anything (the built-in bank), that have the same document first; the largest of the three mixtures.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import mixtures
import mixtures_set
import numpy as np
from tables import Row, arguments, compared

from isthmus import Query
from isthmus.encoders.references import SHIPPED_QUERIES, bank_vectors
from isthmus.evaluate.benchmarks import load
from isthmus.evaluate.benchmarks.mixtures import names

STRENGTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
LOWER = (0.0, 0.5, 1.0, 2.0, 8.0)
SLICES = ("text → text", "text → image", "text → image+text", "image → image", "image → text", "mean")
GENERAL = 1000
PICTURE = Path(__file__).parent.parent / "docs" / "images" / "strengths.png"


def spec_of(kind: str, value: float) -> str:
    """Return the spec of a row."""
    return f"blend(strength={value})" if kind == "strength" else f"blend(lower={value})"


def first_share(folder: Path, name: str, cache: Path, spec: str) -> float:
    """Return the largest share of general queries with the same first hit."""
    bank = bank_vectors(mixtures.mini(cache), limit=SHIPPED_QUERIES).parts["text"][:GENERAL]
    with mixtures.collection(load(f"mixtures:{name}", folder), cache) as things:
        things.calibrate(spec)
        hits = things.search_many([Query(vectors={"text": vector}) for vector in bank], 1)
    return Counter(found[0].id for found in hits).most_common(1)[0][1] / len(hits)


def main(folder: Path, cache: Path) -> list[Row]:
    """Measure each strength, and each bound."""
    of = {"strength": STRENGTHS, "lower": LOWER}
    pairs = [(kind, value) for kind, several in of.items() for value in several]
    specs = list(dict.fromkeys(spec_of(*pair) for pair in pairs))
    found: dict[str, list[dict[str, float]]] = {spec: [] for spec in specs}
    for name in names(folder, "dev"):
        benchmark = load(f"mixtures:{name}", folder)
        for spec, run in mixtures.runs(folder, name, cache, specs).items():
            extra = first_share(folder, name, cache, spec) if "lower" in spec else np.nan
            found[spec].append({**mixtures.measured(benchmark, run), "most often first": extra})
    rows: list[Row] = []
    for kind, value in pairs:
        measured = found[spec_of(kind, value)]
        means = {part: np.mean([one[part] for one in measured if part in one]) for part in SLICES}
        share: float | str = "" if kind == "strength" else float(max(one["most often first"] for one in measured))
        rows.append(
            {"setting": f"{kind} {value:g}", **{k: float(v) for k, v in means.items()}, "most often first": share}
        )
    return rows


def draw(rows: list[Row]) -> None:
    """Draw gain and cost over the strength, and over the bound."""
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    strong, bound = ([row for row in rows if str(row["setting"]).startswith(kind)] for kind in ("strength", "lower"))
    for part in ("text → text", "text → image", "text → image+text", "mean"):
        left.plot(STRENGTHS, [float(row[part]) for row in strong], marker="o", label=part)
    left.set(xlabel="strength", ylabel="nDCG@10, mean of three mixtures", ylim=(0, 1))
    left.set_title("Words: what pictures gain and texts lose", loc="left")
    left.legend(frameon=False, loc="lower right")
    places = range(len(bound))
    right.plot(places, [float(row["mean"]) for row in bound], marker="o", label="nDCG@10, mean")
    right.plot(places, [float(row["most often first"]) for row in bound], marker="s", label="most often first")
    right.set(xlabel="lower bound of the bias, in standard deviations", ylim=(0, 1))
    right.set_xticks(list(places), [f"{value:g}" for value in LOWER])
    right.set_title("A bounded bias: a document cannot be first for everything", loc="left")
    right.legend(frameon=False)
    for axes in (left, right):
        axes.grid(alpha=0.3)
    figure.savefig(PICTURE, dpi=120)


if __name__ == "__main__":
    options = arguments(__doc__, {key: mixtures.OPTIONS[key] for key in ("packs", "mixtures", "cache")})
    place = Path(options.mixtures or "out/mixtures")
    if not place.exists():
        mixtures_set.build(options.data, Path(options.packs), place)
    table = main(place, Path(options.cache or "out/mixtures-cache"))
    if options.write:
        draw(table)
    raise SystemExit(compared("strengths", table, options.write))
