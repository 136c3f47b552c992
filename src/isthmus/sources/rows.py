"""From a row of a table to a document, for every kind of table.

id, _id                              the document's id
text, else caption, content, body    its text; a title is put before it
image, audio, video                  a path, a data: URI, or bytes if the format allows
parts                                [{"kind": "text", "content": "…"}, {"kind": "image", "path": "a.jpg"}, …] in place
                                     of the fields above; content that is not text is a data: URI
vectors                              {"text": [0.1, …], "image": […]}
text_vector, image_vector, audio_vector, video_vector, vector
                                     the same as columns; a plain vector is for all parts of the row
metadata                             an object
every other field                    metadata, if it is a string, a number, a boolean or a list of them
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

from isthmus import kinds
from isthmus.budget import METADATA_VALUES, too_long, too_much_metadata
from isthmus.documents import Document, FileLike, Part
from isthmus.errors import BadInput
from isthmus.sources.base import Found, SkippedInput
from isthmus.sources.files import File
from isthmus.urls import url_of, without_password

IDS = ("id", "_id")
TEXTS = ("text", "caption", "content", "body")
FILES = ("image", "audio", "video")
VECTORS = {f"{kind}_vector": kind for kind in ("text", *FILES)}
FIELDS = (*TEXTS, "title", *FILES, "parts", "vectors", *VECTORS, "vector")  # a row without any of them is skipped
NO_TEXT = re.compile("[\0\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Table:
    """A file of rows; ``counts`` is the word for its rows in messages: line or row."""

    file: File
    counts: str
    facts: Mapping[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "facts", {} if self.file.alone else self.file.facts)

    def found(self, row: object, number: int) -> Found:
        """Make a document from a row, or return why not."""
        if not isinstance(row, Mapping):
            return self.skipped(number, f"is a {type(row).__name__}, not an object with fields")
        try:
            return self.document(row, number)
        except (ValueError, RecursionError) as error:
            return self.skipped(number, str(error))

    def skipped(self, number: int, why: str) -> SkippedInput:
        """Skip one row."""
        return SkippedInput(f"{self.file.name}, {self.counts} {number}", why)

    def document(self, row: Mapping[str, Any], number: int) -> Document:
        """Make a document from a row, or raise an error."""
        left = {name: value for name, value in row.items() if value is not None}
        blank = [name for name in FIELDS if name in row]
        if blank and not left.keys() & set(FIELDS):
            raise BadInput(
                f"its {' and '.join(blank)} {'is' if len(blank) == 1 else 'are'} blank: nothing could be found"
            )
        if not left.keys() & set(FIELDS):
            raise BadInput(f"has no {', '.join(FIELDS[:-1])} or {FIELDS[-1]}. Rename the field that holds the text")
        name = self._id(left, number)
        folder = Path(self.file.path).parent
        if is_parts(left.get("parts")):
            parts = [_part(one, folder) for one in left.pop("parts")]
            vectors = _vectors(left, [])
            return Document(name, metadata={**self.facts, **_metadata(left)}, vectors=vectors, parts=parts)
        text = _text(left)
        files = {kind: _file(kind, left.pop(kind, None), folder) for kind in FILES}
        parts = [*([kinds.Text(text)] if text else [])]
        parts += [Part(kind, content) for kind, content in files.items() if content is not None]
        vectors = _vectors(left, [part.kind for part in parts])
        metadata = {**self.facts, **_metadata(left)}
        return Document(name, metadata=metadata, vectors=vectors, parts=parts)

    def _id(self, left: dict[str, Any], number: int) -> str:
        given = next((value for value in (left.pop(name, "") for name in IDS) if value != ""), None)
        if given is None:
            return f"{self.file.name}#row={number}"
        if isinstance(given, bool) or not isinstance(given, str | int):
            raise BadInput(f"has an id that is a {type(given).__name__}. Make it a string or a whole number")
        name = storable(str(given), "id")
        return name if self.file.alone else f"{self.file.name}#{name}"


def storable(text: str, field_name: str) -> str:
    """Return a string without lone surrogates and NUL, or raise an error."""
    if NO_TEXT.search(text):
        raise BadInput(f"has a {field_name} with NUL or half a surrogate pair: it is not text")
    return text


def plain(value: Any, *, nested: bool = False) -> Any:
    """Return a JSON value; None for other types, and for objects unless ``nested``.

    >>> plain(3), plain(float("nan")), plain(["a", 1]), plain({"a": 1}), plain(b"raw")
    (3, None, ['a', 1], None, None)
    """
    if isinstance(value, str):
        return storable(value, "field")
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, bool | int):
        return value
    if isinstance(value, list):
        if len(value) > METADATA_VALUES:
            raise BadInput(too_much_metadata())
        if nested or all(isinstance(item, str | float | bool | int) for item in value):
            return [plain(item, nested=nested) for item in value]
    elif nested and isinstance(value, Mapping):
        return {storable(str(name), "field"): plain(item, nested=True) for name, item in value.items()}
    return None


def fields(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that can be metadata.

    >>> fields({"year": 2020, "tags": ["a", "b"], "none": None, "empty": "", "deep": {"a": 1}})
    {'year': 2020, 'tags': ['a', 'b']}
    """
    kept = {storable(str(name), "field's name"): plain(value) for name, value in row.items()}
    return {name: value for name, value in kept.items() if value is not None and value not in ("", [])}


def _metadata(left: dict[str, Any]) -> dict[str, Any]:
    own = left.pop("metadata", {})
    if not isinstance(own, Mapping):
        return fields({"metadata": own, **left})
    return {**fields(left), **plain(own, nested=True)}


def _text(left: dict[str, Any]) -> str | None:
    name = next((name for name in TEXTS if left.get(name) and not str(left[name]).isspace()), None)
    text = left.pop(name) if name else None
    if text is not None and not isinstance(text, str):
        raise BadInput(f"has a {name} that is a {type(text).__name__}, not a string")
    title = left.get("title")
    said = [piece for piece in (title, text) if isinstance(piece, str) and piece.strip()]
    whole = storable("\n".join(said), "text") if said else None
    problem = too_long(whole)
    if problem is not None:
        raise BadInput(problem)
    return whole


def _file(kind: str, given: object, folder: Path) -> FileLike | None:
    if isinstance(given, Mapping):  # the format of Hugging Face
        given = given.get("bytes") or given.get("path")
    if given is None or given == "":
        return None
    if isinstance(given, bytes):
        return given
    if not isinstance(given, str):
        raise BadInput(f"has {kinds.with_article(kind)} that is a {type(given).__name__}. Give a path or a data: URI")
    if given.startswith("data:"):
        return kinds.from_uri(given)
    if url_of(given) is not None:
        raise BadInput(
            f"has {kinds.with_article(kind)} at {without_password(given)[:80]}: isthmus does not download files. "
            "Download it and give its path"
        )
    return str(folder / given)


def is_parts(given: object) -> bool:
    """Whether a field is a list of parts; a field of that name may also be metadata."""
    return bool(given) and isinstance(given, list) and all(isinstance(one, Mapping) and "kind" in one for one in given)


def _part(form: Mapping[str, Any], folder: Path) -> Part:
    part = Part.from_json(form, folder)
    if part.kind == kinds.TEXT:
        problem = too_long(storable(part.content, "text"))
        if problem is not None:
            raise BadInput(problem)
    return part


def _vectors(left: dict[str, Any], parts: Sequence[str]) -> dict[str, Any]:
    given = left.pop("vectors", {})
    if not isinstance(given, Mapping):
        raise BadInput(f"has vectors that are a {type(given).__name__}, not an object of parts and numbers")
    vectors = dict(given)
    vectors |= {part: left.pop(name) for name, part in VECTORS.items() if name in left}
    if "vector" in left:
        if not parts:
            raise BadInput("has a vector of no part: name it text_vector or image_vector, or add the text or image")
        vectors["+".join(sorted(parts))] = left.pop("vector")
    return vectors
