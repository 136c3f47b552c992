"""What is attacked: a small collection with something in every table, the folder it was indexed from, two encoders."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from PIL import Image

from attacks.workers import Request, Say, Worker
from damage import pdf
from isthmus import Collection, Document, Query, kinds
from isthmus.search import snapshot, sync, writer
from stock import FILE, pixels, words
from tiny import write_encoder

SPEC = "center+nnn(k=4)"
BATCH = 5
STORED = 30  # documents that were added; ``add`` brings as many new ones
QUERIES = {
    "text": Query(text="a red cat"),
    "image": Query(image=pixels(500)),
    "both": Query(text="dog", image=pixels(501)),
}
Content: TypeAlias = dict[str, str]  # a digest of all that a document holds, by its id


@dataclass(frozen=True, slots=True)
class World:
    """Where everything is."""

    root: Path
    encoder: str
    other: str  # a second encoder, of another dimension
    base: Path  # the collection, closed; attacks take copies
    source: Path  # the folder that it was indexed from, which has changed since

    def request(self, **more: Any) -> dict[str, Any]:
        """Return what a task needs to know, as JSON."""
        return {"encoder": self.encoder, "other": self.other, "source": str(self.source), **more}

    def copy(self, name: str) -> Path:
        """Return a copy of the collection; what an earlier attack of that name left is removed."""
        folder = self.root / "cases" / name
        for old in [folder, *folder.parent.glob(f"{name}.*")]:
            shutil.rmtree(old, ignore_errors=True)
            old.unlink(missing_ok=True)
        shutil.copytree(self.base, folder)
        return folder


def make(root: Path) -> World:
    """Make the encoders, the folder and the collection, in a process of its own."""
    encoder = f"onnx:{write_encoder(root / 'encoder')}"
    other = f"onnx:{write_encoder(root / 'other', dim=12)}"
    made = World(root, encoder, other, root / "base", root / "source")
    (root / "cases").mkdir()
    with Worker() as worker:
        worker.run("attacks.world", made.request(base=str(made.base)))
    return made


def main(request: Request, _: Say) -> None:
    """Fill the collection, then change the folder it was indexed from."""
    small_batches()
    source, base, encoder = Path(request["source"]), Path(request["base"]), str(request["encoder"])
    write_source(source, 0)
    with Collection.open(base, encoder, calibration=SPEC, follow=False, threads=1) as things:
        things.index(source, ocr="never")
        things.add([document(number) for number in range(STORED)])
        things.log_queries()
        things.calibrate(SPEC, queries=["a red cat", ("a dog", "d2")])
        for text in ("the cat", "a tree", "red house"):
            things.search(text)
        things.delete(["d4", "d5"])  # since the index was built
        things.add([document(6, version=1)])
    write_source(source, 1)


def document(number: int, version: int = 0) -> Document:
    """Make the document of a number: text, image or both, sometimes of several passages."""
    rng = np.random.default_rng([number, version])
    text = words(rng, 30 if number % 5 == 0 else 5) if number % 3 != 1 else None
    image = pixels(1000 * version + number) if number % 3 else None
    return Document(f"d{number}", text, image, {"number": number, "version": version})


def write_source(folder: Path, version: int) -> None:
    """Write a folder of texts, pictures, tables and a PDF; version 1 has some changed, some gone, some new."""
    folder.mkdir(exist_ok=True)
    for number in range(version * 2, 6 + version * 3):
        (folder / f"note{number}.txt").write_text(words(np.random.default_rng(number), 5 + version * (number % 2)))
        Image.fromarray(pixels(200 + number + 100 * version * (number % 2))).save(folder / f"photo{number}.png")
    rows = [{"id": f"r{i}", "text": words(np.random.default_rng([i, version]), 4)} for i in range(version, 5 + version)]
    (folder / "table.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (folder / "page.pdf").write_bytes(pdf([f"a cat {version}", "the red sofa"]))
    (folder / "broken.png").write_bytes(b"not a picture")
    if version:
        for number in range(2):
            (folder / f"note{number}.txt").unlink()
            (folder / f"photo{number}.png").unlink()


def small_batches() -> None:
    """Commit a few documents at a time, and build the index again after a few changes."""
    writer.BATCH = BATCH
    vars(sync)["BATCH"] = BATCH
    type(kinds.get("image")).cost = 1  # so that a batch is so many documents, whatever they hold
    snapshot.PERSIST = (4, 0.0)


def content(things: Collection) -> Content:
    """Return what every document holds."""
    return {found.id: digest(found) for found in things}


def digest(found: Document) -> str:
    """Return what tells a document from another that has its id."""
    image = found.image if isinstance(found.image, bytes) else str(found.image).encode()
    vectors = {part: vector.tolist() for part, vector in found.vectors.items()}
    whole = json.dumps([found.id, found.text, dict(found.metadata), vectors], sort_keys=True).encode()
    return hashlib.sha256(whole + b"\0" + image).hexdigest()[:16]


def similarities(things: Collection, query: Query, **options: Any) -> dict[str, float]:
    """Return the raw cosine of every document, rounded to what single precision keeps."""
    hits = things.search(query, k=10_000, calibration="none", **options)
    return {hit.id: round(hit.similarity, 4) for hit in hits}


def litter(folder: Path) -> list[str]:
    """Return what an interrupted process left behind, and the next one should have removed."""
    found = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.suffix in (".tmp", ".part")]
    with sqlite3.connect(folder / FILE) as connection:
        manifest = dict(connection.execute("SELECT name, value FROM manifest WHERE name = 'calibration'"))
        version = int(manifest.get("calibration", 0))
        drafts = "SELECT version FROM calibrations WHERE version > ? OR extras = '{}'"
        found += [f"calibration {row[0]}, which was never served" for row in connection.execute(drafts, (version,))]
    connection.close()
    places = sorted(path.name for path in (folder / "index").glob("*")) if (folder / "index").is_dir() else []
    kept = [name for name in places if name.startswith(f"{version}-")]
    found += [f"index/{name}, which is not served" for name in places if name not in kept[-1:]]
    return found


def processors() -> int:
    """Return how many attacks run at the same time."""
    return max(2, min(4, os.cpu_count() or 2))
