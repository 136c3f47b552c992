"""``/v1/collections/{name}/jobs``: list, poll, cancel."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from isthmus.serve.answers import answer
from isthmus.serve.errors import Refused
from isthmus.serve.forms import JobJson, JobsJson
from isthmus.serve.jobs import Job
from isthmus.serve.schemas import described
from isthmus.serve.server import Name, Server, Shared, allow

router = APIRouter(prefix="/v1/collections/{name}/jobs")


@router.get("", dependencies=[allow("read")], **described(JobsJson))
async def list_jobs(name: Name, server: Shared) -> Response:
    """List the jobs of a collection, oldest first, without their results."""
    found = [job.to_json() | {"result": None} for job in server.jobs.all() if job.collection == name]
    return answer({"jobs": found})


@router.get("/{job}", dependencies=[allow("read")], **described(JobJson))
async def get_job(name: Name, job: str, server: Shared) -> Response:
    """Return a job: its state, its progress and its result."""
    return answer(_of(server, name, job).to_json())


@router.delete("/{job}", dependencies=[allow("write")], **described(JobJson))
async def cancel_job(name: Name, job: str, server: Shared) -> Response:
    """Cancel a job; what it has done stays."""
    _of(server, name, job)
    return answer((await server.pool.run(lambda: server.jobs.cancel(job))).to_json())


def _of(server: Server, name: str, number: str) -> Job:
    job = server.jobs.get(number)
    if job.collection != name:
        raise Refused(404, "There is no such job in this collection.")
    return job
