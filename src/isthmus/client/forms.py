"""Documents, queries, hits and reports to and from the JSON of a server.

A picture travels as the bytes of its file: the server reads no paths. What comes back names it by a URL, and its bytes
are fetched when they are first needed.
"""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from isthmus import kinds
from isthmus.budget import PICTURE_BYTES
from isthmus.calibration import Fitted
from isthmus.documents import Document, Query
from isthmus.errors import BadInput, CannotReach, CannotRead
from isthmus.files import read_regular
from isthmus.kinds import Part
from isthmus.search import Added, SearchRequest, Skipped, arguments
from isthmus.search.hits import Explanation, Hit, MatchedSegment, Passage
from isthmus.search.request import query_json
from isthmus.search.stats import Stats
from isthmus.storage.base import UnfinishedReencode
from isthmus.storage.values import FieldValues, ValueCount
from isthmus.types import Vectors

Means: TypeAlias = Vectors | Fitted | Iterable[Document]
Fetch = Callable[[str], bytes]  # the bytes at a URL of the server
_set = object.__setattr__  # of parts, which never change otherwise


class RemotePart(Part):
    """A part whose bytes are on the server. They are fetched when ``content`` is first read, and kept."""

    __slots__ = ("_fetch", "_held", "url")

    url: str
    _fetch: Fetch
    _held: bytes | None

    def __init__(self, kind: str, url: str, fetch: Fetch) -> None:
        _set(self, "kind", kind)
        _set(self, "url", url)
        _set(self, "_fetch", fetch)
        _set(self, "_held", None)

    @property
    def content(self) -> bytes:
        """The bytes."""
        if self._held is None:
            _set(self, "_held", self._fetch(self.url))
        return self._held or b""

    @property
    def shown(self) -> str:
        """Its address, or how many bytes there are."""
        return f"<at {self.url}>" if self._held is None else super().shown

    @property
    def is_empty(self) -> bool:
        """Return False: the server keeps no empty parts."""
        return False

    @property
    def path(self) -> None:
        """Return None: it is no file of this machine."""
        return


@dataclass(frozen=True, slots=True)
class RemoteCalibration:
    """A calibration of a collection on a server: its number, its spec, and when it was made."""

    version: int
    spec: str
    made: str


def inline(part: Part) -> Part:
    """Return a part with the bytes of its file in place of a path, an array or a Pillow image."""
    kept = kinds.stored(part.kind).keep(part.content)
    kept_part = Part.restored(part.kind, kept)
    path = kept_part.path
    if path is None:
        return kept_part
    try:
        return Part.restored(part.kind, read_regular(path, PICTURE_BYTES))
    except OSError as error:
        raise CannotRead(f"{path} cannot be read: {error.strerror or error}.") from None


def part_form(part: Part) -> dict[str, str]:
    """Return the JSON form of a part to send."""
    content = inline(part).content
    if isinstance(content, bytes):
        content = b64encode(content).decode()
    return {"kind": part.kind, "content": content}


def document_form(document: Document) -> dict[str, Any]:
    """Return the JSON form of a document to add."""
    form: dict[str, Any] = {"id": document.id, "parts": [part_form(part) for part in document.parts]}
    if document.metadata:
        form["metadata"] = dict(document.metadata)
    if document.vectors:
        form["vectors"] = {name: vector.tolist() for name, vector in document.vectors.items()}
    return form


def query_form(query: Query) -> str | dict[str, Any]:
    """Return the JSON form of a query to send."""
    return query_json(_inlined(query))


def search_form(request: SearchRequest) -> dict[str, Any]:
    """Return the JSON form of a search to send."""
    return replace(request, query=_inlined(request.asked)).to_json()


def _inlined(query: Query) -> Query:
    parts = [inline(part) for part in query.parts]
    return Query(weights=query.weights, vectors=query.vectors, parts=parts)


def reference_form(query: Query, answer: str | None) -> str | dict[str, Any]:
    """Return the JSON form of a reference query, with the id of its right document if that is known."""
    form = query_form(query)
    return {"query": form, "id": answer} if answer is not None else form if isinstance(form, str) else {"query": form}


def means_form(means: Means) -> list[dict[str, Any]] | dict[str, Any]:
    """Return the JSON form of documents, or of their vectors, whose means are taken."""
    if isinstance(means, Fitted):
        raise BadInput("A fitted calibration is not sent to a server. Pass the documents of means=, or their vectors.")
    if isinstance(means, Vectors):
        return {part: rows[means.present[part]].tolist() for part, rows in means.parts.items()}
    return [document_form(document) for document in arguments.documents(means)]


def read_document(form: Mapping[str, Any], fetch: Fetch) -> Document:
    """Read a document of a server."""
    parts = [_part(one, fetch) for one in form["parts"]]
    return Document.restored(form["id"], parts, form["metadata"], {})


def _part(form: Mapping[str, Any], fetch: Fetch) -> Part:
    url = form.get("url")
    if url is None:
        return Part.restored(form["kind"], form["content"])
    if not str(url).startswith("/v1/"):
        raise CannotReach(f"The server says that bytes are at {url}, on another host. Nothing is fetched from there.")
    return RemotePart(form["kind"], url, fetch)


def read_hit(form: Mapping[str, Any], asked: Query, fetch: Fetch) -> Hit:
    """Read a hit of a server."""
    passage, explanation = form["passage"], form.get("explanation")
    return Hit(
        id=form["id"],
        score=form["score"],
        similarity=form["similarity"],
        probability=form["probability"],
        modality=form["modality"],
        document=read_document(form, fetch),
        rank=form["rank"],
        passage=None if passage is None else Passage(**passage),
        explanation=None if explanation is None else _explanation(explanation, asked),
        duplicates=tuple(form["duplicates"]),
        matched=form.get("matched"),
        segments=tuple(MatchedSegment(**{**one, "parts": tuple(one["parts"])}) for one in form["segments"]),
        page=form.get("page"),
    )


def _explanation(form: Mapping[str, Any], asked: Query) -> Explanation:
    aligned = form.get("aligned")
    return Explanation(**{**form, "aligned": None if aligned is None else _aligned(aligned, asked)})


def _aligned(form: Mapping[str, Any], asked: Query) -> Any:
    from isthmus.align.base import Aligned, Counts  # late: few searches align

    words, counts = form["query"], form["counts"]
    query = asked if words is None else Query(words)
    return Aligned(**{**form, "query": query, "counts": None if counts is None else Counts(**counts)})


def read_added(form: Mapping[str, Any]) -> Added:
    """Read what became of documents."""
    try:
        ids = form["ids"]
        skipped = tuple(Skipped(one["id"], one["why"]) for one in form["skipped"])
        return Added(tuple(ids["added"]), tuple(ids["updated"]), tuple(ids["unchanged"]), skipped)
    except (LookupError, TypeError):
        raise CannotReach("The answer has no ids. The server is older than this client: upgrade it.") from None


def read_stats(form: Mapping[str, Any]) -> Stats:
    """Read the statistics of a collection; ``path`` is the name of the collection."""
    facts = {name: value for name, value in form.items() if name in Stats.__dataclass_fields__}
    reencoding = facts["reencoding"]
    facts["skipped"] = tuple((one["id"], one["why"]) for one in facts["skipped"])
    facts["drift"] = {name: math.inf if far is None else far for name, far in facts["drift"].items()}
    facts["reencoding"] = None if reencoding is None else UnfinishedReencode(**reencoding)
    return Stats(**facts)


def read_values(form: Mapping[str, Any]) -> FieldValues:
    """Read the values of a field."""
    top = tuple(ValueCount(one["value"], one["documents"]) for one in form["values"])
    numbers, dates = (None if form[name] is None else (form[name][0], form[name][1]) for name in ("numbers", "dates"))
    return FieldValues(form["name"], top, form["more"], numbers, dates)


def read_calibration(form: Mapping[str, Any]) -> RemoteCalibration:
    """Read a calibration that is kept."""
    return RemoteCalibration(form["version"], form["spec"], form["made"])


def not_loaded(url: str) -> bytes:
    """Refuse to fetch bytes where that would block an event loop."""
    raise BadInput(f"The bytes at {url} are not here yet. Fetch them: document = await things.load(document).")
