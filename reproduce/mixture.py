"""The mixed corpus of Flickr8k as a collection: documents, questions and their right answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from isthmus import Collection, Document


@dataclass(frozen=True)
class Question:
    """A caption by another annotator, and the document it is about."""

    text: str
    right: str
    modality: str


def questions(data: Path) -> list[Question]:
    """Return the 1,998 questions of the mixed corpus."""
    read = json.loads((data / "mix/flickr8k_mix.json").read_text())
    modality = {document["id"]: document["modality"] for document in read["docs"]}
    return [Question(query["text"], query["rel"][0], modality[query["rel"][0]]) for query in read["queries"]]


def documents(data: Path) -> Iterator[Document]:
    """Yield its 999 documents."""
    photos = data / "flickr8k/img224"
    for each in json.loads((data / "mix/flickr8k_mix.json").read_text())["docs"]:
        yield Document(each["id"], each.get("text"), photos / each["image"] if "image" in each else None)


def collection(data: Path, folder: Path) -> Collection:
    """Make the collection."""
    made = Collection.open(folder / "mix.isthmus", follow=False)
    made.add(documents(data))
    return made
