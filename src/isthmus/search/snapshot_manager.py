"""What searches are served: one immutable ``Snapshot`` behind one pointer, which moves forward in one step.

A search reads the pointer, begins a read of the store, and compares the two. They nearly always agree: then the search
takes no lock at all. What it does otherwise, and what it waits for:

    documents have changed           it folds what is new itself, and moves the pointer; searches that began after the
                                     same change share this work, all others go on
    another process has calibrated   it loads that process's index, up to ``PATIENT`` rows; above, it is answered by the
                                     calibration it has, and the maintenance thread loads the new one
    a modality is new                it waits for a calibration that knows it, up to ``PATIENT`` documents; above, the
                                     maintenance thread calibrates, and the new documents are found afterwards
    nothing can be served yet        it waits: for the index to be loaded or built, or for the first calibration

So an answer is always of one committed state, at least as new as the last commit before the search began. A search
never waits for a re-fit, a rebuild, a writer, or for ``calibrate``, ``refresh``, ``verify`` and ``compact`` on another
thread: they work on the side and move the pointer at the end. The maintenance thread re-fits when documents have
drifted, rebuilds when the indexes have changed much, and follows the latest changes before it moves the pointer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from threading import Lock, RLock

import numpy as np

from isthmus import calibration
from isthmus.calibration import Fitted
from isthmus.errors import BadFile, CannotFit, CannotReach, CannotWrite, IsthmusError
from isthmus.search import index_folder, references
from isthmus.search.calibrate import Means
from isthmus.search.handle import encodings
from isthmus.search.maintenance import MaintenanceWorker
from isthmus.search.snapshot import REBUILD, Calibrated, Snapshot, in_memory
from isthmus.search.snapshot_builder import Progress, SnapshotBuilder, Superseded
from isthmus.storage.base import State
from isthmus.types import Vectors

PATIENT = 20_000  # documents above which a search does not wait for what could be served without it


@dataclass(frozen=True, slots=True, eq=False)
class SearchView:
    """What a search runs on: the served snapshot of one state, and the snapshot for raw cosine if requested."""

    snapshot: Snapshot
    raw: Snapshot | None


@dataclass(frozen=True, slots=True, eq=False)
class Served:
    """What the pointer points to."""

    snapshot: Snapshot
    version: int  # the published calibration that the snapshot has, or replaces in this process only
    encoding: int  # how often the collection had been re-encoded when it was made


@dataclass(slots=True, eq=False)
class SnapshotManager(SnapshotBuilder):
    """Serves the snapshots of one collection in one process."""

    follows: bool = True  # whether drift is followed automatically
    served: Served | None = field(default=None, init=False)
    raw_snapshot: Snapshot | None = field(default=None, init=False)
    raw_of: int = field(default=0, init=False)  # the encoding that ``raw_snapshot`` is of
    last_error: str = field(default="", init=False)  # why the last maintenance failed
    checked: int = field(default=-1, init=False)  # the state of the documents at which drift was last looked at
    worker: MaintenanceWorker = field(default_factory=MaintenanceWorker, init=False)
    loading: set[int] = field(default_factory=set, init=False)  # as ``coming``, by the maintenance thread
    _pointer: Lock = field(default_factory=Lock, init=False)  # held to move ``served``, for an instant
    _following: RLock = field(default_factory=RLock, init=False)  # held by the search that brings ``served`` up to date
    _raw_lock: RLock = field(default_factory=RLock, init=False)  # held by the search that does so for ``raw_snapshot``

    @property
    def current(self) -> Snapshot | None:
        """What is served now, however old; None before the first search."""
        return None if self.served is None else self.served.snapshot

    @property
    def refitting(self) -> bool:
        """Whether maintenance is running."""
        return self.worker.busy

    @contextmanager
    def view(self, *, raw: bool = False) -> Iterator[SearchView]:
        """Hold one state of the collection: what is served, and every read of this thread, are of the same change."""
        with ExitStack() as stack:
            with self._raw_lock if raw else nullcontext():
                snapshot = self._begun(stack)
                view = SearchView(snapshot, self._raw(snapshot) if raw else None)
            self._maintain(snapshot)
            yield view

    def latest(self) -> Snapshot:
        """Return what is served now: the newest calibration, and every committed document."""
        with self.view() as view:
            return view.snapshot

    def raw(self) -> Snapshot:
        """Return the collection as raw cosine ranks it, for comparison; built in memory on first use."""
        with self.view(raw=True) as view:
            return view.raw or view.snapshot

    def _begun(self, stack: ExitStack) -> Snapshot:
        """Begin to read the store, and return the snapshot of the state that is read."""
        served = self.served  # before the read begins, which is then at least as new
        stack.enter_context(self.store.database.reading())
        if served is not None and self._is_of(served, self.version()) and served.snapshot.state == self.store.state():
            return served.snapshot
        stack.close()
        with self._following:
            while True:
                served = self.served
                stack.enter_context(self.store.database.reading())
                try:
                    return self._up_to_date(served)
                except Superseded:
                    stack.close()

    def _is_of(self, served: Served, version: int) -> bool:
        return version == served.version or version in self.coming or version in self.loading

    def _up_to_date(self, served: Served | None) -> Snapshot:
        version, state = self.version(), self.store.state()
        if served is None or not self._can_follow(served, state):  # of another history, or too old to be followed
            snapshot = self.loaded_or_built(version) if version else self._first(self.spec)
        elif self._is_of(served, version):
            snapshot, version = served.snapshot, served.version
        else:
            snapshot, version = self._recalibrated(served, version)
        if snapshot.state != state:
            snapshot = self._followed(snapshot, state)
        with self._pointer:
            if self.served is served and snapshot.calibrated.made:  # else it was moved meanwhile, or is temporary
                self.served = Served(snapshot, version, encodings(self.store.database))
        return snapshot

    def _can_follow(self, served: Served, state: State) -> bool:
        if served.snapshot.state == state:
            return True
        return served.encoding == encodings(self.store.database) and self.store.passed(served.snapshot.state)

    def _recalibrated(self, served: Served, version: int) -> tuple[Snapshot, int]:
        """Return what another process has calibrated, or what is served until that is loaded, and its version."""
        if self.publisher is not None or sum(map(len, served.snapshot.all_indexes)) <= PATIENT:
            found = self.loaded(version)
            if found is not None:
                return found, version
        self._in_background(lambda builder: builder.loaded_or_built(version), version)
        return served.snapshot, served.version

    def _first(self, spec: str, asked: str | None = None, means: Means = None) -> Snapshot:
        """Calibrate because a search needs it: where nothing can be written, for this process alone."""
        try:
            return self.calibrated(spec, asked=asked, means=means, over=self.version())
        except CannotWrite:
            return self.calibrated(spec, keep=False, means=means)

    def _followed(self, current: Snapshot, state: State) -> Snapshot:
        if current.unknown(self.store) and not (self.follows and self.writable and self.store.count() > PATIENT):
            try:
                return self._first(self.requested_spec, means=self.given_means())
            except CannotFit:  # the requested spec no longer fits the documents
                return self._first("auto", asked=self.requested_spec)
        return self._nearest(current).followed(self.store, state)

    def _nearest(self, current: Snapshot) -> Snapshot:
        """Return the newer index that another process has built, where folding what is new would take longer."""
        version = current.calibrated.version
        if version and self.publisher is not None:
            return (current.needs_persist and self.loaded(version)) or current
        if version and self.store.last() - current.last > REBUILD[0]:
            places = index_folder.places(self.folder, version)
            if places and index_folder.sequence(places[0]) > current.sequence:
                return self.loaded(version) or current
        return current

    def _serve(self, snapshot: Snapshot, encoding: int) -> Snapshot:
        """Serve what was made since ``encoding`` was read, unless it may mix vectors of two encoders."""
        version = snapshot.calibrated.version or self.version()
        with self._pointer:
            if encodings(self.store.database) != encoding:
                raise BadFile(f"{self.opened.folder} was re-encoded meanwhile. Try again.")
            self.served = Served(snapshot, version, encoding)
        return snapshot

    def calibrated(
        self,
        spec: str,
        own: references.Own = (),
        *,
        keep: bool = True,
        asked: str | None = None,
        replacing: bool = False,
        means: Means = None,
        over: int | None = None,
        progress: Progress = lambda _, __: None,
    ) -> Snapshot:
        """Fit, build and publish a calibration, as ``made`` does, and serve it."""
        encoding = encodings(self.store.database)
        snapshot = self.made(
            spec, own, keep=keep, asked=asked, replacing=replacing, means=means, over=over, progress=progress
        )
        try:
            return self._serve(snapshot, encoding) if snapshot.calibrated.made else snapshot
        finally:
            self.coming.discard(snapshot.calibrated.version)
            self._drop_others(self)

    def use_again(self, version: int) -> Snapshot:
        """Serve an earlier calibration, as ``restored`` makes it."""
        encoding = encodings(self.store.database)
        snapshot = self.restored(version)
        try:
            return self._serve(snapshot, encoding)
        finally:
            self.coming.discard(snapshot.calibrated.version)
            self._drop_others(self)

    def _drop_others(self, builder: SnapshotBuilder) -> None:
        """Drop publications that are not served any more; those that another process builds stay."""
        if self.publisher is not None:
            with builder.building() as mine:
                if mine:
                    builder.sweep_publications()

    def lost(self, snapshot: Snapshot) -> None:
        """Serve a snapshot no longer: the server does not have what it needs."""
        with self._pointer:
            if self.served is not None and self.served.snapshot.calibrated is snapshot.calibrated:
                self.served = None

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
        built = in_memory(self.pieces(calibrated, last), "exact")  # a graph would take minutes
        self.raw_snapshot, self.raw_of = Snapshot(calibrated, snapshot.state, last, built), encoding
        return self.raw_snapshot

    def _rebuilt(self, calibrated: Calibrated, encoding: int) -> None:
        """Build the indexes again and serve them; only then forget what an older index needs to be followed."""
        with suppress(Superseded):
            snapshot = self._serve(self.built(calibrated, trim=False), encoding)
            if self.on_disk(snapshot):
                self.store.trim(snapshot.sequence)

    @property
    def _persists(self) -> bool:
        """Whether indexes outlive this process: in a folder, or on a server."""
        return self.folder is not None or self.publisher is not None

    def persist(self) -> None:
        """Write the indexes where the next process finds them, when those there are missing or far behind."""
        current = self.current
        if current is None or not current.calibrated.version or not self.writable or not self._persists:
            return
        encoding = encodings(self.store.database)
        snapshot = self.latest()
        there = self.publisher is not None or index_folder.places(self.folder, snapshot.calibrated.version)
        if snapshot.needs_persist or not there or self.other_index(snapshot):
            self._rebuilt(snapshot.calibrated, encoding)

    def tidy(self) -> None:
        """Bring the index on the disk up to date, and forget what only an older one needs to know."""
        if not self.version():
            self.store.trim(self.store.state().sequence)  # there is no index yet
            return
        encoding = encodings(self.store.database)
        snapshot = self.latest()
        if self._persists and (self.other_index(snapshot) or not self.on_disk(snapshot)):
            self._rebuilt(snapshot.calibrated, encoding)  # where another process builds, what its index needs stays
        else:
            self.store.trim(snapshot.sequence)
        self._drop_others(self)

    def problems(self) -> list[str]:
        """Return what is wrong with the index on the disk, every byte of which is read; what is damaged is replaced."""
        try:
            found = self.damaged()
        except CannotReach as error:
            return [str(error)]
        if found:
            self.served = None  # it may be what is damaged
            self.latest()
            self._drop_others(self)
        return found

    def _maintain(self, snapshot: Snapshot) -> None:
        """Start what should be done in the background, if anything."""
        if not self.follows or not self.writable or self.refitting or self.checked == snapshot.sequence:
            return
        self.checked = snapshot.sequence  # what fails is not tried again before the documents change
        if snapshot.unknown(self.store) or self.drifted(snapshot.calibrated.fitted.statistics):
            over = snapshot.calibrated.version or self.version()
            self._in_background(
                lambda builder: builder.made(builder.requested_spec, means=builder.given_means(), over=over)
            )
        elif snapshot.needs_rebuild or self.other_index(snapshot):
            self._in_background(lambda builder: builder.built(snapshot.calibrated, trim=False))

    def _in_background(self, make: Callable[[SnapshotBuilder], Snapshot], version: int | None = None) -> None:
        """Make a snapshot on a connection of its own, follow what has changed meanwhile, and serve it.

        ``version`` is a calibration that is published already: where it cannot be made, what is served stays.
        """

        def work() -> None:
            encoding = encodings(self.store.database)
            try:
                with self.store.again() if self.writable else nullcontext(self.store) as store:
                    self._make_and_serve(make, SnapshotBuilder(self.opened, store, self.spec), encoding)
                self.last_error = ""
            except (
                IsthmusError,
                OSError,
                RuntimeError,
                ValueError,
            ) as error:  # RuntimeError: the interpreter is ending
                moved = isinstance(error, Superseded) or encodings(self.store.database) != encoding  # work for nothing
                self.last_error = "" if moved else str(error)
                self._stand_in(version)
            finally:
                self.loading.clear()

        if version is not None:
            self.loading.add(version)
        if not self.worker.start(work) and version is not None:
            self.loading.discard(version)  # busy: the next search tries again

    def _make_and_serve(
        self, make: Callable[[SnapshotBuilder], Snapshot], builder: SnapshotBuilder, encoding: int
    ) -> None:
        builder.coming = self.loading
        made = make(builder)
        with builder.store.database.reading():
            if made.calibrated.version != builder.version():
                return  # another was published meanwhile
            state = builder.store.state()
            if not builder.store.passed(made.state):
                return  # another thread has served a newer one, and trimmed what this one would need to follow
            self._serve(made if made.state == state else made.followed(builder.store, state), encoding)
        if builder.on_disk(made):
            builder.store.trim(made.sequence)
        self._drop_others(builder)

    def _stand_in(self, version: int | None) -> None:
        """Keep serving the current snapshot in place of a calibration that cannot be loaded."""
        with self._pointer:
            if version is not None and self.served is not None:
                self.served = replace(self.served, version=version)

    def wait(self) -> None:
        """Wait for the maintenance that is running."""
        self.worker.wait()


def _covers(fitted: Fitted, other: Fitted) -> bool:
    """Whether one knows every modality that the other knows."""
    documents = set(other.document_modalities) <= set(fitted.document_modalities)
    return documents and set(other.query_modalities) <= set(fitted.query_modalities)


def _one(modality: str, dim: int) -> Vectors:
    return Vectors({part: np.ones((1, dim), dtype=np.float32) for part in modality.split("+")})
