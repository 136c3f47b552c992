"""``/v1/collections/{name}/calibration``: fit, list, switch back; and ``/diagnose``."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from isthmus.errors import BadInput, shown
from isthmus.search import Collection
from isthmus.search.calibrate import checked
from isthmus.serve.answers import answer
from isthmus.serve.bodies import json_body, parsed_object
from isthmus.serve.errors import Refused
from isthmus.serve.forms import CalibrateJson, CalibrationJson, DiagnoseJson, DiagnosisJson, JobJson, VersionJson
from isthmus.serve.long_work import means_of, references
from isthmus.serve.schemas import described
from isthmus.serve.server import Name, Server, Shared, allow

router = APIRouter(prefix="/v1/collections/{name}")


@router.get("/calibration", dependencies=[allow("read")], **described(CalibrationJson))
async def get_calibration(name: Name, server: Shared) -> Response:
    """Return the served calibration, those before it that can be used again, and whether documents have drifted."""
    things = await server.collection(name)
    return answer(await server.pool.run(lambda: calibration_json(things)))


@router.post("/calibration", dependencies=[allow("admin")], **described(JobJson, CalibrateJson, status=202))
async def calibrate(name: Name, server: Shared, request: Request) -> Response:
    """Fit a calibration, as a job; it is served when it is complete."""
    return await _job(server, name, request, "calibrate", ("spec", "queries", "means"))


@router.put("/calibration", dependencies=[allow("admin")], **described(CalibrationJson, VersionJson))
async def use_calibration(name: Name, server: Shared, request: Request) -> Response:
    """Serve an earlier calibration again."""
    body = await json_body(request)
    things = await server.collection(name)

    def used() -> Any:
        form = parsed_object(body)
        version = form.get("version")
        if set(form) != {"version"} or not isinstance(version, int) or isinstance(version, bool):
            raise BadInput(f"Give a version, a number of GET /calibration, not {shown(form)}.")
        things.use_calibration(version)
        return calibration_json(things)

    return answer(await server.pool.run(used))


@router.post("/diagnose", dependencies=[allow("write")], **described(JobJson, DiagnoseJson, status=202))
async def diagnose(name: Name, server: Shared, request: Request) -> Response:
    """Diagnose bias, as a job: gap, shares of the top 10, hubs, what calibration changes."""
    return await _job(server, name, request, "diagnose", ("queries",))


@router.get("/diagnose", dependencies=[allow("read")], **described(DiagnosisJson))
async def get_diagnosis(name: Name, server: Shared) -> Response:
    """Return the last diagnosis that was made."""
    await server.collection(name)
    found = [job for job in server.jobs.all() if (job.kind, job.collection, job.state) == ("diagnose", name, "done")]
    if not found:
        raise Refused(404, "There is no diagnosis yet. POST /diagnose makes one.")
    return answer({"ended": found[-1].ended, "diagnosis": found[-1].result})


async def _job(server: Server, name: str, request: Request, kind: str, keys: tuple[str, ...]) -> Response:
    body = await json_body(request)
    things = await server.collection(name)

    def submitted() -> dict[str, Any]:
        form = parsed_object(body)
        if unknown := set(form) - set(keys):
            raise BadInput(f"There is no setting {shown(min(unknown))}. Known: {', '.join(keys)}.")
        if not len(things):
            raise Refused(409, f"{name} is empty: there is nothing to {kind}. Add documents first.")
        if "spec" in form:
            checked(form["spec"])
        if form.get("queries") is not None:
            references(server, form["queries"])  # said now, not when the job runs
        if form.get("means") is not None:
            means_of(server, form["means"])
        return server.jobs.submit(kind, name, form).to_json()

    made = await server.pool.run(submitted)
    return answer(made, status=202, headers={"Location": f"/v1/collections/{name}/jobs/{made['id']}"})


def calibration_json(things: Collection) -> dict[str, Any]:
    """Return the calibrations of a collection."""
    facts, kept = things.stats(), things.calibrations()
    served = None if facts.calibration is None else facts.calibration["version"]
    versions = [
        {"version": one.version, "spec": str(one.fitted.spec), "made": one.made, "served": one.version == served}
        for one in kept
    ]
    return {
        "spec": things.calibration_spec,
        "served": facts.calibration,
        "versions": versions,
        "drift": dict(facts.drift),
        "drifted": things.drifted,
    }
