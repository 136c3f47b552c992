"""Keeping what is served up to date: load it, follow changes, build it again, calibrate; searches never wait."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from threading import RLock, Thread
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from isthmus import calibration
from isthmus.calibration import Fitted, Statistics
from isthmus.errors import BadFile, CannotFit, CannotWrite, IsthmusError
from isthmus.kinds import TEXT
from isthmus.search import calibrate, hybrid, index_folder, modality_indexes, query_log, references, versions
from isthmus.search.handle import NO_ENCODER, Handle, encodings
from isthmus.search.index_folder import Origin
from isthmus.search.modality_indexes import FoldedBlock, folded
from isthmus.search.snapshot import Calibrated, Snapshot, unknown
from isthmus.storage.base import State
from isthmus.storage.protocols import Store
from isthmus.types import Vectors

DRIFT = 0.2  # radii that a part's mean may move before a re-fit pays
PATIENT = 20_000  # documents above which a search does not wait for the calibration of a new modality
GROWTH = 2.0  # times as many vectors of a part as at the fit

Progress: TypeAlias = Callable[[int, int], None]  # (done, of how many)

if TYPE_CHECKING:
    from filelock import BaseFileLock


@dataclass(frozen=True, slots=True, eq=False)
class SearchView:
    """What a search runs on: one state, as it is served, and where that was asked for as raw cosine ranks it."""

    snapshot: Snapshot
    raw: Snapshot | None


@dataclass(slots=True, eq=False)
class SnapshotManager:
    """Holds the ``Snapshot`` of one collection in one process."""

    opened: Handle
    store: Store
    spec: str = "auto"  # what a first calibration is
    follows: bool = True  # whether drift is followed by itself
    current: Snapshot | None = None
    known: int = 0  # the published calibration that ``current`` is, or that it stands in for in this process alone
    raw_snapshot: Snapshot | None = None
    raw_of: int = 0  # the encoding that ``raw_snapshot`` is of
    busy: Thread | None = None
    last_error: str = ""  # why the last work in the background failed
    checked: int = -1  # the state of the documents at which drift was last looked at
    renewed: bool = False  # whether the background has built indexes that are not served yet
    guard: RLock = field(default_factory=RLock)
    lock: BaseFileLock | None = None  # of ``index/``

    @property
    def folder(self) -> Path | None:
        """Where the index is kept; None where there is no such place."""
        return self.store.folder

    @property
    def writable(self) -> bool:
        """Whether this process may change the collection."""
        return self.store.database.writable

    @contextmanager
    def view(self, *, raw: bool = False) -> Iterator[SearchView]:
        """Hold one state of the collection: what is served, and every read of this thread, are of the same change.

        Snapshots begin one after the other, so that what is served only ever moves forward.
        """
        with ExitStack() as stack:
            with self.guard:
                stack.enter_context(self.store.database.reading())
                snapshot = self._current()
                view = SearchView(snapshot, self._raw(snapshot) if raw else None)
            yield view

    def latest(self) -> Snapshot:
        """Return what is served now: the newest calibration, and every committed document."""
        with self.view() as view:
            return view.snapshot

    def raw(self) -> Snapshot:
        """Return the collection as raw cosine ranks it, for comparison; made in memory when first asked for."""
        with self.view(raw=True) as view:
            return view.raw or view.snapshot

    def _current(self) -> Snapshot:
        current = self._up_to_date()
        if self.follows and self.writable and not self.refitting and self.checked != current.sequence:
            self.checked = current.sequence  # what fails is not tried again before the documents change
            if current.unknown(self.store) or self.drifted(current.calibrated.fitted.statistics):
                self._in_background(lambda manager: manager.calibrated(manager.requested_spec))
            elif current.needs_rebuild:
                self._in_background(lambda manager: manager._built(current.calibrated))
        return current

    def _up_to_date(self) -> Snapshot:
        version, state = self.version(), self.store.state()
        current = self.current
        if current is not None and current.state != state and not self.store.passed(current.state):
            current = None  # of another history, or so old that what was deleted since is not known any more
        other = current is None or version not in (current.calibrated.version, self.known)
        if version and (other or self.renewed):
            self.renewed = False
            current = self._loaded(version)
        if current is None:
            current = self._first(self.spec)
        if current.state != state:
            current = self._followed(current, state)
        self.current = current if current.calibrated.made else None  # what serves nothing is not held on to
        self.known = version
        return current

    def _first(self, spec: str, asked: str | None = None) -> Snapshot:
        """Calibrate because a search needs it: where nothing can be written, for this process alone."""
        try:
            return self.calibrated(spec, asked=asked)
        except CannotWrite:
            return self.calibrated(spec, keep=False)

    def version(self) -> int:
        """Return the number of the served calibration, 0 for none."""
        return self.store.calibrations.served()

    def _loaded(self, version: int) -> Snapshot:
        calibrated = self.read(version)
        for place in index_folder.places(self.folder, version):
            try:
                snapshot = index_folder.read(place, calibrated)
            except (IsthmusError, OSError):
                continue  # damaged: made again from the store
            if self.store.passed(snapshot.state):  # else it is of a store that was since put back to an older state
                return snapshot
        if unknown(calibrated.fitted, self.store):
            return Snapshot(calibrated, State(-1, ""), -1, ())  # whoever follows it sees what it cannot fold
        return self._built(calibrated)

    def _followed(self, current: Snapshot, state: State) -> Snapshot:
        if current.unknown(self.store) and not (self.follows and self.writable and self.store.count() > PATIENT):
            try:
                return self._first(self.requested_spec)
            except CannotFit:  # what was asked for once does not go with what there is now
                return self._first("auto", asked=self.requested_spec)
        return current.followed(self.store, state)

    @property
    def requested_spec(self) -> str:
        """What the collection was told to calibrate by: ``auto``, or a spec."""
        return self.store.calibrations.spec() or self.spec

    @contextmanager
    def building(self) -> Iterator[bool]:
        """Hold the lock of ``index/``; yields whether this process has it, and may write there."""
        from filelock import FileLock, Timeout  # late: readers never need it

        if not self.writable or self.folder is None:
            yield False
            return
        self.store.database.check_place()  # a lock would make a folder that is gone anew
        if self.lock is None:
            self.lock = FileLock(self.folder / index_folder.LOCK, timeout=0)
        try:
            self.lock.acquire()
        except (Timeout, OSError):
            yield False
            return
        try:
            yield True
        finally:
            self.lock.release()

    def sweep(self) -> None:
        """Remove what killed processes left: drafts of indexes and of calibrations, unless one is at work now."""
        places = {place.name for place in index_folder.entries(self.folder)}
        drafts = max(self.store.calibrations.versions(), default=0) > self.version()
        if places <= {self._newest()} and not drafts:
            return  # as nearly always: no lock is needed
        with self.building() as mine:
            if mine:
                index_folder.keep_only(self.folder, self._newest())
                self.store.calibrations.forget_drafts()

    def _names(self) -> list[str]:
        """Return the names of the indexes on the disk."""
        return [place.name for place in index_folder.places(self.folder, self.version())]

    def _newest(self) -> str | None:
        """Return the name of the newest index that is of this history, as far as its description tells."""
        for place in index_folder.places(self.folder, self.version()):
            try:
                about = index_folder.described(place)
                if self.store.passed(State(int(about["sequence"]), str(about["token"]))):
                    return place.name
            except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
                continue
        return None

    def _built(self, calibrated: Calibrated) -> Snapshot:
        """Fold every document and put them in indexes: on the disk where we may write, else in memory."""
        with self.building() as mine, self.store.database.reading():
            state, last = self.store.state(), self.store.last()
            snapshot = self._built_from(calibrated, state, last, on_disk=mine)
            name = Origin.of(calibrated, state, last).name
            if mine and calibrated.version == self.version() and name in self._names():
                index_folder.keep_only(self.folder, name)
                self.store.trim(snapshot.sequence)
        return snapshot

    def _built_from(self, calibrated: Calibrated, state: State, last: int, *, on_disk: bool) -> Snapshot:
        if calibrated.version and on_disk and self.folder is not None:
            try:
                origin = Origin.of(calibrated, state, last)
                place = index_folder.write(self.folder, self._pieces(calibrated, last), origin)
                return index_folder.read(place, calibrated)
            except (BadFile, CannotWrite, OSError):
                if self.store.database.closed:
                    raise
                # the disk is full, or fails: serve from memory
        return Snapshot(calibrated, state, last, modality_indexes.in_memory(self._pieces(calibrated, last)))

    def _pieces(self, calibrated: Calibrated, last: int) -> Iterator[FoldedBlock]:
        for block in self.store.blocks(last=last):
            yield from folded(calibrated.fitted, block, calibrated.sources)

    def persist(self) -> None:
        """Write the indexes where the next process finds them, when those there are missing or far behind."""
        if self.current is None or not self.current.calibrated.version or not self.writable or self.folder is None:
            return
        encoding = encodings(self.store.database)
        with self.guard, self.store.database.reading():
            snapshot = self._up_to_date()
        if snapshot.needs_persist or not index_folder.places(self.folder, snapshot.calibrated.version):
            self._serve(self._built(snapshot.calibrated), encoding)

    def tidy(self) -> None:
        """Bring the index on the disk up to date, and forget what only an older one needs to know."""
        if not self.version():
            self.store.trim(self.store.state().sequence)  # there is no index yet
            return
        encoding = encodings(self.store.database)
        snapshot = self.latest()
        name = Origin.of(snapshot.calibrated, snapshot.state, snapshot.last).name
        if self.folder is not None and name not in self._names():
            self._serve(self._built(snapshot.calibrated), encoding)
        self.store.trim(snapshot.sequence)

    def calibrated(
        self,
        spec: str,
        own: references.Own = (),
        *,
        keep: bool = True,
        asked: str | None = None,
        replacing: bool = False,
        progress: Progress = lambda _, __: None,
    ) -> Snapshot:
        """Fit a calibration on what is there now, build its indexes, learn what its scores are worth, and serve it.

        With ``keep``, and where we may write, other processes are served by it, too: unless somebody has made another
        meanwhile, or ``replacing`` that as well. The next one is made as this was ``asked`` for, by its spec when that
        is not said.
        """
        keep = keep and self.writable
        encoding = encodings(self.store.database)
        with self.building() if keep else nullcontext(False) as mine:
            with self.store.database.reading():
                before = None if replacing else self.version()
                if not self.store.count():
                    return self._nothing()
                snapshot = self.fitted(spec, own, keep=keep, on_disk=mine, progress=progress)
            if keep:
                versions.publish(
                    self.store.calibrations, snapshot.calibrated, asked or spec, over=before, encoding=encoding
                )
            if mine and self.version() == snapshot.calibrated.version:
                index_folder.keep_only(self.folder, Origin.of(snapshot.calibrated, snapshot.state, snapshot.last).name)
        return self._serve(snapshot, encoding)

    def _serve(self, snapshot: Snapshot, encoding: int) -> Snapshot:
        """Serve what was made since ``encoding`` was read, unless vectors of two encoders may have met in it."""
        with self.guard:
            if encodings(self.store.database) != encoding:
                raise BadFile(f"{self.opened.folder} was re-encoded meanwhile. Try again.")
            self.current = snapshot
        return snapshot

    def fitted(
        self,
        spec: str,
        own: references.Own = (),
        *,
        keep: bool,
        on_disk: bool,
        progress: Progress = lambda _, __: None,
    ) -> Snapshot:
        """Fit and build; with ``keep`` under a number of its own in the store, by which nobody is served yet."""
        state, last = self.store.state(), self.store.last()
        trials = len(calibration.AUTO_GRID)
        steps = trials + 3  # references, trials, index, P(match)
        progress(0, steps)
        gathered = references.gather(self.store, self.opened.load(), [*self.own_queries(), *own])
        progress(1, steps)
        fitted = calibrate.chosen(spec, gathered, self.store.counts(), lambda done, _: progress(1 + done, steps))
        progress(1 + trials, steps)
        fitted = replace(fitted, statistics=self.store.statistics())
        made = datetime.now(UTC).isoformat(timespec="seconds")
        calibrated = Calibrated(0, state.sequence, made, fitted, None, gathered.real.by_document())
        if keep:
            calibrated = versions.draft(self.store.calibrations, calibrated)
        built = self._built_from(calibrated, state, last, on_disk=on_disk)
        progress(2 + trials, steps)
        match = calibrate.matched(built, self.store, gathered)
        joined = hybrid.fit(built, self.store, gathered.real)
        progress(steps, steps)
        return replace(built, calibrated=replace(calibrated, match=match, hybrid=joined))

    def _nothing(self) -> Snapshot:
        """Serve an empty collection: nothing to fit, nothing to find."""
        one = Vectors.of(np.ones((1, 1), dtype=np.float32), TEXT)
        fitted = replace(calibration.fit("none", one, one), statistics=Statistics({}))
        return Snapshot(Calibrated(0, 0, "", fitted), self.store.state(), -1, ())

    def read(self, version: int) -> Calibrated:
        """Read a calibration from the store."""
        return versions.read(self.store.calibrations, version)

    def published(self) -> Calibrated | None:
        """Read the calibration that is served; None before the first."""
        with self.store.database.reading():
            version = self.version()
            return self.read(version) if version else None

    def _raw(self, snapshot: Snapshot) -> Snapshot:
        encoding, base, raw = encodings(self.store.database), snapshot.calibrated.fitted, self.raw_snapshot
        same = raw is not None and self.raw_of == encoding and _covers(raw.calibrated.fitted, base)
        if raw is not None and same and (raw.state == snapshot.state or self.store.passed(raw.state)):
            self.raw_snapshot = raw if raw.state == snapshot.state else raw.followed(self.store, snapshot.state)
            return self.raw_snapshot
        queries = Vectors.concat([_one(name, base.dim) for name in base.query_modalities])
        documents = Vectors.concat([_one(name, base.dim) for name in base.document_modalities])
        fitted = replace(calibration.fit("none", documents, queries), statistics=base.statistics)
        calibrated = Calibrated(0, snapshot.sequence, "", fitted)
        last = self.store.last()
        built = modality_indexes.in_memory(self._pieces(calibrated, last), "exact")  # a graph would take minutes
        self.raw_snapshot, self.raw_of = Snapshot(calibrated, snapshot.state, last, built), encoding
        return self.raw_snapshot

    def drifted(self, fitted_on: Statistics) -> bool:
        """Whether a re-fit pays: a mean has moved since the fit, or a part has grown out of it."""
        before, now = fitted_on.parts, self.store.statistics().parts
        if not now or not before:
            return False
        grown = any(now[part].count > GROWTH * before[part].count for part in now if part in before)
        return grown or max(calibration.drift(fitted_on, self.store.statistics()).values()) > DRIFT

    def problems(self) -> list[str]:
        """Return what is wrong with the index on the disk, every byte of which is read; what is damaged is replaced."""
        found: list[str] = []
        with self.guard, self.store.database.reading():
            version = self.version()
            try:
                calibrated = self.read(version)
            except BadFile:
                return []  # there is none yet, or it is damaged, which others report
            for place in index_folder.places(self.folder, version):
                try:
                    index_folder.read(place, calibrated)
                except index_folder.OtherHistory:
                    continue
                except IsthmusError as error:
                    found.append(str(error))
            if found:
                self.current = None  # it may be what is damaged
                self._up_to_date()
        return found

    @property
    def refitting(self) -> bool:
        """Whether work is under way in the background."""
        return self.busy is not None and self.busy.is_alive()

    def _in_background(self, task: Callable[[SnapshotManager], Snapshot]) -> None:
        """Work on a connection of its own; searches go on with what is served until it is done."""

        def work() -> None:
            encoding = encodings(self.store.database)
            try:
                with self.store.again() as other:
                    task(SnapshotManager(self.opened, other, follows=False))
                self.renewed, self.last_error = True, ""
            except (
                IsthmusError,
                OSError,
                RuntimeError,
                ValueError,
            ) as error:  # RuntimeError: the interpreter is ending
                moved = encodings(self.store.database) != encoding  # then what it was for is gone
                self.last_error = "" if moved else str(error)

        self.busy = Thread(target=work, name="isthmus-maintenance")  # not a daemon: a program that ends waits for it
        self.busy.start()

    def wait(self) -> None:
        """Wait for what is under way in the background."""
        if self.busy is not None:
            self.busy.join()

    def own_queries(self) -> references.Own:
        """Return the user's own queries: those that were given to an earlier calibration, and those logged."""
        without = self.opened.name == NO_ENCODER  # nobody could read them
        return [] if without else query_log.kept(self.store.queries)


def _covers(fitted: Fitted, other: Fitted) -> bool:
    """Whether one knows every modality that the other knows."""
    documents = set(other.document_modalities) <= set(fitted.document_modalities)
    return documents and set(other.query_modalities) <= set(fitted.query_modalities)


def _one(modality: str, dim: int) -> Vectors:
    return Vectors({part: np.ones((1, dim), dtype=np.float32) for part in modality.split("+")})
