"""How many documents that are raised because they have the query's picture are relevant, on the mixtures for design.

    python reproduce/raised.py --data DIR --packs PACKS [--mixtures OUT] [--cache CACHE]
                                                                           (the data of mixtures.py; a minute)

Questions with a picture, over collections calibrated by ``auto``: how many have a raised document, and how many of the
raised documents are relevant (of any grade). The pictures to ask with are identical files and crops, compressed again;
here they are ready vectors, so identical files are found by their vectors, not by their hash.
"""

from __future__ import annotations

from pathlib import Path

import mixtures
import mixtures_set
from tables import Row, arguments, compared

from isthmus.evaluate.benchmarks import load
from isthmus.evaluate.benchmarks.mixtures import names

DEPTH = 20


def row(folder: Path, name: str, cache: Path) -> Row:
    """Ask the questions with a picture of one mixture."""
    benchmark = load(f"mixtures:{name}", folder)
    queries = mixtures.encoded_queries(benchmark, mixtures.corpus(folder, name, cache))
    asked = [at for at, question in enumerate(benchmark.questions) if question.query.image is not None]
    with mixtures.collection(benchmark, cache) as things:
        things.calibrate()
        lists = things.search_many([queries[at] for at in asked], DEPTH, explain=True)
    found = [
        [benchmark.qrels[benchmark.questions[at].id].get(hit.id, 0) > 0 for hit in hits if _raised(hit.explanation)]
        for at, hits in zip(asked, lists, strict=True)
    ]
    return {
        "mixture": name,
        "questions": f"{len(found)}",
        "with a raised document": f"{sum(map(bool, found))}",
        "raised": f"{sum(map(len, found))}",
        "relevant": f"{sum(map(sum, found))}",
    }


def _raised(explanation: object) -> bool:
    return getattr(explanation, "raised", None) is not None


if __name__ == "__main__":
    options = arguments(__doc__, {key: mixtures.OPTIONS[key] for key in ("packs", "mixtures", "cache")})
    place, kept = Path(options.mixtures or "out/mixtures"), Path(options.cache or "out/mixtures-cache")
    if not place.exists():
        mixtures_set.build(options.data, Path(options.packs), place)
    raise SystemExit(compared("raised", [row(place, name, kept) for name in names(place, "dev")], options.write))
