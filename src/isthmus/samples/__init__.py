"""A small folder to try things on: texts, photos, photos with captions, drawings, and queries whose answers are known.

    isthmus index $(python -c "from isthmus import samples; print(samples.folder())") --into samples.isthmus

The folder looks like somebody's own: ``notes/``, ``photos/`` with a sidecar beside some of them, ``drawings/``, a web
page and a table. The texts and drawings are ours (CC0); LICENSES.md beside this file says whose each photo is.

>>> sorted(path.name for path in folder().iterdir())
['books.jsonl', 'drawings', 'museum.html', 'notes', 'photos']
>>> queries()[0]
SampleQuery(query='face of a tabby cat with green eyes', right=('photos/tabby.jpg',), kind='image')
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

__all__ = ["SampleQuery", "folder", "queries"]


@dataclass(frozen=True, slots=True)
class SampleQuery:
    """A query in words, the ids of the documents that answer it, and the modality of the first of them.

    An id is what the reader of the folder gives: a path inside it, or ``books.jsonl#bread`` for a row.
    """

    query: str
    right: tuple[str, ...]
    kind: str


def folder() -> Path:
    """Return where the sample documents are. Nothing but documents is in there."""
    return Path(str(files(__name__).joinpath("folder")))


def queries() -> list[SampleQuery]:
    """Return the queries with their right answers, judged by hand: every right answer is listed, the best first."""
    lines = files(__name__).joinpath("queries.jsonl").read_text(encoding="utf-8").splitlines()
    asked = [json.loads(line) for line in lines]
    return [SampleQuery(one["query"], tuple(one["right"]), one["kind"]) for one in asked]
