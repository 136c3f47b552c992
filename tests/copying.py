"""Collections to copy, with something of everything, and what must be the same of a collection and its copy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isthmus import Collection, Document, Query
from isthmus.documents import Image, Text
from isthmus.encoders import Encoder
from isthmus.storage.entries import entries
from stock import mixed, pixels

QUERIES = [Query("a red cat"), Query(image=pixels(500)), Query("dog", image=pixels(501))]
OPTIONS: list[dict[str, Any]] = [
    {},
    {"hybrid": True},
    {"where": {"odd": True}},
    {"where": {"tags": "a", "lang": "en"}},
    {"calibration": "none"},
    {"explain": True},
]


def write_files(folder: Path) -> Path:
    """Write two texts and two files that cannot be read."""
    folder.mkdir(parents=True)
    (folder / "one.txt").write_text("a cat on a red sofa")
    (folder / "two.txt").write_text("the dog in the snow")
    (folder / "broken.png").write_bytes(b"no picture")
    (folder / "empty.txt").write_bytes(b"")
    return folder


def fill(things: Collection, files: Path) -> None:
    """Put in documents of every kind, files, two calibrations, queries and a log; replace and delete some."""
    things.index(files, ocr="never")
    things.add(mixed(30))
    vector = np.linspace(-1, 1, 12 if things.encoder is None else things.encoder.dim, dtype=np.float32)
    things.add(
        [
            Document("own", "a text", metadata={"n": None, "big": 2**60, "é": [1.5, "x\0y"]}, vectors={"text": vector}),
            Document("several", parts=[Text("a cat"), Image(pixels(7)), Text("\0a dog"), Image(pixels(8))]),
            Document("d0-5", "the dog came later", metadata={"tags": ["a", "b"], "lang": "en"}),
        ]
    )
    things.delete(["d0-3", "d0-4"])
    things.calibrate("center", queries=[("a red cat", "d0-6"), "a dog"])
    things.calibrate("center+nnn(k=4)")
    things.log_queries()
    things.search_many(["a cat in the snow", "what the dog saw"])
    things.stats()  # which writes the log


def answers(things: Collection, **options: Any) -> list[list[tuple[object, ...]]]:
    asked = [query for query in QUERIES if query.text] if options.get("hybrid") else QUERIES
    found = [things.search(query, 50, **options) for query in asked]
    return [
        [(hit.id, pytest.approx(hit.score, abs=1e-5), pytest.approx(hit.probability, abs=1e-5)) for hit in hits]
        for hits in found
    ]


def told(things: Collection, **options: Any) -> list[list[tuple[object, ...]]]:
    """Return the numbers that ``answers`` says approximately."""
    asked = [query for query in QUERIES if query.text] if options.get("hybrid") else QUERIES
    return [[(hit.id, hit.score, hit.probability) for hit in things.search(query, 50, **options)] for query in asked]


def stored(things: Collection) -> dict[str, Any]:
    """Return all that a store has, in a form that can be compared."""
    store = things.store
    held = entries(store, store.rows())
    calibrations = store.calibrations
    return {
        "documents": list(things),
        "hashes": [(one.hashes, one.own_hash, one.unit, one.run, one.modality) for one in held],
        "vectors": [
            [(s.parts, s.name, s.start, s.stop, bool(s.own), np.asarray(s.vector).tobytes()) for s in one.segments]
            for one in held
        ],
        "facts": [sorted(map(repr, facts)) for facts in store.facts(store.rows()).values()],
        "ledger": store.ledger.rows(),
        "calibrations": [calibrations.read(version) for version in calibrations.versions()],
        "served": (calibrations.served(), calibrations.spec()),
        "queries": (store.queries.on, store.queries.given()),
        "statistics": {name: (m.count, m.mean.tolist(), m.m2.tolist()) for name, m in store.statistics().parts.items()},
        "manifest": store.database.manifest("encoder", "identity", "dim"),
    }


def check_alike(one: Collection, other: Collection, files: Path, encoder: Encoder) -> None:
    """Check that two collections hold the same, answer alike, and go on alike."""
    before = stored(one)
    assert stored(other) == before
    assert other.store.queries.logged() == one.store.queries.logged() != []
    for options in OPTIONS:
        assert told(other, **options) == answers(one, **options)
    assert other.verify() == []
    for each in (one, other):
        done = each.index(files, ocr="never")
        assert (done.added, done.updated, done.removed) == (0, 0, 0)
        each.add([*mixed(3, seed=9), Document("d0-7", "another text")])
        each.delete("own")
        each.calibrate("center+nnn(k=3)")
    after = stored(other)
    assert [one.version for one in after["calibrations"]] == [1, 2, 3]
    assert [document.id for document in after["documents"]] == [document.id for document in one]
    assert told(other) == answers(one)
