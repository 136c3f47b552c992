"""Flickr8k's test split as a mixed corpus: 333 texts, 333 photos, 333 of both, searched with other captions.

    DIR/mix/flickr8k_mix.json      {"docs": [{"id", "text"?, "image"?}], "queries": [{"id", "text", "rel": [id]}]}
    DIR/flickr8k/                  as for ``flickr8k``

References are the dev split mixed 1:1:1 in the same way: first captions as texts, the other four as queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from isthmus.documents import Document, Query
from isthmus.errors import BadFile, BadInput
from isthmus.evaluate.benchmarks import flickr8k
from isthmus.evaluate.benchmarks.base import Benchmark, Question
from isthmus.evaluate.benchmarks.files import BenchmarkFolder, listed

NAME = "flickr8k-mix"
KINDS = 3  # a text, a photo, both, in turn


def load(data: Path, words: Sequence[str]) -> Benchmark:
    """Read the mixed corpus and the dev split."""
    if words:
        raise BadInput(f"{NAME} has no variants; none is called {words[0]!r}.")
    path = BenchmarkFolder(data, NAME, f"{flickr8k.HOME}, mixed 1:1:1").file("mix/flickr8k_mix.json")
    folder = BenchmarkFolder(data / "flickr8k", NAME, flickr8k.HOME)
    photos = folder.file("img224", *flickr8k.FOLDERS)
    try:
        documents = [
            Document(each["id"], each.get("text"), photos / each["image"] if "image" in each else None)
            for each in listed(path, "docs")
        ]
        asked = listed(path, "queries")
        questions = [Question(each["id"], Query(each["text"])) for each in asked]
        qrels = {each["id"]: dict.fromkeys(each["rel"], 1) for each in asked}
    except (KeyError, TypeError) as error:
        raise BadFile(f"{path} is not a mixed corpus: {error}.") from None
    dev = flickr8k.split(folder, "dev")
    seen = [
        Document(
            photo.id,
            photo.captions[0] if number % KINDS != 1 else None,
            photo.image if number % KINDS != 0 else None,
        )
        for number, photo in enumerate(dev)
    ]
    references = [(Query(caption), photo.id) for photo in dev for caption in photo.captions[1:]]
    return Benchmark(NAME, documents, questions, qrels, references, seen)
