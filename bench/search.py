"""The speed of searching folded vectors, relative to the machine's limits and to plain Faiss, and by collection size.

    python bench/search.py [--only exact kinds filters calibrated growth] [--rows 100000] [--full] [--real FILE.npz]

The vectors are made from real ones (`bench/real_like.py`) and folded by `center+standardize+nnn`; texts are
the queries, images the documents.
``--full`` runs `exact` on a million rows and `growth` up to a million. Growth writes `out/growth.csv`, and draws
`docs/images/growth.png` from it with ``--picture``. Read the ratios, not the seconds.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import numpy as np
from machine import read, seconds, share
from real_like import Folds

from isthmus import index
from isthmus.index import hnsw, ivf
from isthmus.types import Mask, Matrix, Rows

SIZES = (10_000, 30_000, 100_000, 200_000, 500_000, 1_000_000)
LARGEST = {"exact": 1_000_000, "hnsw": 200_000, "ivf-sq8": 1_000_000, "ivf-rabitq": 1_000_000}
PLAIN = ("hnsw", "ivf-sq8")  # compared with plain Faiss
CSV = Path("out/growth.csv")
K = 10


def recall(found: Rows, wanted: Rows) -> float:
    return float(np.mean([len(set(f) & set(w)) / len(set(w)) for f, w in zip(found, wanted, strict=True)]))


def latencies(search: Callable[[Matrix], object], queries: Matrix) -> tuple[float, float]:
    """Return the median and the 99th percentile of the seconds one query takes."""
    search(queries[:1])
    taken = [seconds(lambda i=i: search(queries[i : i + 1]), 1) for i in range(len(queries))]  # type: ignore[misc]
    return float(np.median(taken)), float(np.quantile(taken, 0.99))


def anonymous() -> int:
    """Return the memory of this process in bytes, without mapped files."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split("RssAnon:")[1].split()[0])


@contextmanager
def peak() -> Iterator[list[int]]:
    """Yield a list that receives the peak memory inside the block, and the memory at its end, in bytes."""
    before, most, over = anonymous(), [0], threading.Event()

    def watch() -> None:
        while not over.is_set():
            most[0] = max(most[0], anonymous() - before)
            sleep(0.02)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield most
    finally:
        over.set()
        watcher.join()
        most.append(anonymous() - before)


def exact(folds: Folds, rows: int) -> None:
    vectors, queries = folds.documents(rows), folds.queries(256)
    shelf = index.build(vectors, "exact")
    a, b = (np.random.default_rng(i).standard_normal((8192, 512), dtype=np.float32) for i in range(2))
    print(f"\nexact search among {rows:,} × {vectors.shape[1]}, k = {K}")
    for count in (1, 4):
        part, taken = share(lambda: read(vectors), lambda: shelf.search(queries[:count], K))  # noqa: B023 - at once
        print(f"{count:>5} queries {taken * 1e3:>9.1f} ms   {part:.0%} of the machine's memory read rate", flush=True)
    for count in (64, 256):
        part, taken = share(lambda: a @ b.T, lambda: shelf.search(queries[:count], K), 5)  # noqa: B023 - at once
        work = rows * count * vectors.shape[1] / (8192 * 8192 * 512)
        print(f"{count:>5} queries {taken * 1e3:>9.1f} ms   {part * work:.0%} of its sgemm rate", flush=True)


def kinds(folds: Folds, rows: int, kinds: list[str]) -> None:
    vectors, queries = folds.documents(rows), folds.queries(200)
    truth = index.build(vectors, "exact").search(queries, K)[1]
    print(f"\nevery kind among {rows:,} × {vectors.shape[1]}")
    print(f"{'':<11}{'build s':>9}{'index MB':>10}{'of vectors':>12}{'peak/index':>12}", end="")
    print(f"{'p50':>8}{'p99 ms':>8}{'recall':>8}")
    for kind in kinds:
        row = measured(kind, vectors, queries, truth)
        size = row["bytes"] or 1
        print(
            f"{kind:<11}{row['build']:>9.1f}{row['bytes'] / 1e6:>10.0f}{row['bytes'] / vectors.nbytes:>12.2f}"
            f"{row['peak'] / size if row['bytes'] else 0:>12.2f}{row['p50'] * 1e3:>8.2f}{row['p99'] * 1e3:>8.2f}"
            f"{row['recall']:>8.3f}",
            flush=True,
        )


def measured(kind: str, vectors: Matrix, queries: Matrix, truth: Rows) -> dict[str, float]:
    with peak() as held:
        start = perf_counter()
        shelf = index.build(vectors, kind)
        built = perf_counter() - start
    with tempfile.TemporaryDirectory(dir=CSV.parent) as folder:
        size = sum(path.stat().st_size for path in shelf.save(Path(folder), "bench"))
    p50, p99 = latencies(lambda q: shelf.search(q, K), queries)
    found = shelf.search(queries, K)[1]
    return {
        "build": built, "bytes": size, "peak": held[0], "p50": p50, "p99": p99, "recall": recall(found, truth),
    }  # fmt: skip


def masks(vectors: Matrix, queries: Matrix) -> dict[str, Mask]:
    """Return random masks, and masks that depend on the queries: only the region around them, all but it, half."""
    rng = np.random.default_rng(1)
    n = len(vectors)
    near = np.zeros(n, dtype=bool)
    near[np.unique(index.build(vectors, "exact").search(queries, n // 200)[1])] = True
    centre = vectors[np.argmax(vectors @ queries[0])]
    region = vectors @ centre
    random = {f"random {part:.1%}": rng.random(n) < part for part in (0.001, 0.01, 0.1, 0.5)}
    return {
        **random,
        "only a region, 10%": region > np.quantile(region, 0.9),
        "all but a region, 90%": region < np.quantile(region, 0.9),
        f"all queries' best {n // 200:,} forbidden": ~near,
    }


def filters(folds: Folds, rows: int) -> None:
    vectors, queries = folds.documents(rows), folds.queries(100)
    shelves = {kind: index.build(vectors, kind) for kind in index.KINDS}
    print(f"\nfilters among {rows:,}: recall@{K} and p50 in ms")
    print(f"{'':<40}{'allowed':>8}" + "".join(f"{kind:>18}" for kind in shelves))
    for name, mask in masks(vectors, queries).items():
        truth = shelves["exact"].search(queries, K, mask)[1]
        cells = []
        for shelf in shelves.values():
            p50, _ = latencies(lambda q: shelf.search(q, K, mask), queries[:50])  # noqa: B023 - called at once
            cells.append(f"{recall(shelf.search(queries, K, mask)[1], truth):>10.3f}{p50 * 1e3:>8.2f}")
        print(f"{name:<40}{mask.mean():>8.1%}" + "".join(cells), flush=True)


def calibrated(folds: Folds, rows: int, kinds: list[str]) -> None:
    """Compare one folded index per modality, finished and merged, with raw vectors in the same kind and in Faiss."""
    half = rows // 2
    raw = {modality: folds.raw(half, modality) for modality in ("image", "text")}
    print(f"\ncalibrated search, {half:,} images and {half:,} texts, k = {K}: p50 in ms, taken in turns")
    print(f"{'':<9}{'Faiss, one':>12}{'Faiss, split':>14}{'ours, raw':>11}{'ours, calibrated':>18}{'of ours, raw':>14}")
    for kind in (kind for kind in kinds if kind in PLAIN):
        times = in_turns(
            [
                plain_faiss(kind, {"all": np.concatenate(list(raw.values()))}),
                plain_faiss(kind, raw),
                raw_search(kind, raw),
                folded_search(folds, kind, raw),
            ],
            [folds.raw_queries(200)] * 3 + [folds.queries(200)],
        )
        one, split, ours, calibrated_ = 1e3 * times
        line = f"{kind:<9}{one:>12.2f}{split:>14.2f}{ours:>11.2f}{calibrated_:>18.2f}{calibrated_ / ours:>14.2f}"
        print(f"{line}   ({calibrated_ / split:.2f} of Faiss, split; {calibrated_ / one:.2f} of one)", flush=True)


def in_turns(searches: list[Callable[[Matrix], object]], queries: list[Matrix]) -> Matrix:
    """Return the median seconds of each search over its queries, one query of each after another."""
    taken = [
        [seconds(lambda s=s, q=q, i=i: s(q[i : i + 1]), 1) for s, q in zip(searches, queries, strict=True)]  # type: ignore[misc]
        for i in [*range(len(queries[0]))] * 3
    ]
    return np.asarray(np.median(taken, axis=0))


def raw_search(kind: str, raw: dict[str, Matrix]) -> Callable[[Matrix], object]:
    """Return the search of our own indexes of raw vectors, one per modality, merged: the baseline of calibration."""
    shelves = [index.build(rows, kind) for rows in raw.values()]

    def search(queries: Matrix) -> Rows:
        scores = np.concatenate([shelf.search(queries, K)[0] for shelf in shelves], axis=1)
        return np.argsort(-scores, axis=1)[:, :K]

    return search


def folded_search(folds: Folds, kind: str, raw: dict[str, Matrix]) -> Callable[[Matrix], object]:
    shelves = {modality: index.build(folds.folded(rows, modality), kind) for modality, rows in raw.items()}

    def search(queries: Matrix) -> Rows:
        found = {modality: shelf.search(queries, K)[0] for modality, shelf in shelves.items()}
        scores = np.concatenate([folds.fitted.finish(s, "text", modality) for modality, s in found.items()], axis=1)
        return np.argsort(-scores, axis=1)[:, :K]

    return search


def plain_faiss(kind: str, raw: dict[str, Matrix]) -> Callable[[Matrix], object]:
    """Return the search of plain Faiss indexes with our kind's settings; raw scores merged."""
    made = [plain_index(kind, rows) for rows in raw.values()]

    def search(queries: Matrix) -> Rows:
        scores = np.concatenate([one.search(queries, K)[0] for one in made], axis=1)
        return np.argsort(-scores, axis=1)[:, :K]

    return search


def plain_index(kind: str, rows: Matrix) -> Any:
    import faiss

    n, width = rows.shape
    if kind == "hnsw":
        made: Any = faiss.IndexHNSWFlat(width, hnsw.LINKS, faiss.METRIC_INNER_PRODUCT)
        made.hnsw.efConstruction, made.hnsw.efSearch = hnsw.BUILD_EFFORT, hnsw.EFFORT
    else:
        cells = int(ivf.CELLS_PER_ROOT * np.sqrt(n))
        made = faiss.index_factory(width, f"IVF{cells},SQ8", faiss.METRIC_INNER_PRODUCT)
        made.cp.niter, made.nprobe = ivf.ROUNDS, ivf.EFFORT
        made.train(rows[np.random.default_rng(0).permutation(n)[: ivf.ROWS_PER_CELL * cells]])
    made.add(rows)
    return made


def growth(folds: Folds, sizes: tuple[int, ...], kinds: list[str]) -> None:
    """Measure these kinds at these sizes; the rows of other kinds stay in the table."""
    kept = [row for row in table() if row["kind"] not in kinds] if CSV.exists() else []
    vectors, queries = folds.documents(max(sizes)), folds.queries(100)
    print(
        f"\n{'rows':>9} {'kind':<9}{'build s':>9}{'index MB':>10}{'peak MB':>9}{'p50 ms':>9}{'p99 ms':>9}{'recall':>8}"
    )
    for n in sizes:
        truth = index.build(vectors[:n], "exact").search(queries, K)[1]
        for kind in (kind for kind in kinds if n <= LARGEST[kind]):
            row = measured(kind, vectors[:n], queries, truth)
            kept.append({"rows": n, "kind": kind, **row})
            print(
                f"{n:>9,} {kind:<9}{row['build']:>9.1f}{row['bytes'] / 1e6:>10.0f}{row['peak'] / 1e6:>9.0f}"
                f"{row['p50'] * 1e3:>9.2f}{row['p99'] * 1e3:>9.2f}{row['recall']:>8.3f}",
                flush=True,
            )
            with CSV.open("w", newline="") as stream:
                written = csv.DictWriter(stream, list(kept[0]))
                written.writeheader()
                written.writerows(kept)


def table() -> list[dict[str, Any]]:
    with CSV.open() as stream:
        return list(csv.DictReader(stream))


def draw(picture: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
    columns = (
        ("build", 1, "build, seconds"),
        ("bytes", 1e-6, "index without the vectors, MB"),
        ("p50", 1e3, "one query, ms (dotted: 99th percentile)"),
    )
    for color, kind in zip(("#444444", "#1f77b4", "#d95f02", "#7570b3"), LARGEST, strict=True):
        rows = sorted((row for row in table() if row["kind"] == kind), key=lambda row: int(row["rows"]))
        n = [int(row["rows"]) for row in rows]
        for panel, (column, unit, title) in zip(panels, columns, strict=True):
            if kind != "exact" or column == "p50":
                panel.plot(n, [unit * float(row[column]) for row in rows], marker="o", color=color, label=kind)
            panel.set(xscale="log", yscale="log", xlabel="rows")
            panel.set_title(title, fontsize=11)
        panels[2].plot(n, [1e3 * float(row["p99"]) for row in rows], color=color, linestyle=":", linewidth=1.5)
    for panel in panels:
        panel.grid(alpha=0.3)
        panel.set_xticks(SIZES, [f"{n // 1000}k" if n < 1_000_000 else "1M" for n in SIZES], fontsize=8)
        panel.xaxis.set_minor_locator(mpl.ticker.NullLocator())
        panel.yaxis.set_major_formatter("{x:g}")
    panels[2].legend(frameon=False)
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, dpi=110)


def main(options: argparse.Namespace) -> None:
    CSV.parent.mkdir(exist_ok=True)
    parts = options.only or ["exact", "kinds", "filters", "calibrated", "growth"]
    rows = options.rows
    with tempfile.TemporaryDirectory(dir=CSV.parent) as folder:
        folds = Folds(options.real, Path(folder))
        if "exact" in parts:
            exact(folds, 1_000_000 if options.full else rows)
        if "kinds" in parts:
            kinds(folds, rows, options.kinds)
        if "filters" in parts:
            filters(folds, rows)
        if "calibrated" in parts:
            calibrated(folds, rows, options.kinds)
        if "growth" in parts:
            growth(folds, tuple(n for n in SIZES if options.full or n <= max(rows, SIZES[0])), options.kinds)
    if options.picture is not None:
        draw(options.picture)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=["exact", "kinds", "filters", "calibrated", "growth", "picture"])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument(
        "--kinds", nargs="+", choices=list(LARGEST), default=list(LARGEST), help="for kinds, calibrated and growth"
    )
    parser.add_argument("--full", action="store_true", help="exact search and growth up to a million rows")
    parser.add_argument(
        "--real", type=Path, help="an npz of real vectors, arrays named …_img and …_txt; default: those of mini"
    )
    parser.add_argument("--picture", type=Path, help="draw the growth into this file")
    main(parser.parse_args())
