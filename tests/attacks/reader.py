"""A process that searches while another writes, and must not notice when that one is killed."""

from __future__ import annotations

from pathlib import Path

from attacks import world
from attacks.workers import Request, Say
from attacks.world import QUERIES
from isthmus import Collection


def main(request: Request, say: Say) -> None:
    """Search until a file says to stop, and once more after that; say how often, and what was wrong."""
    world.small_batches()
    stop, searches, wrong = Path(request["stop"]), 0, 0
    with Collection.open(request["folder"], follow=False, threads=1) as things:
        say("open")
        stopping = False
        while not stopping:
            stopping = stop.exists()
            for query in QUERIES.values():
                hits = things.search(query, k=50)
                searches += 1
                wrong += len({hit.id for hit in hits}) != len(hits) or not hits
        say(f"problem {wrong} of {searches} searches gave nothing, or a document twice" if wrong else "right")
