"""JSON responses: the forms of ``isthmus.search.json_forms``, without paths of this machine.

A part that is a file, or kept by the collection, has a ``url`` at which this server sends it. ``image`` is the URL of
the first picture; ``path`` is always null.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NotRequired, cast
from urllib.parse import quote

import numpy as np
from starlette.responses import Response

from isthmus.documents import Document
from isthmus.kinds import IMAGE, TEXT
from isthmus.search import Hit
from isthmus.search.json_forms import DocumentJson, HitJson, PartJson, document_json, hit_json

NAME = r"[^\s/'\"`,;:()<>]+"
SPACED = rf"{NAME}(?:(?<![.!?]) {NAME})*"  # the name of a folder: it may have spaces, but no end of a sentence
PATH = re.compile(rf"(?<![\w/.~])(?:file://)?(?:[A-Za-z]:(?=/))?(?:/{SPACED})+/({NAME})?")  # absolute; its last name
DRIVE = re.compile(r"\b[A-Za-z]:\\[^'\"`,;()<>\n]*")  # a path of Windows
HOLDER = re.compile(r"process \d+ on \S+, since \S*\d")  # who holds the lock of a collection


class ServedPartJson(PartJson):
    """A part of a document; ``url`` is where its bytes are, null for a text."""

    url: NotRequired[str | None]


def encoded(value: Any) -> bytes:
    """Write JSON; non-finite numbers become null.

    >>> encoded({"drift": float("inf"), "é": "猫"}).decode()
    '{"drift":null,"é":"猫"}'
    """
    try:
        text = json.dumps(value, ensure_ascii=False, default=_plain, allow_nan=False, separators=(",", ":"))
    except ValueError:
        finite = json.loads(json.dumps(value, default=_plain), parse_constant=lambda _: None)
        text = json.dumps(finite, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which UTF-8 cannot write
        return json.dumps(json.loads(text)).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, np.floating | np.integer):
        return value.item()
    return value.tolist() if isinstance(value, np.ndarray) else str(value)


def answer(value: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a JSON response; bytes are JSON already."""
    body = value if isinstance(value, bytes) else encoded(value)
    return Response(body, status, dict(headers or {}), media_type="application/json")


def public_text(message: str) -> str:
    r"""Leave only the last name of every absolute path, and do not say which process of which machine writes.

    >>> public_text("No document is called 'b' in /srv/data/things.isthmus. Known: a.")
    "No document is called 'b' in things.isthmus. Known: a."
    >>> public_text("things is being written by process 7 on alpha.local, since 2026-01-02T03:04:05+00:00. Try again.")
    'things is being written by another process. Try again.'
    >>> public_text("the encoder onnx:/srv/models/tiny")
    'the encoder onnx:tiny'
    >>> public_text(r"/srv/my photos/a.png and C:\Users\me\b.png are not pictures, nor is file:///srv/c.png")
    'a.png and b.png are not pictures, nor is c.png'
    >>> public_text("Write a/b, or https://example.org/a/b")
    'Write a/b, or https://example.org/a/b'
    """
    slashes = DRIVE.sub(lambda found: re.sub(r"\\+", "/", found[0]), message)
    return HOLDER.sub("another process", PATH.sub(lambda found: found[1] or "", slashes))


def last_name(path: str) -> str:
    """Return the last name of a path of this machine.

    >>> last_name("/srv/my photos/cat (1).jpg"), last_name("cat.jpg")
    ('cat (1).jpg', 'cat.jpg')
    """
    return re.split(r"[\\/]", path)[-1]


def part_url(collection: str, document: str, number: int) -> str:
    """Return where a part is served; slashes in the id are encoded.

    >>> part_url("things", "photos/cat.jpg", 0)
    '/v1/collections/things/documents/photos%2Fcat.jpg/parts/0'
    """
    return f"/v1/collections/{collection}/documents/{quote(document, safe='')}/parts/{number}"


def served_document(collection: str, document: Document) -> DocumentJson:
    """Return the JSON form of a document of a collection."""
    return _with_urls(collection, document_json(document))


def served_hit(collection: str, hit: Hit) -> HitJson:
    """Return the JSON form of a hit in a collection."""
    return cast("HitJson", _with_urls(collection, hit_json(hit)))


def _with_urls(collection: str, form: DocumentJson) -> DocumentJson:
    for number, part in enumerate(form["parts"]):
        served = cast("ServedPartJson", part)
        served["path"] = None
        served["url"] = None if part["kind"] == TEXT else part_url(collection, form["id"], number)
    pictures = (cast("ServedPartJson", part)["url"] for part in form["parts"] if part["kind"] == IMAGE)
    form["image"] = next(pictures, None)
    if isinstance(path := form["metadata"].get("path"), str):  # of a file that was indexed
        form["metadata"]["path"] = last_name(path)
    return form
