"""Jobs: long work with progress, on a thread of its own that gives way to searches.

They are polled, cancelled, and survive a restart:

    queued ──▸ running ──▸ done | failed | cancelled

Every change of state is written to ``jobs/ID.json`` in the state folder of the server before it counts. A job that a
restart cut off is run again, from the start: adding the same documents twice changes nothing, and a calibration or a
diagnosis is made anew. After ``ATTEMPTS`` attempts it has failed: it may be what brings the server down. One that was
cancelled is not run again. The jobs of a collection are forgotten when it is deleted: another may get its name.
"""

from __future__ import annotations

import json
import logging
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from queue import SimpleQueue
from threading import Event, RLock, Thread
from typing import TYPE_CHECKING, Any, TypeAlias

from isthmus.atomic import replacing
from isthmus.budget import MIB
from isthmus.errors import CannotWrite, IsthmusError
from isthmus.files import read_regular
from isthmus.serve.answers import encoded, public_text
from isthmus.serve.errors import Refused

if TYPE_CHECKING:
    from filelock import BaseFileLock

LOG = logging.getLogger("isthmus.serve")
ATTEMPTS = 3
KEPT = 100  # finished jobs
WAITING = 100  # jobs that have not finished
LARGEST = 1024 * MIB  # of a file of the ledger: reference queries may have pictures
EVERY = 2.0  # seconds between two writes of the progress
UNFINISHED = ("queued", "running")
DATA, UPLOAD = ".data", ".upload"  # the file of a job, and one that is still coming


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A piece of work: what is asked, how far it is, and what came of it."""

    id: str
    kind: str
    collection: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    state: str = "queued"
    done: int = 0
    total: int | None = None
    attempts: int = 0
    cancelled: bool = False  # asked for; the state follows at the next step
    result: Any = None
    error: str | None = None
    made: str = ""
    ended: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return what clients see."""
        hidden = ("settings", "attempts", "cancelled")
        return {name: value for name, value in asdict(self).items() if name not in hidden}


class Cancelled(Exception):
    """Raised inside a job that was cancelled."""


class Stopped(Exception):
    """Raised inside a job when the server stops: it goes on after the restart."""


Progress: TypeAlias = Callable[[int, int | None], None]
Work: TypeAlias = Callable[[Job, Progress], Any]


class JobRunner:
    """Runs jobs one after another, and keeps their ledger."""

    def __init__(self, folder: Path, kinds: Mapping[str, Work]) -> None:
        self.folder, self.kinds = folder, kinds
        self._jobs: dict[str, Job] = {}
        self._dropped: set[str] = set()  # jobs of deleted collections that have not ended
        self._queue: SimpleQueue[str | None] = SimpleQueue()
        self._lock = RLock()
        self._stop = Event()
        self._thread: Thread | None = None
        self._owner: BaseFileLock | None = None

    def start(self) -> None:
        """Read the ledger, and go on with what was not finished; a folder without a ledger is not changed."""
        if self.folder.is_dir() and self._own():
            for left in self.folder.glob(f"*{UPLOAD}"):  # of a client that was cut off with the server
                left.unlink(missing_ok=True)
            for data in self.folder.glob(f"*{DATA}"):  # of a job that was not written down before the server was killed
                if not data.with_suffix(".json").exists():
                    data.unlink(missing_ok=True)
            for job in sorted(self._read(), key=lambda job: job.made):
                self._jobs[job.id] = job
                if job.state in UNFINISHED:
                    self._again(job)
            self._forget()

    def _own(self) -> bool:
        """Take the ledger for this process; another server of the same folder has none."""
        from filelock import FileLock, Timeout

        if self._owner is None:
            lock = FileLock(self.folder / "lock", timeout=0)
            try:
                lock.acquire()
            except (Timeout, OSError):
                return False
            self._owner = lock
            self._thread = Thread(target=self._run, name="isthmus-jobs", daemon=True)
            self._thread.start()
        return True

    def _read(self) -> list[Job]:
        found: list[Job] = []
        for path in self.folder.glob("*.json"):
            try:
                found.append(Job(**json.loads(read_regular(path, LARGEST))))
            except (OSError, ValueError, TypeError, RecursionError):
                LOG.warning("a job cannot be read", extra={"job": path.stem})
        return found

    def _again(self, job: Job) -> None:
        if job.cancelled:
            self._end(job.id, "cancelled")
        elif job.attempts >= ATTEMPTS:
            self._end(job.id, "failed", error=f"The server was stopped {job.attempts} times while this job ran.")
        else:
            self._change(job.id, state="queued", done=0)
            self._queue.put(job.id)

    def submit(self, kind: str, collection: str, settings: Mapping[str, Any], data: Path | None = None) -> Job:
        """Write down a job and queue it; ``data`` is a file that becomes the job's own."""
        job = Job(id=secrets.token_hex(8), kind=kind, collection=collection, settings=dict(settings), made=_now())
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if not self._own():
                raise Refused(409, "Another server of this folder runs its jobs. Send this to that one.")
            if sum(one.state in UNFINISHED for one in self.all()) >= WAITING:
                raise Refused.later(503, f"{WAITING} jobs are waiting. Try later, or cancel some.", 60)
            if data is not None:
                data.replace(self.data_of(job))
            with self._lock:
                self._write(job)
                self._jobs[job.id] = job
        except OSError as error:
            self.data_of(job).unlink(missing_ok=True)
            if isinstance(error, IsthmusError):
                raise
            raise CannotWrite(f"The job cannot be written down: {error.strerror or error}.") from None
        self._queue.put(job.id)
        return job

    def data_of(self, job: Job) -> Path:
        """Return where the data of a job is."""
        return self.folder / f"{job.id}{DATA}"

    def all(self) -> list[Job]:
        """Return every job, oldest first."""
        with self._lock:
            return list(self._jobs.values())

    def get(self, name: str) -> Job:
        """Return a job."""
        with self._lock:
            if name in self._jobs:
                return self._jobs[name]
        raise Refused(404, "There is no such job. Finished jobs are forgotten after a while.")

    def cancel(self, name: str) -> Job:
        """Ask a job to end; it ends at its next step. What it has done stays."""
        with self._lock:  # it may be about to begin
            job = self.get(name)
            if job.state not in UNFINISHED:
                raise Refused(409, f"The job has ended: {job.state}.")
            if job.state == "queued":
                return self._end(name, "cancelled")
            return self._change(name, cancelled=True)

    def drop(self, collection: str) -> None:
        """Cancel and forget the jobs of a collection that was deleted."""
        with self._lock:
            for job in self.all():
                if job.collection == collection:
                    self._dropped.add(job.id)
                    if job.state in UNFINISHED:
                        self.cancel(job.id)
            self._forget()

    def _run(self) -> None:
        while (name := self._queue.get()) is not None:
            with self._lock:
                queued = self._jobs.get(name)  # None: it was cancelled, and is forgotten by now
                if self._stop.is_set() or queued is None or queued.state != "queued":
                    continue
                job = self._change(name, state="running", attempts=queued.attempts + 1)
            thread = Thread(target=self._work, args=(job,), name=f"isthmus-{job.kind}")  # its priority may get lower
            try:
                thread.start()
            except RuntimeError as error:
                LOG.error("a job cannot begin", exc_info=error, extra={"job": name})
                self._end(name, "failed", error="The server has no thread left for this. Try again later.")
            else:
                thread.join()

    def _work(self, job: Job) -> None:
        last = time.monotonic()

        def progress(done: int, total: int | None) -> None:
            nonlocal last
            if self.get(job.id).cancelled:
                raise Cancelled
            if self._stop.is_set():
                raise Stopped
            late = time.monotonic() - last > EVERY
            last = time.monotonic() if late else last
            self._change(job.id, write=late, done=done, total=total)

        try:
            progress(0, None)
            self._end(job.id, "done", result=json.loads(encoded(self.kinds[job.kind](job, progress))))
        except Stopped:
            self._change(job.id, state="queued", attempts=job.attempts - 1, done=0)
        except Cancelled:
            self._end(job.id, "cancelled")
        except IsthmusError as error:
            self._end(job.id, "failed", error=public_text(str(error)))
        except Exception as error:
            LOG.error("a job failed", exc_info=error, extra={"job": job.id})
            self._end(job.id, "failed", error="The server failed. Its log says why, under the id of the job.")

    def _end(self, name: str, state: str, *, result: Any = None, error: str | None = None) -> Job:
        with self._lock:  # whoever sees that it ended finds its data deleted
            job = self._change(name, state=state, result=result, error=error, ended=_now())
            self.data_of(job).unlink(missing_ok=True)
        self._forget()
        return job

    def _change(self, name: str, *, write: bool = True, **changes: Any) -> Job:
        with self._lock:
            job = self._jobs[name] = replace(self._jobs[name], **changes)
            if write:
                try:
                    self._write(job)
                except OSError as error:  # the disk is full: the job goes on, and is run again after a restart
                    LOG.error("the ledger cannot be written", exc_info=error, extra={"job": name})
            return job

    def _write(self, job: Job) -> None:
        with replacing(self.folder / f"{job.id}.json") as draft:
            draft.write_bytes(encoded(asdict(job)))

    def _forget(self) -> None:
        """Delete the oldest finished jobs, and those of deleted collections."""
        with self._lock:
            ended = [job for job in self._jobs.values() if job.state not in UNFINISHED]
            dropped = [job for job in ended if job.id in self._dropped]
            kept = [job for job in ended if job.id not in self._dropped]
            for job in (*dropped, *kept[:-KEPT]):
                del self._jobs[job.id]
                self._dropped.discard(job.id)
                with suppress(OSError):
                    (self.folder / f"{job.id}.json").unlink(missing_ok=True)

    def close(self) -> None:
        """Stop at the next step of what is running; it goes on after the restart."""
        self._stop.set()
        self._queue.put(None)
        if self._thread is not None:
            self._thread.join()
        if self._owner is not None:
            self._owner.release()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
