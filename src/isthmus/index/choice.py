"""Choose the kind of index by the number of rows.

A collection has the setting ``auto``, or the name of a kind (``Collection.open(…, index="hnsw")``). For ``auto``:

Exact search needs no build and no memory, and its time grows with the bytes it reads. So it is chosen until a single
query takes about 5 ms; then ``ivf-sq8``. ``hnsw`` is never chosen: in our measurements (up to 200,000 rows) it is no
faster at the same recall, and needs four times the memory and build time. It is available on request.
`docs/benchmarks.md` has the curves.
"""

from __future__ import annotations

from importlib.util import find_spec

AUTO = "auto"
EXACT_BYTES = 100_000_000  # 50,000 rows of 512 numbers: 5 ms at 20 GB/s


def choose(n: int, width: int) -> str:
    """Return the kind for ``n`` rows of ``width`` numbers; without Faiss it is always ``exact``.

    >>> choose(10_000, 512)
    'exact'
    """
    if 4 * n * width <= EXACT_BYTES or find_spec("faiss") is None:
        return "exact"
    return "ivf-sq8"


def fits(kind: str, wanted: str, n: int, width: int) -> bool:
    """Whether an index of a kind is what is wanted: a kind, or ``auto``, which also takes one that is ``exact``.

    >>> fits("hnsw", "auto", 10_000, 512), fits("exact", "auto", 10_000_000, 512), fits("exact", "hnsw", 10_000, 512)
    (False, True, False)
    """
    return kind == wanted if wanted != AUTO else kind in ("exact", choose(n, width))
