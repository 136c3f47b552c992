"""What a strength of ``blend`` gains and costs, and what bounds of its bias do, on the mixtures for design.

    python reproduce/strengths.py --data DIR --packs PACKS [--mixtures OUT] [--cache CACHE]
                                            (the data of mixtures.py; ten minutes; --write also draws the picture)

*strength*: nDCG@10 by slice, means over the three mixtures; every kind of query has the same strength. *lower*: the
bound of the bias, at strength 1. Documents far from all reference queries have a small bias, which lifts them; the
bound ends that at so many standard deviations below the mean. *odd first*: five odd texts (a foreign language, numbers,
random letters, filler, "ok") are added to each mixture; the share of 1,000 general queries, about anything (the
built-in bank), that have one of them first, in the mixture where it is largest.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import mixtures
import mixtures_set
import numpy as np
from tables import Row, arguments, compared

from isthmus import Collection, Document, Query
from isthmus.encoders.references import SHIPPED_QUERIES, bank_vectors
from isthmus.evaluate.benchmarks import load
from isthmus.evaluate.benchmarks.mixtures import names

STRENGTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
LOWER = (0.0, 0.5, 1.0, 2.0, 8.0)
SLICES = ("text → text", "text → image", "text → image+text", "image → image", "image → text", "mean")
GENERAL = 1000
ODD = (
    "Der Schneemann im Garten trägt einen alten Hut, und die Kinder haben ihm eine Möhre als Nase gegeben.",
    "4711 0815 3.1415 2.7182 1.4142 6.0221 9.8100 1.6021",
    "qX7fA9==zz0Kd83jLwPq1mNb Vt5rEe2Yh8Uu4Oo",
    "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor incididunt",
    "ok",
)
PICTURE = Path(__file__).parent.parent / "docs" / "images" / "strengths.png"


def spec_of(kind: str, value: float) -> str:
    """Return the spec of a row."""
    return f"blend(strength={value})" if kind == "strength" else f"blend(lower={value})"


def odd_first(folder: Path, name: str, cache: Path, specs: Sequence[str]) -> dict[str, float]:
    """Return the share of general queries that have an odd text first, under each calibration."""
    encoder = mixtures.mini(cache)
    bank = bank_vectors(encoder, limit=SHIPPED_QUERIES).parts["text"][:GENERAL]
    asked = [Query(vectors={"text": vector}) for vector in bank]
    odd = [Document(id=f"odd {place}", text=text) for place, text in enumerate(ODD)]
    found: dict[str, float] = {}
    with Collection.open(":memory:", encoder=encoder, follow=False) as things:
        things.add([*load(f"mixtures:{name}", folder).documents, *odd])
        for spec in specs:
            things.calibrate(spec)
            hits = things.search_many(asked, 1)
            found[spec] = float(np.mean([several[0].id.startswith("odd ") for several in hits]))
    return found


def main(folder: Path, cache: Path) -> list[Row]:
    """Measure each strength, and each bound."""
    of = {"strength": STRENGTHS, "lower": LOWER}
    pairs = [(kind, value) for kind, several in of.items() for value in several]
    specs = list(dict.fromkeys(spec_of(*pair) for pair in pairs))
    found: dict[str, list[dict[str, float]]] = {spec: [] for spec in specs}
    for name in names(folder, "dev"):
        benchmark = load(f"mixtures:{name}", folder)
        odd = odd_first(folder, name, cache, specs)
        for spec, run in mixtures.runs(folder, name, cache, specs).items():
            found[spec].append({**mixtures.measured(benchmark, run), "odd first": odd[spec]})
    rows: list[Row] = []
    for kind, value in pairs:
        measured = found[spec_of(kind, value)]
        means = {part: np.mean([one[part] for one in measured if part in one]) for part in SLICES}
        means["odd first"] = np.max([one["odd first"] for one in measured])
        rows.append({"setting": f"{kind} {value:g}", **{k: float(v) for k, v in means.items()}})
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
    right.plot(places, [float(row["odd first"]) for row in bound], marker="o")
    right.set(xlabel="lower bound of the bias, in standard deviations", ylim=(0, 0.2))
    right.set_xticks(list(places), [f"{value:g}" for value in LOWER])
    right.set_title("General queries that have an odd text first", loc="left")
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
