"""The tasks that ``bench/compare.py`` times in two versions of isthmus: one process per version runs this module.

It uses only what both versions have in common. Each line read names a task; each line written is a JSON object with its
seconds, its seconds of CPU and the hits it found.
"""

from __future__ import annotations

import itertools
import json
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

import isthmus
from isthmus import Collection, Document, Query, encoders

if TYPE_CHECKING:
    from isthmus.types import Matrix

Hits = list[tuple[str, float]]
DIM, SMALL, TEXTS, NEW, QUERIES = 512, 1_000, 1_000, 2_000, 64
SPEC = "center+nnn(k=16)+standardize"
SUBJECTS = ("cat", "dog", "boat", "mountain", "old man", "girl", "train", "market", "river", "kitchen")
VERBS = ("sleeps near", "runs past", "looks at", "stands behind", "is painted like", "waits for", "follows")
PLACES = ("a red sofa", "the harbour", "a snowy field", "the station", "a wooden table", "two children", "the window")


def sentences(count: int, first: int = 0) -> list[str]:
    """Return different sentences, always the same ones."""
    made = itertools.product(SUBJECTS, VERBS, PLACES)
    known = [f"a {subject} {verb} {place}" for subject, verb, place in made]
    return [f"{known[n * 37 % len(known)]}, number {n}" for n in range(first, first + count)]


def clouds(count: int, seed: int) -> tuple[Matrix, list[str]]:
    """Return vectors of texts and images in turn, each modality around a centre of its own."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(0).standard_normal((2, DIM)).astype(np.float32)
    rows = rng.standard_normal((count, DIM), dtype=np.float32) + centres[np.arange(count) % 2]
    return rows / np.linalg.norm(rows, axis=1, keepdims=True), ["text", "image"] * (count // 2)


def with_vectors(count: int, seed: int) -> list[Document]:
    """Return documents that bring their vectors, and metadata to filter by."""
    rows, kinds = clouds(count, seed)
    return [
        Document(f"{seed}-{n}", vectors={kind: row}, metadata={"group": n % 10})
        for n, (row, kind) in enumerate(zip(rows, kinds, strict=True))
    ]


def pairs(hits: Sequence[Any]) -> Hits:
    """Return ids with their scores."""
    return [(hit.id, float(hit.score)) for hit in hits]


class Tasks:
    """The collections of one version, and what is done with them; every public method is a task.

    A task is a generator: it prepares, yields, does what is timed, yields its hits, and cleans up.
    """

    def __init__(self, folder: Path, rows: int) -> None:
        self._folder, self._number = folder, itertools.count(1)
        self._encoder = encoders.load("mini")
        rng = np.random.default_rng(9)
        asked = rng.standard_normal((QUERIES, DIM), dtype=np.float32)
        self._queries = [Query(vectors={"text": row / np.linalg.norm(row)}) for row in asked]
        self._small = self._filled("small", SMALL)
        self._large = self._filled("large", rows)
        self._texts = Collection.open(folder / "texts", self._encoder, follow=False)
        self._texts.add([Document(str(n), text) for n, text in enumerate(sentences(TEXTS))])
        self._texts.calibrate(SPEC)

    def _filled(self, name: str, count: int) -> Collection:
        made = Collection.open(self._folder / name, "none", follow=False)
        made.add(with_vectors(count, 0))
        made.calibrate(SPEC)
        return made

    def _fresh(self, count: int = 0) -> Collection:
        made = Collection.open(self._folder / f"fresh{next(self._number)}", "none", follow=False)
        if count:
            made.add(with_vectors(count, 1))
        return made

    def _searched(self, things: Collection, times: int, **options: Any) -> Iterator[Hits]:
        things.search(self._queries[0], **options)
        yield []
        found = [things.search(query, **options) for query in self._queries[:times]]
        yield [pair for hits in found for pair in pairs(hits)]

    def cold_search(self) -> Iterator[Hits]:
        """``isthmus search`` in a new process."""
        place = str(self._folder / "texts")
        command = [sys.executable, "-m", "isthmus.cli", "search", "a cat on a sofa", "--in", place, "--json"]
        yield []
        subprocess.run(command, check=True, capture_output=True)  # noqa: S603 - our own
        yield []

    def import_isthmus(self) -> Iterator[Hits]:
        """``import isthmus`` in a new process."""
        yield []
        subprocess.run([sys.executable, "-c", "import isthmus"], check=True)
        yield []

    def open_small(self) -> Iterator[Hits]:
        """Open and close a small collection 20 times."""
        yield []
        for _ in range(20):
            Collection.open(self._folder / "small", follow=False).close()
        yield []

    def open_and_search_large(self) -> Iterator[Hits]:
        """Open a large collection and search once."""
        yield []
        with Collection.open(self._folder / "large", follow=False) as things:
            found = things.search(self._queries[0])
        yield pairs(found)

    def make_documents(self) -> Iterator[Hits]:
        """Construct documents, without a collection."""
        texts = sentences(NEW)
        yield []
        _ = [Document(str(n), text, metadata={"group": n}) for n, text in enumerate(texts)]
        yield []

    def add_vectors(self) -> Iterator[Hits]:
        """Add documents with vectors to a new collection."""
        new = with_vectors(NEW, 1)
        with self._fresh() as things:
            yield []
            things.add(new)
            yield []

    def add_texts_mini(self) -> Iterator[Hits]:
        """Add texts that ``mini`` encodes."""
        turn = next(self._number)
        new = [Document(f"new{n}", text) for n, text in enumerate(sentences(128, 128 * turn))]
        with Collection.open(self._folder / f"fresh{turn}", self._encoder, follow=False) as things:
            yield []
            things.add(new)
            yield []

    def add_unchanged(self) -> Iterator[Hits]:
        """Add documents that are there already."""
        new = with_vectors(NEW, 1)
        with self._fresh(NEW) as things:
            yield []
            things.add(new)
            yield []

    def delete_many(self) -> Iterator[Hits]:
        """Delete half of the documents in one call."""
        with self._fresh(NEW) as things:
            yield []
            things.delete([f"1-{n}" for n in range(0, NEW, 2)])
            yield []

    def delete_single(self) -> Iterator[Hits]:
        """Delete 30 documents one by one."""
        with self._fresh(NEW) as things:
            yield []
            for n in range(30):
                things.delete(f"1-{n}")
            yield []

    def update_metadata(self) -> Iterator[Hits]:
        """Update the metadata of 30 documents one by one."""
        with self._fresh(NEW) as things:
            yield []
            for n in range(30):
                things.update(f"1-{n}", {"group": "other"})
            yield []

    def add_one_and_search(self) -> Iterator[Hits]:
        """Add one document and search, 10 times."""
        with self._fresh(NEW) as things:
            things.calibrate(SPEC)
            things.search(self._queries[0])
            new = with_vectors(10, 2)
            yield []
            found = []
            for document in new:
                things.add([document])
                found += pairs(things.search(self._queries[0]))
            yield found

    def search_small(self) -> Iterator[Hits]:
        """Search 1,000 vectors, one query at a time."""
        return self._searched(self._small, QUERIES)

    def search_large(self) -> Iterator[Hits]:
        """Search all vectors, one query at a time."""
        return self._searched(self._large, 32)

    def search_small_where(self) -> Iterator[Hits]:
        """Search a tenth of 1,000 vectors."""
        return self._searched(self._small, QUERIES, where={"group": 3})

    def search_large_where(self) -> Iterator[Hits]:
        """Search a tenth of all vectors."""
        return self._searched(self._large, 16, where={"group": 3})

    def search_large_raw(self) -> Iterator[Hits]:
        """Search all vectors by raw cosine."""
        return self._searched(self._large, 32, calibration="none")

    def search_explained(self) -> Iterator[Hits]:
        """Search 1,000 vectors and explain each hit."""
        return self._searched(self._small, 16, explain=True)

    def search_many_large(self) -> Iterator[Hits]:
        """Search all vectors with all queries at once."""
        self._large.search(self._queries[0])
        yield []
        found = self._large.search_many(self._queries)
        yield [pair for hits in found for pair in pairs(hits)]

    def _words(self, *, hybrid: bool) -> Iterator[Hits]:
        turn = next(self._number)
        asked = [f"a cat near the harbour {turn} {n}" for n in range(16)]
        self._texts.search(f"warm up {turn}", hybrid=hybrid)
        yield []
        found = [self._texts.search(query, hybrid=hybrid) for query in asked]
        yield [pair for hits in found for pair in pairs(hits)]

    def search_words(self) -> Iterator[Hits]:
        """Search texts by words that ``mini`` encodes."""
        return self._words(hybrid=False)

    def search_hybrid(self) -> Iterator[Hits]:
        """Search texts by vectors and BM25."""
        return self._words(hybrid=True)

    def calibrate_vectors(self) -> Iterator[Hits]:
        """Calibrate 2,000 vectors."""
        with self._fresh(NEW) as things:
            yield []
            things.calibrate(SPEC)
            yield pairs(things.search(self._queries[0]))

    def calibrate_texts_auto(self) -> Iterator[Hits]:
        """Let ``auto`` choose a calibration of the texts."""
        yield []
        self._texts.calibrate("auto")
        yield pairs(self._texts.search("a dog follows two children"))
        self._texts.calibrate(SPEC)

    def stats_large(self) -> Iterator[Hits]:
        """``stats`` of a large collection."""
        yield []
        self._large.stats()
        yield []

    def get_documents(self) -> Iterator[Hits]:
        """Get 200 documents by id."""
        yield []
        for n in range(200):
            self._large.get(f"0-{n}")
        yield []

    def iterate_small(self) -> Iterator[Hits]:
        """Iterate over 1,000 documents."""
        yield []
        list(self._small)
        yield []


def cpu() -> float:
    """Return the seconds of CPU that this process and its children have used."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def timed(task: Callable[[], Iterator[Hits]]) -> dict[str, Any]:
    """Run a task once, and time what stands between its two yields."""
    steps = task()
    next(steps)
    start, used = perf_counter(), cpu()
    hits = next(steps)
    result = {"seconds": perf_counter() - start, "cpu": cpu() - used, "hits": hits}
    for _ in steps:
        pass
    return result


def main(folder: Path, rows: int) -> None:
    """Answer each line that names a task."""
    tasks = Tasks(folder, rows)
    names = [name for name in vars(Tasks) if not name.startswith("_")]
    print(json.dumps({"source": isthmus.__file__, "tasks": names}), flush=True)
    for line in sys.stdin:
        print(json.dumps(timed(getattr(tasks, line.strip()))), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
