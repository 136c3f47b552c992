"""One index of everything (``layout="one"``) against one index per modality: recall and time at equal settings.

    python bench/one_index.py --data DIR [--rows 51000] [--spec SPEC] [--kinds ivf-sq8 hnsw] [--without-length]

The documents are a third texts, a third photos and a third both, made from the ``mini`` vectors of Flickr8k's dev split
(`bench/real_like.py`); the queries are captions that no document is made of. Recall@10 is against exact search. Both
layouts answer each query in turn; times of approximate indexes are CPU time, on one thread. ``effort`` is efSearch or
nprobe, of each index. Read the ratios, not the seconds.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from time import process_time
from typing import Protocol

import numpy as np
from machine import seconds
from real_like import many
from search import plain_index, recall

from isthmus import calibration, encoders, index
from isthmus.calibration import Fitted
from isthmus.index import hnsw, ivf
from isthmus.index.threads import limited
from isthmus.types import Matrix, Rows, Vectors

K = 10
EFFORTS = {"ivf-sq8": (4, 8, 16, 32, 64, 128, 256), "hnsw": (16, 32, 64, 128, 256, 512)}
RECALLS = (0.90, 0.95, 0.98)


@dataclass(frozen=True)
class Corpus:
    """Folded documents in both layouts, and the folded queries of each."""

    fitted: Fitted
    split: dict[str, tuple[Matrix, Rows]]  # modality → vectors, rows among all documents
    one: Matrix
    split_queries: Matrix
    one_queries: Matrix

    @classmethod
    def of(cls, data: Path, rows: int, spec: str, *, lengths: bool = True) -> Corpus:
        sys.path.append(str(Path(__file__).parent.parent / "reproduce"))
        import flickr8k

        dev = flickr8k.split(encoders.load("mini", batch=64), data / "flickr8k", "dev")
        made = documents(dev.images, dev.captions, rows)
        sample = np.random.default_rng(1).permutation(len(made))[:9000]
        fitted = calibration.fit(spec, made.take(sample), Vectors.of(dev.captions[:, 3], "text"))
        queries = Vectors.of(dev.captions[:500, 4], "text")
        folded, last = fitted.fold(made), None if lengths else -1
        places = {name: np.flatnonzero(folded.modality == name) for name in made.modalities}
        return cls(
            fitted,
            {name: (folded.vectors[rows], rows) for name, rows in places.items()},
            fitted.fold(made, layout="one", queries="text").vectors[:, :last],
            fitted.fold_queries(queries).vectors,
            fitted.fold_queries(queries, layout="one").vectors[:, :last],
        )

    def merged(self, indexes: dict[str, Searchable], queries: Matrix, effort: int) -> Rows:
        """Search one index per modality, finish the inner products and merge them."""
        found = {name: one.search(queries, effort) for name, one in indexes.items()}
        scores = np.hstack([self.fitted.finish(inner, "text", name) for name, (inner, _) in found.items()])
        rows = np.hstack([self.split[name][1][place] for name, (_, place) in found.items()])
        return np.asarray(np.take_along_axis(rows, np.argsort(-scores, axis=1)[:, :K], axis=1))


def documents(images: Matrix, captions: Matrix, rows: int) -> Vectors:
    """Make a third texts, a third photos and a third photos with their caption; captions 0 to 2 alone are used."""
    rng, n = np.random.default_rng(0), rows // 3
    both = np.split(many(np.hstack([captions[:, 0], images]), n, rng), 2, axis=1)
    return Vectors.concat(
        [
            Vectors.of(many(captions[:, :3].reshape(-1, images.shape[1]), n, rng), "text"),
            Vectors.of(many(images, n, rng), "image"),
            Vectors({"text": both[0], "image": both[1]}),
        ]
    )


class Searchable(Protocol):
    """An index with an effort: efSearch or nprobe."""

    def search(self, queries: Matrix, effort: int) -> tuple[Matrix, Rows]: ...


class Plain:
    """A plain Faiss index, as another engine would build it."""

    def __init__(self, kind: str, rows: Matrix) -> None:
        self.kind, self.made = kind, plain_index(kind, np.ascontiguousarray(rows))

    def search(self, queries: Matrix, effort: int) -> tuple[Matrix, Rows]:
        if self.kind == "hnsw":
            self.made.hnsw.efSearch = effort
        else:
            self.made.nprobe = effort
        inner, rows = limited(lambda: self.made.search(queries, K), 1)
        return inner, rows


class Ours:
    """An index as a collection builds it."""

    def __init__(self, kind: str, rows: Matrix) -> None:
        self.made = index.build(rows, kind)

    def search(self, queries: Matrix, effort: int) -> tuple[Matrix, Rows]:
        hnsw.EFFORT = ivf.EFFORT = effort
        return self.made.search(queries, K)


ENGINES: dict[str, Callable[[str, Matrix], Searchable]] = {"Faiss": Plain, "isthmus": Ours}


def exact(corpus: Corpus) -> Rows:
    """Compare exact search; return its rows."""
    split: dict[str, Searchable] = {name: Ours("exact", vectors) for name, (vectors, _) in corpus.split.items()}
    one = Ours("exact", corpus.one)
    truth = corpus.merged(split, corpus.split_queries, 0)
    found = one.search(corpus.one_queries, 0)[1]
    print(f"exact search: recall@{K} of one against split {recall(found, truth):.4f}")
    for count in (1, 64):
        a, b = corpus.split_queries[:count], corpus.one_queries[:count]
        searches = (lambda a=a: corpus.merged(split, a, 0), lambda b=b: one.search(b, 0))
        times = 1e3 * np.median([[seconds(search, 1) for search in searches] for _ in range(15)], axis=0)
        print(f"exact, {count} at once: split {times[0]:.1f} ms, one {times[1]:.1f} ms, {times[1] / times[0]:.2f}")
    return truth


def in_turns(searches: list[Callable[[Matrix], Rows]], queries: list[Matrix]) -> Matrix:
    """Return the median CPU seconds of each search over its queries, one query of each after another."""
    taken = np.empty((3 * len(queries[0]), len(searches)))
    for turn, times in enumerate(taken):
        at = turn % len(queries[0])
        for place, (search, asked) in enumerate(zip(searches, queries, strict=True)):
            start = process_time()
            search(asked[at : at + 1])
            times[place] = process_time() - start
    return np.asarray(np.median(taken, axis=0))


def compared(corpus: Corpus, truth: Rows, kind: str, engine: str) -> None:
    split = {modality: ENGINES[engine](kind, rows) for modality, (rows, _) in corpus.split.items()}
    one = ENGINES[engine](kind, corpus.one)
    curves: list[tuple[float, float, float, float]] = []
    for effort in EFFORTS[kind]:
        searches: list[Callable[[Matrix], Rows]] = [
            partial(corpus.merged, split, effort=effort),
            lambda queries, effort=effort: one.search(queries, effort)[1],  # type: ignore[misc]
        ]
        asked = [corpus.split_queries, corpus.one_queries]
        times = 1e3 * in_turns(searches, [queries[:200] for queries in asked])
        found = [recall(search(queries), truth) for search, queries in zip(searches, asked, strict=True)]
        curves.append((found[0], times[0], found[1], times[1]))
        print(
            f"{engine + ' ' + kind:<17}{effort:>7}{found[0]:>15.3f}{times[0]:>7.2f}{found[1]:>13.3f}{times[1]:>7.2f}"
            f"{times[1] / times[0]:>13.2f}",
            flush=True,
        )
    for aim in RECALLS:
        a, b = (time_at(aim, [(row[i], row[i + 1]) for row in curves]) for i in (0, 2))
        print(f"{'':<17}at recall {aim:.2f}: split {a:.2f} ms, one {b:.2f} ms, one / split {b / a:.2f}", flush=True)


def time_at(aim: float, curve: list[tuple[float, float]]) -> float:
    """Return the time at which a curve reaches a recall, between two efforts by interpolation; nan if never."""
    if curve[0][0] >= aim:
        return curve[0][1]
    for (low, fast), (high, slow) in pairwise(curve):
        if high >= aim:
            return float(np.interp(aim, [low, high], [fast, slow]))
    return float("nan")


def main(options: argparse.Namespace) -> None:
    corpus = Corpus.of(options.data, options.rows, options.spec, lengths=not options.without_length)
    print(f"{len(corpus.one):,} rows, {options.spec}; mean length of rows of one:")
    for name, (_, places) in corpus.split.items():
        print(f"  {name:<12}{np.linalg.norm(corpus.one[places], axis=1).mean():.1f}")
    truth = exact(corpus)
    print(f"{'':<17}{'effort':>7}{'split: recall':>15}{'ms':>7}{'one: recall':>13}{'ms':>7}{'one / split':>13}")
    for kind in options.kinds:
        for engine in ENGINES:
            compared(corpus, truth, kind, engine)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="a folder with flickr8k/")
    parser.add_argument("--rows", type=int, default=51_000)
    parser.add_argument("--spec", default="center+nnn(k=16)+standardize")
    parser.add_argument("--kinds", nargs="+", choices=list(EFFORTS), default=list(EFFORTS))
    parser.add_argument(
        "--without-length", action="store_true", help="leave out the column that makes rows equally long"
    )
    main(parser.parse_args())
