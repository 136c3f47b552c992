"""Long work over HTTP: jobs with progress that are polled, cancelled, and survive a restart."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree, ignore_patterns
from threading import Event, get_native_id
from typing import Any

import pytest
from starlette.testclient import TestClient

from isthmus import Collection
from isthmus.encoders.runtime import Runtime
from isthmus.errors import CannotWrite
from isthmus.search import references
from isthmus.serve import jobs
from isthmus.serve.jobs import ATTEMPTS, DATA, UNFINISHED, Job, JobRunner, Progress
from serving import THINGS, client_of, fill, until

LINES = {"Content-Type": "application/x-ndjson"}


@pytest.fixture(autouse=True)
def few_references(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ENOUGH", "SHIPPED_QUERIES"):
        monkeypatch.setattr(references, name, 40)  # calibrations take no time


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory, tiny: str) -> Path:
    root = tmp_path_factory.mktemp("jobs")
    fill(root, tiny)
    return root


@pytest.fixture
def root(filled: Path, tmp_path: Path) -> Path:
    return copytree(filled, tmp_path / "root")


@pytest.fixture
def client(root: Path) -> Iterator[TestClient]:
    with client_of(root) as client:
        yield client


def ended(client: TestClient, answer: Any) -> dict[str, Any]:
    """Wait until a job has ended."""
    assert answer.status_code == 202, answer.text
    place = answer.headers["location"]
    return until(lambda: over(client.get(place).json()))


def over(job: dict[str, Any]) -> dict[str, Any] | None:
    """Return a job that has ended."""
    return None if job["state"] in UNFINISHED else job


def test_a_calibration_is_fitted_and_an_earlier_one_is_used_again(client: TestClient) -> None:
    before = client.post(f"{THINGS}/search", json={"query": "a red cat"}).json()
    job = ended(client, client.post(f"{THINGS}/calibration", json={"spec": "none", "queries": ["cat", "dog"]}))
    assert (job["state"], job["result"]["spec"], job["done"]) == ("done", "none", job["total"])
    now = client.get(f"{THINGS}/calibration").json()
    assert [one["spec"] for one in now["versions"]] == ["center", "none"]
    assert [one["served"] for one in now["versions"]] == [False, True]
    assert client.post(f"{THINGS}/search", json={"query": "a red cat"}).json() != before
    back = client.put(f"{THINGS}/calibration", json={"version": now["versions"][0]["version"]}).json()
    assert (back["served"]["spec"], back["spec"]) == ("center", "center")
    assert client.post(f"{THINGS}/search", json={"query": "a red cat"}).json() == before
    assert client.put(f"{THINGS}/calibration", json={"version": 99}).status_code == 400


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"spec": "centre"}, "Did you mean"),
        ({"sepc": "none"}, "no setting"),
        ({"queries": [{"a": 1}]}, "no key 'a'"),
        ({"means": "train"}, "means is a list of documents"),
        ({"means": {}}, "means is a list of documents"),
        ({"means": [{"text": "a cat"}]}, "no 'id'"),
        ({"means": {"text": [["1"]]}}, "no rows of finite numbers"),
        ({"means": {"text": [[1], [1, 2]]}}, "no rows of finite numbers"),
        ({"means": {"text": [[1]], "image": [[1, 2]]}}, "different dimensions"),
    ],
)
def test_a_wrong_setting_is_said_before_the_job_begins(client: TestClient, body: Any, said: str) -> None:
    answer = client.post(f"{THINGS}/calibration", json=body)
    assert answer.status_code == 400
    assert said in answer.json()["error"]["message"]


def test_a_diagnosis_is_made_and_kept(client: TestClient) -> None:
    assert client.get(f"{THINGS}/diagnose").status_code == 404
    job = ended(client, client.post(f"{THINGS}/diagnose", json={}))
    assert job["state"] == "done", job
    assert client.get(f"{THINGS}/diagnose").json()["diagnosis"] == job["result"]
    assert [one["result"] for one in client.get(f"{THINGS}/jobs").json()["jobs"]] == [None]


@pytest.mark.skipif(sys.platform != "linux", reason="threads have a priority of their own only on Linux")
def test_a_job_gives_way_to_searches_and_the_encoder_is_loaded_before_it_does(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def niceness() -> int:
        return os.getpriority(os.PRIO_PROCESS, get_native_id())

    def watched(work: Any, name: str) -> Any:
        def run(*values: Any, **options: Any) -> Any:
            seen.append((name, niceness()))
            return work(*values, **options)

        return run

    usual = niceness()
    monkeypatch.setattr(Runtime, "encoder", watched(Runtime.encoder, "load"))
    monkeypatch.setattr(Collection, "calibrate", watched(Collection.calibrate, "calibrate"))
    for _ in range(2):  # one job's priority is not the next one's
        ended(client, client.post(f"{THINGS}/calibration", json={"spec": "center"}))
    assert seen == [("load", usual), ("calibrate", 19), ("calibrate", 19)]


def test_lines_are_added_as_a_job(client: TestClient, root: Path) -> None:
    body = "\n".join(json.dumps({"id": f"n{i}", "text": "a cat"}) for i in range(600)) + "\nnot json\n"
    answer = client.post(f"{THINGS}/documents", params={"job": True}, content=body, headers=LINES)
    job = ended(client, answer)
    assert (job["result"]["added"], job["result"]["documents"]) == (600, 630)
    assert [one["id"] for one in job["result"]["skipped"]] == ["line 601"]
    assert list((root / ".isthmus-serve/jobs").glob("*.data")) == []


def test_a_job_of_another_collection_is_not_shown(client: TestClient) -> None:
    job = ended(client, client.post(f"{THINGS}/diagnose", json={}))
    assert client.get(f"/v1/collections/other/jobs/{job['id']}").status_code == 404
    assert client.delete(f"{THINGS}/jobs/{job['id']}").status_code == 409
    assert client.get(f"{THINGS}/jobs/nobody").status_code == 404


class Steps:
    """Work that waits at each step, and notes how often it began."""

    def __init__(self) -> None:
        self.began, self.go, self.waits = 0, Event(), Event()

    def __call__(self, job: Job, progress: Progress) -> Any:
        self.began += 1
        self.waits.set()
        self.go.wait()
        progress(1, 2)
        return {"ended": job.id}


def finished(runner: JobRunner, job: Job) -> Job:
    until(lambda: runner.get(job.id).state not in UNFINISHED)
    return runner.get(job.id)


def test_a_job_is_cancelled_at_its_next_step_or_before_it_begins(tmp_path: Path) -> None:
    steps = Steps()
    runner = JobRunner(tmp_path / "jobs", {"steps": steps})
    first, second = (runner.submit("steps", "things", {}) for _ in range(2))
    steps.waits.wait()
    assert runner.cancel(second.id).state == "cancelled"
    assert runner.cancel(first.id).state == "running"
    steps.go.set()
    assert finished(runner, first).state == "cancelled"
    runner.close()
    assert steps.began == 1


def test_a_job_that_is_cancelled_while_it_is_about_to_begin_does_not_run(tmp_path: Path) -> None:
    steps = Steps()
    runner = JobRunner(tmp_path / "jobs", {"steps": steps})
    with runner._lock:  # the thread that runs jobs waits here, with the job in its hands
        job = runner.submit("steps", "things", {})
        assert runner.cancel(job.id).state == "cancelled"
    runner.close()
    assert (runner.get(job.id).state, steps.began) == ("cancelled", 0)


def test_a_job_that_cannot_be_written_down_is_refused_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: Job) -> None:
        raise OSError(28, "No space left on device")

    runner = JobRunner(tmp_path / "jobs", {"steps": Steps()})
    monkeypatch.setattr(runner, "_write", full)
    (tmp_path / "lines").write_text("lines")
    with pytest.raises(CannotWrite, match="No space left"):
        runner.submit("steps", "things", {}, tmp_path / "lines")
    runner.close()
    assert runner.all() == []
    assert [path.name for path in (tmp_path / "jobs").iterdir()] == ["lock"]


def test_a_running_job_is_cancelled_over_http_and_the_next_one_runs(client: TestClient) -> None:
    steps = Steps()
    runner: JobRunner = client.app.state.server.jobs  # type: ignore[attr-defined]
    runner.kinds = {**runner.kinds, "diagnose": steps}
    first, second = (client.post(f"{THINGS}/diagnose", json={}) for _ in range(2))
    steps.waits.wait()
    place = first.headers["location"]
    asked = client.delete(place)
    assert (asked.status_code, asked.json()["state"]) == (200, "running")
    steps.go.set()
    assert ended(client, first)["state"] == "cancelled"
    assert (ended(client, second)["state"], steps.began) == ("done", 2)
    assert client.delete(place).status_code == 409


def test_a_job_that_a_stop_interrupts_goes_on_after_the_restart(tmp_path: Path) -> None:
    steps = Steps()
    runner = JobRunner(tmp_path / "jobs", {"steps": steps})
    job = runner.submit("steps", "things", {"a": 1})
    steps.waits.wait()
    runner._stop.set()  # as close does, before it waits
    steps.go.set()
    runner.close()
    again = JobRunner(tmp_path / "jobs", {"steps": steps})
    again.start()
    assert finished(again, job).result == {"ended": job.id}
    again.close()
    assert steps.began == 2


def test_a_job_that_was_cancelled_does_not_go_on_after_a_stop_or_a_kill(tmp_path: Path) -> None:
    steps = Steps()
    runner = JobRunner(tmp_path / "jobs", {"steps": steps})
    job = runner.submit("steps", "things", {})
    steps.waits.wait()
    runner.cancel(job.id)
    killed = copytree(tmp_path / "jobs", tmp_path / "killed", ignore=ignore_patterns("lock"))
    runner._stop.set()  # as close does, before it waits
    steps.go.set()
    runner.close()
    for folder in (killed, tmp_path / "jobs"):
        again = JobRunner(folder, {"steps": steps})
        again.start()
        assert finished(again, job).state == "cancelled"
        again.close()
    assert steps.began == 1


def test_cancelled_jobs_that_are_forgotten_while_another_runs_do_not_stop_those_after_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "KEPT", 1)
    steps = Steps()
    runner = JobRunner(tmp_path / "jobs", {"steps": steps})
    first = runner.submit("steps", "things", {})
    steps.waits.wait()
    for _ in range(3):
        runner.cancel(runner.submit("steps", "things", {}).id)
    last = runner.submit("steps", "things", {})
    steps.go.set()
    assert finished(runner, last).state == "done"
    runner.close()
    assert (steps.began, first.id in {one.id for one in runner.all()}) == (2, False)


def test_the_jobs_of_a_deleted_collection_are_not_those_of_another_one_with_its_name(
    client: TestClient, root: Path, tiny: str
) -> None:
    steps = Steps()
    runner: JobRunner = client.app.state.server.jobs  # type: ignore[attr-defined]
    assert ended(client, client.post(f"{THINGS}/diagnose", json={}))["state"] == "done"
    runner.kinds = {**runner.kinds, "diagnose": steps}
    running = client.post(f"{THINGS}/diagnose", json={})
    steps.waits.wait()
    line = json.dumps({"id": "old", "text": "a cat"})
    client.post(f"{THINGS}/documents", params={"job": True}, content=line, headers=LINES)
    assert client.delete(THINGS).status_code == 204
    fill(root, tiny, count=3)
    steps.go.set()
    until(lambda: client.get(running.headers["location"]).status_code == 404)
    assert client.get(f"{THINGS}/diagnose").status_code == 404
    assert client.get(f"{THINGS}/jobs").json() == {"jobs": []}
    later = ended(client, client.post(f"{THINGS}/diagnose", json={}))
    assert (later["state"], client.get(THINGS).json()["documents"]) == ("done", 3)
    assert [path.name for path in runner.folder.iterdir() if path.name != "lock"] == [f"{later['id']}.json"]


def test_a_job_that_was_killed_runs_again_but_not_for_ever(tmp_path: Path) -> None:
    folder = tmp_path / "jobs"
    folder.mkdir()
    for name, attempts in (("a", 1), ("b", ATTEMPTS)):
        form = {"id": name, "kind": "steps", "collection": "things", "state": "running", "attempts": attempts}
        (folder / f"{name}.json").write_text(json.dumps(form))
    (folder / "c.json").write_text("not json")
    for left in ("d.upload", f"d{DATA}", f"c{DATA}"):
        (folder / left).write_text("lines")
    steps = Steps()
    steps.go.set()
    runner = JobRunner(folder, {"steps": steps})
    runner.start()
    states = [finished(runner, runner.get(name)).state for name in ("a", "b")]
    runner.close()
    assert (states, steps.began) == (["done", "failed"], 1)
    assert {path.name for path in folder.glob("[cd]*")} == {"c.json", f"c{DATA}"}


def test_an_error_of_a_job_shows_no_path(root: Path, client: TestClient) -> None:
    with Collection.open(root / "things.isthmus", follow=False) as things:
        things.delete(things.ids())
    answer = client.post(f"{THINGS}/calibration", json={})
    assert answer.status_code == 409
    assert str(root) not in answer.text
