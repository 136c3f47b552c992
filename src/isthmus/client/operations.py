"""What can be done with a collection on a server, as requests and what is made of their answers.

Each method returns an operation (see ``calls``), which a session runs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from isthmus.client.calls import LINES, Call, Operation, Pause, encoded
from isthmus.client.forms import (
    Fetch,
    Means,
    RemoteCalibration,
    RemotePart,
    document_form,
    means_form,
    part_form,
    read_added,
    read_calibration,
    read_document,
    read_hit,
    read_stats,
    read_values,
    reference_form,
    search_form,
)
from isthmus.documents import Document, Query
from isthmus.errors import BadInput, CannotFit, CannotReach
from isthmus.kinds import Part
from isthmus.search import Added, Hits, SearchRequest, Skipped, Stats, arguments
from isthmus.search.page_texts import NEVER, PageTexts
from isthmus.search.values import checked
from isthmus.search.writer import arrivals
from isthmus.storage.values import FieldValues

BATCH = 256  # documents or searches of one request
BYTES = 16 << 20  # of a request, about; a larger document is sent alone
DELETED = 10_000  # ids of one request
PAGE = 200  # documents of one page
FIRST_POLL, LONGEST_POLL = 0.05, 1.0  # seconds between two looks at a job
Progress = Callable[[int], None]
Steps = Callable[[int, int], None]
References = Sequence[tuple[Query, str | None]]


@dataclass(frozen=True, slots=True)
class Operations:
    """The operations on one collection; ``fetch`` gets the bytes of its pictures."""

    name: str
    fetch: Fetch

    def _path(self, rest: str = "") -> str:
        return f"/v1/collections/{quote(self.name, safe='')}{rest}"

    def _document(self, name: str) -> str:
        """Return the path of a document; dots are encoded, so that none means another place."""
        return self._path(f"/documents/{quote(name, safe='').replace('.', '%2E')}")

    def describe(self) -> Operation[dict[str, Any]]:
        """Return the collection in short."""
        reply = yield Call(method="GET", path=self._path())
        found: dict[str, Any] = reply.json()
        return found

    def get(self, name: str) -> Operation[Document]:
        """Return a document."""
        arguments.identifier(name)
        reply = yield Call(method="GET", path=self._document(name))
        return read_document(reply.json(), self.fetch)

    def get_several(self, names: Sequence[str]) -> Operation[list[Document]]:
        """Return those of these documents that exist."""
        reply = yield Call(method="POST", path=self._path("/documents/get"), body=encoded({"ids": list(names)}))
        return [read_document(one, self.fetch) for one in reply.json()["documents"]]

    def has(self, name: object) -> Operation[bool]:
        """Whether there is a document with this id."""
        if not isinstance(name, str) or not arguments.is_text(name):
            return False
        return bool((yield from self.get_several([name])))

    def page(self, after: int, where: Mapping[str, Any] | None = None) -> Operation[tuple[list[Document], int | None]]:
        """Return a page of documents, and where the next one begins."""
        params = {"limit": str(PAGE), "after": str(after)}
        if where is not None:
            params["where"] = encoded(where).decode()
        reply = yield Call(method="GET", path=self._path("/documents"), params=params)
        form = reply.json()
        return [read_document(one, self.fetch) for one in form["documents"]], form["next"]

    def ids(self, where: Mapping[str, Any] | None) -> Operation[list[str]]:
        """Return the ids of the documents that pass a filter."""
        found: list[str] = []
        after: int | None = -1
        while after is not None:
            documents, after = yield from self.page(after, where)
            found += [document.id for document in documents]
        return found

    def load(self, document: Document) -> Operation[Document]:
        """Return a document with the bytes of its parts."""
        parts: list[Part] = []
        for part in document.parts:
            if isinstance(part, RemotePart):
                reply = yield Call(method="GET", path=part.url)
                parts.append(Part.restored(part.kind, reply.body))
            else:
                parts.append(part)
        return Document.restored(document.id, parts, document.metadata, document.vectors)

    def add(self, documents: Iterable[Document], progress: Progress | None) -> Operation[Added]:
        """Add documents, read from the iterable as they are sent; each request is committed before the next."""
        given = arguments.documents(documents)
        arguments.callback("progress", progress)
        skipped: list[Skipped] = []
        done: list[Added] = []
        count = 0
        for batch in cut(_lines(given, skipped.append)):
            done.append((yield from self._add(batch)))
            count += len(done[-1]) + len(done[-1].unchanged)
            if progress is not None:
                progress(count)
        return Added.together([*done, Added(skipped=tuple(skipped))])

    def _add(self, batch: Sequence[bytes]) -> Operation[Added]:
        path, body = self._path("/documents"), b"\n".join(batch)
        try:
            reply = yield Call(method="POST", path=path, body=body, kind=LINES, params={"ids": "true"})
        except BadInput as error:
            if type(error) is BadInput and len(batch) == 1:  # as a document that is larger than the server takes
                return Added(skipped=(Skipped(json.loads(batch[0])["id"], str(error)),))
            raise
        return read_added(reply.json())

    def update(self, document: Document | str, metadata: Mapping[str, Any] | None) -> Operation[Added]:
        """Change a document."""
        arguments.change(document, metadata)
        if isinstance(document, str):
            name, form = document, {"metadata": dict(metadata or {})}
        else:
            name = document.id
            form = {"metadata": dict(document.metadata)}
            if document.parts:
                form["parts"] = [part_form(part) for part in document.parts]  # type: ignore[assignment]
            if document.vectors:
                form["vectors"] = {part: vector.tolist() for part, vector in document.vectors.items()}
        reply = yield Call(
            method="PATCH", path=self._document(name), body=encoded(form), params={"ids": "true"}, repeatable=False
        )
        return read_added(reply.json())

    def delete(self, ids: str | Iterable[str]) -> Operation[int]:
        """Delete documents."""
        names, deleted = arguments.identifiers(ids), 0
        for start in range(0, len(names), DELETED):
            body = encoded({"ids": names[start : start + DELETED]})
            path = self._path("/documents/delete")
            reply = yield Call(method="POST", path=path, body=body, repeatable=False)
            deleted += int(reply.json()["deleted"])
        return deleted

    def search(self, requests: Sequence[SearchRequest]) -> Operation[list[Hits]]:
        """Search for several requests, many in one call."""
        path = self._path("/search")
        if len(requests) == 1:
            reply = yield Call(method="POST", path=path, body=encoded(search_form(requests[0])))
            return [self._hits(requests[0], reply.json())]
        found: list[dict[str, Any]] = []
        for batch in cut(encoded(search_form(one)) for one in requests):
            reply = yield Call(method="POST", path=path, body=b'{"searches":[' + b",".join(batch) + b"]}")
            found += reply.json()["results"]
        return [self._hits(request, form) for request, form in zip(requests, found, strict=True)]

    def _hits(self, request: SearchRequest, form: Mapping[str, Any]) -> Hits:
        return Hits((read_hit(one, request.asked, self.fetch) for one in form["hits"]), form.get("missing", ()))

    def stats(self) -> Operation[Stats]:
        """Return the statistics."""
        reply = yield Call(method="GET", path=self._path("/stats"))
        return read_stats(reply.json())

    def fields(self) -> Operation[list[str]]:
        """Return the names that filters may use."""
        reply = yield Call(method="GET", path=self._path("/stats"))
        return list(reply.json()["fields"])

    def values(self, name: str, count: int) -> Operation[FieldValues]:
        """Return the values of a field."""
        params = {"field": name, "count": str(checked(name, count))}
        reply = yield Call(method="GET", path=self._path("/values"), params=params)
        return read_values(reply.json()["fields"][0])

    def calibrations(self) -> Operation[dict[str, Any]]:
        """Return what the server says of the calibrations."""
        reply = yield Call(method="GET", path=self._path("/calibration"))
        found: dict[str, Any] = reply.json()
        return found

    def use_calibration(self, version: int) -> Operation[RemoteCalibration]:
        """Serve an earlier calibration again."""
        body = encoded({"version": version})
        reply = yield Call(method="PUT", path=self._path("/calibration"), body=body, repeatable=False)
        found = served(reply.json())
        if found is None:
            raise CannotReach("The server serves no calibration after the switch. Ask for .calibrations().")
        return found

    def calibrate(
        self, spec: str, queries: References | None, means: Means | None, tell: Steps | None
    ) -> Operation[RemoteCalibration]:
        """Fit a calibration: submit the job, and look at it until it has ended."""
        form: dict[str, Any] = {"spec": spec}
        if queries is not None:
            form["queries"] = [reference_form(query, answer) for query, answer in queries]
        if means is not None:
            form["means"] = means_form(means)
        reply = yield Call(method="POST", path=self._path("/calibration"), body=encoded(form), repeatable=False)
        job, wait, done = reply.json(), FIRST_POLL, 0
        while job["state"] in ("queued", "running"):
            yield Pause(wait)
            wait = min(2 * wait, LONGEST_POLL)
            job = (yield Call(method="GET", path=self._path(f"/jobs/{job['id']}"))).json()
            if tell is not None and job["done"] > done:
                done = job["done"]
                tell(done, job["total"] or done)
        if job["state"] != "done":
            raise CannotFit(job["error"] or f"The calibration was {job['state']}.")
        return read_calibration(job["result"])


def served(form: Mapping[str, Any]) -> RemoteCalibration | None:
    """Return the calibration that is served."""
    return next((read_calibration(one) for one in form["versions"] if one["served"]), None)


def _lines(documents: Iterable[Document], skip: Callable[[Skipped], None]) -> Iterator[bytes]:
    """Yield documents as lines of JSON; those that cannot be sent go to ``skip``."""
    for arrival in arrivals(documents, PageTexts(NEVER, None), skip):
        try:
            yield encoded(document_form(arrival.one.document))
        except BadInput as problem:
            skip(Skipped(arrival.id, str(problem)))


def cut(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Cut lines into batches that fit into one request.

    >>> [len(batch) for batch in cut([b"{}"] * 600)]
    [256, 256, 88]
    """
    batch: list[bytes] = []
    size = 0
    for line in lines:
        if batch and (len(batch) >= BATCH or size + len(line) > BYTES):
            yield batch
            batch, size = [], 0
        batch.append(line)
        size += len(line)
    if batch:
        yield batch
