"""The work of jobs: calibrate, diagnose, add a large stream of documents. It gives way to searches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from isthmus.documents import Document, Query
from isthmus.errors import BadInput, IsthmusError, shown
from isthmus.search import Added
from isthmus.search.maintenance import giving_way
from isthmus.serve.adding import BATCH, add_some, added_json
from isthmus.serve.answers import public_text
from isthmus.serve.content import ContentReader
from isthmus.serve.jobs import Job, Progress, Work
from isthmus.types import Matrix, Vectors

if TYPE_CHECKING:
    from isthmus.serve.server import Server

LISTED = 1000  # skipped documents that a job lists


def kinds(server: Server) -> Mapping[str, Work]:
    """Return the work of each kind of job."""

    def gives_way(work: Callable[[Server, Job, Progress], Any]) -> Work:
        def run(job: Job, progress: Progress) -> Any:
            with suppress(IsthmusError):  # loaded first: its threads, which searches use, keep their priority
                _ = server.catalog.get(job.collection).encoder
            with giving_way():
                return work(server, job, progress)

        return run

    return MappingProxyType({work.__name__: gives_way(work) for work in (calibrate, diagnose, add)})


def calibrate(server: Server, job: Job, progress: Progress) -> Any:
    """Fit a calibration and serve it."""
    things = server.catalog.get(job.collection)
    given = job.settings.get("queries")
    queries = None if given is None else references(server, given)
    origin = job.settings.get("means")
    means = None if origin is None else means_of(server, origin)
    things.calibrate(job.settings.get("spec", "auto"), queries, means=means, progress=progress)
    return things.stats().calibration


def diagnose(server: Server, job: Job, progress: Progress) -> Any:
    """Diagnose a collection."""
    from isthmus.diagnose import examine, summary

    things = server.catalog.get(job.collection)
    given = job.settings.get("queries")
    found = examine(things, None if given is None else references(server, given), progress=progress)
    return _plain({**summary(found), "collection": job.collection})


def _plain(value: Any) -> Any:
    """Leave paths of this machine out of a diagnosis."""
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return public_text(value) if isinstance(value, str) else value


def add(server: Server, job: Job, progress: Progress) -> Any:
    """Add documents, one per line of the job's file."""
    things = server.catalog.get(job.collection)
    path = server.jobs.data_of(job)
    total, done, reports = path.stat().st_size, 0, list[Added]()
    with path.open("rb") as file:
        number = 0
        lines: Iterator[bytes] = iter(file)
        while batch := list(islice(lines, BATCH)):
            some = [line for line in batch if line.strip()]
            reports.append(add_some(things, some, number, server.reader()))
            number, done = number + len(batch), done + sum(map(len, batch))
            progress(done, total)
    report = added_json(Added.together(reports), things)
    report["skipped"] = report["skipped"][:LISTED]
    return report


def references(server: Server, form: object) -> list[Query | tuple[Query, str]]:
    """Read reference queries: words, or objects with ``query`` and, if it is known, ``id``."""
    if not isinstance(form, list):
        raise BadInput(f"queries is a list, not {shown(form)}.")
    reader = server.reader()
    return [_reference(reader, one) for one in form]


def means_of(server: Server, form: object) -> list[Document] | Vectors:
    """Read what means are taken from: documents, or vectors by part."""
    if isinstance(form, list):
        reader = server.reader()
        return [reader.document(one) for one in form]
    if not isinstance(form, Mapping) or not form:
        raise BadInput(f"means is a list of documents, or an object with the vectors of each part, not {shown(form)}.")
    parts = {part: _numbers(part, rows) for part, rows in form.items()}
    if len({rows.shape[1] for rows in parts.values()}) > 1:
        raise BadInput("The vectors of the parts in means have different dimensions. Give those of one encoder.")
    return Vectors.concat([Vectors.of(rows, part) for part, rows in parts.items()])


def _numbers(part: str, rows: object) -> Matrix:
    """Read rows of finite numbers, all of one length, (n, d)."""
    try:
        read = np.array(rows)
    except ValueError:  # rows of different lengths
        read = np.zeros(0)
    numbers = read.ndim == 2 and read.size > 0 and read.dtype.kind in "iuf"
    if not numbers or not (np.abs(read) <= np.finfo(np.float32).max).all():
        raise BadInput(f"The vectors of {shown(part)} in means are no rows of finite numbers: {shown(rows)}.")
    return read.astype(np.float32)


def _reference(reader: ContentReader, form: object) -> Query | tuple[Query, str]:
    if not isinstance(form, Mapping) or "query" not in form:
        return reader.query(form)
    if not set(form) <= {"query", "id"}:
        raise BadInput(f"A reference query has a query and an id, not {shown(form)}.")
    query = reader.query(form["query"])
    return query if form.get("id") is None else (query, form["id"])
