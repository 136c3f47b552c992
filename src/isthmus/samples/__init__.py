"""A sample folder: texts, photos, photos with captions, drawings, and queries with known answers.

    isthmus index $(python -c "from isthmus import samples; print(samples.folder())") --into samples.isthmus

The folder resembles a user's own: ``notes/``, ``photos/`` with sidecars for some of them, ``drawings/``, a web page and
a table. The texts and drawings are ours (CC0); LICENSES.md in this package names the author of each photo.

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
    """A query, the ids of its right documents, and the modality of the first of them.

    An id is a path inside the folder, or ``books.jsonl#bread`` for a row.
    """

    query: str
    right: tuple[str, ...]
    kind: str


def folder() -> Path:
    """Return the folder of sample documents."""
    return Path(str(files(__name__).joinpath("folder")))


def queries() -> list[SampleQuery]:
    """Return the queries with their right answers, judged by hand: every right answer is listed, the best first."""
    lines = files(__name__).joinpath("queries.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return [SampleQuery(one["query"], tuple(one["right"]), one["kind"]) for one in rows]
