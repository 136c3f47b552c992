"""What NNN's settings and the number of references change: the NNN paper's Tables A1 to A4 and A12 to A15, smaller.

    python reproduce/nnn_settings.py --data DIR        (needs emb/clip_pairs.npz)

R@1 of the searches of ``recalls.py``. *k*: k nearest references, with α = .75 (Tables A3, A4). *references*: a random
share of them, with k = 16 and α = .75, means of 10 draws (Tables A12 to A15); every share keeps at least 25. *chosen*:
the settings of the paper's grid with the best R@1 on the references, and with references of the other set (Tables A1,
A2); Unsplash is searched in two halves, so there are two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from recalls import Search, searches
from tables import Row, arguments, compared

from isthmus import calibration
from isthmus.types import Matrix

NEIGHBOURS = (1, 4, 8, 16, 32, 64, 128)
SHARES = (1.0, 0.5, 0.2, 0.1)
DRAWS = 10


def right_first(found: Sequence[Search], spec: str) -> float:
    """Return R@1 over the queries of all searches."""
    return float(np.concatenate([each.ranks(spec) < 1 for each in found]).mean())


def with_share(search: Search, share: float, draw: int) -> Matrix:
    """Return whether each query's first document is right, with a random share of the references."""
    some = np.random.default_rng(draw).permutation(len(search.references))[: round(share * len(search.references))]
    sources = None if search.sources is None else search.sources[some]
    fitted = calibration.fit("nnn(k=16)", search.documents, search.references.take(some), sources=sources)
    scores = fitted.scores(search.queries, search.documents, sources=sources)
    return calibration.recall_at_1(scores, search.relevant)


def settings(found: Sequence[Search]) -> Iterator[tuple[str, str, float]]:
    """Yield what was set, to what, and R@1."""
    yield "none", "", right_first(found, "none")
    for k in NEIGHBOURS:
        yield "k", str(k), right_first(found, f"nnn(k={k})")
    for share in SHARES:
        each = [with_share(search, share, draw) for search in found for draw in range(DRAWS)]
        yield "references", f"{share:.0%}", float(np.mean(np.concatenate(each)))
    if all(search.answered for search in found):
        chosen = [search.tuned("nnn") for search in found]
        ranks = [search.ranks(spec) for search, spec in zip(found, chosen, strict=True)]
        yield "chosen", "; ".join(chosen), float((np.concatenate(ranks) < 1).mean())
        chosen = [search.tuned_elsewhere() for search in found]
        ranks = [search.ranks(spec, search.elsewhere) for search, spec in zip(found, chosen, strict=True)]
        yield "chosen, other set", "; ".join(chosen), float((np.concatenate(ranks) < 1).mean())


def main(data: Path) -> list[Row]:
    """Return a row per search and setting."""
    return [
        {"set": name, "direction": direction, "setting": setting, "value": value, "R@1": share}
        for (name, direction), found in searches(data).items()
        for setting, value, share in settings(found)
    ]


if __name__ == "__main__":
    options = arguments(__doc__)
    raise SystemExit(compared("nnn_settings", main(options.data), options.write))
