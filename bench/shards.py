"""Three shards against one, and against no shards: real PostgreSQL servers, all on this machine.

    python bench/shards.py [--rows 50000] [--dim 512] [--queries 100]

Needs the extra test-all. It prints how long it takes to publish the vectors with their indexes, the median time of
searches that ask all places in turn, and the share of hits that exact search finds too. Servers on one machine share
its cores and its memory, so this shows what the way over the coordinator costs, and not what more machines save.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from time import perf_counter

import numpy as np

from isthmus import Collection, Document, Query
from isthmus.types import Matrix

sys.path.append(str(Path(__file__).parent.parent / "tests"))

import postgres_server
from isthmus.storage.postgres import shard_servers

TOPICS = 500
NOISE = 0.7  # of a row around its topic, whose numbers have variance 1


def drawn(rows: int, dim: int, rng: np.random.Generator, topics: Matrix) -> Matrix:
    """Return random rows around topics."""
    return (topics[rng.integers(0, len(topics), rows)] + NOISE * rng.normal(size=(rows, dim))).astype(np.float32)


def place(shards: int) -> str:
    """Return the URL of a new collection on so many shards."""
    url = postgres_server.server().collection()
    if shards:
        shard_servers.make(url, [postgres_server.shard(number).url for number in range(1, shards + 1)])
    return url


def main() -> None:
    """Fill three places with the same vectors, and ask them in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--queries", type=int, default=100)
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    topics = rng.normal(size=(TOPICS, given.dim))
    rows, asked = drawn(given.rows, given.dim, rng, topics), drawn(given.queries, given.dim, rng, topics)
    queries = [Query(vectors={"text": row}) for row in asked]
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    places = {shards: Collection.open(place(shards), "none", calibration="none", follow=False) for shards in (0, 1, 3)}
    print("shards  publish")
    for shards, things in places.items():
        things.add(Document(f"d{at}", vectors={"text": row}) for at, row in enumerate(rows))
        start = perf_counter()
        things.search(queries[0])
        print(f"{shards:6}  {perf_counter() - start:6.1f} s", flush=True)
    print("     k  shards   median   against one shard   recall")
    for k in (10, 100, 500):
        taken: dict[int, list[float]] = {shards: [] for shards in places}
        found: dict[int, list[float]] = {shards: [] for shards in places}
        for at, query in enumerate(queries):
            right = {f"d{row}" for row in np.argsort(-(unit @ asked[at]))[:k]}
            for shards, things in places.items():
                start = perf_counter()
                hits = things.search(query, k)
                taken[shards].append(perf_counter() - start)
                found[shards].append(len(right & {hit.id for hit in hits}) / k)
        one = float(np.median(taken[1]))
        for shards in places:
            median = float(np.median(taken[shards]))
            print(f"{k:6}  {shards:6}  {1000 * median:4.0f} ms   {median / one:17.2f}   {np.mean(found[shards]):6.3f}")
    for things in places.values():
        things.close()


if __name__ == "__main__":
    main()
