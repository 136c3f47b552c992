"""Build snapshots: fit a calibration, fold every document by it, and write the indexes to disk if possible.

Nothing here serves a search. ``SnapshotManager`` does, and runs this on the calling thread (``calibrate``,
``refresh``, ``compact``) or on the maintenance thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, sleep
from typing import TypeAlias

import numpy as np

from isthmus import calibration
from isthmus.calibration import Fitted, Statistics
from isthmus.errors import BadFile, CannotFit, CannotReach, CannotWrite, IsthmusError
from isthmus.index import AUTO, fits
from isthmus.kinds import TEXT
from isthmus.search import calibrate, drafts, hybrid, index_folder, query_log, references, versions
from isthmus.search.calibrate import Means
from isthmus.search.copy_record import COPY, check_finished
from isthmus.search.handle import NO_ENCODER, Handle, encodings
from isthmus.search.index_folder import Origin
from isthmus.search.publisher import PUBLICATIONS, Publisher
from isthmus.search.snapshot import Calibrated, FoldedBlock, ModalityIndex, Snapshot, folded, in_memory, unknown
from isthmus.storage.base import State
from isthmus.storage.protocols import Store
from isthmus.storage.sqlite.database import ChangedMeanwhile
from isthmus.types import Vectors

INDEX_KIND = "index_kind"  # its name in the manifest
DRIFT = 0.2  # radii that a part's mean may move before a re-fit is worth its cost
GROWTH = 2.0  # times as many vectors of a part as at the fit
LONGEST_WAIT, PAUSE = 60.0, 0.1  # seconds, for another process that publishes; between two looks

Progress: TypeAlias = Callable[[int, int], None]  # (done, of how many)


class Superseded(ChangedMeanwhile):
    """Another process has calibrated, or published, since this thread began to read: its work is there to be read."""


@dataclass(slots=True, eq=False)
class SnapshotBuilder:
    """Makes snapshots of one store."""

    opened: Handle
    store: Store
    spec: str = "auto"  # what a first calibration is
    coming: set[int] = field(default_factory=set, init=False)  # calibrations that this process will serve in a moment

    @property
    def folder(self) -> Path | None:
        """The folder for index files; None if the engine has none."""
        return self.store.folder

    @property
    def publisher(self) -> Publisher | None:
        """What publishes the folded vectors on a server; None if they are kept here."""
        return self.opened.publisher

    @property
    def writable(self) -> bool:
        """Whether this process may change the collection."""
        return self.store.database.writable

    @property
    def requested_spec(self) -> str:
        """The spec that was requested for the collection, or ``auto``."""
        return self.store.calibrations.spec() or self.spec

    def given_means(self) -> Fitted | None:
        """Return the published calibration if its means were given, of every part: a re-fit keeps them."""
        version = self.version()
        fitted = versions.read(self.store.calibrations, version).fitted if version else None
        if fitted is None or not fitted.given_means:
            return None
        return fitted if self.store.statistics().parts.keys() <= fitted.statistics.parts.keys() else None

    @property
    def index_kind(self) -> str:
        """The kind of index that was requested for the collection, or ``auto``."""
        return str(self.store.database.manifest(INDEX_KIND).get(INDEX_KIND, AUTO))

    def use_index(self, kind: str) -> None:
        """Keep a kind of index for this build and later ones."""
        if kind != self.index_kind:
            with self.store.database.writing() as transaction:
                self.store.database.put(transaction, **{INDEX_KIND: kind})

    def other_index(self, snapshot: Snapshot) -> bool:
        """Whether a snapshot's indexes are not of the requested kind, or not where they should be."""
        if self.publisher is not None:
            return bool(snapshot.built) and not snapshot.is_published
        kind, local = self.index_kind, [one for one in snapshot.built if isinstance(one, ModalityIndex)]
        return not all(fits(one.engine.kind, kind, *one.vectors.shape) for one in local)

    def version(self) -> int:
        """Return the number of the published calibration, 0 for none."""
        return self.store.calibrations.served()

    def read(self, version: int) -> Calibrated:
        """Read a calibration from the store."""
        return versions.read(self.store.calibrations, version)

    def published(self) -> Calibrated | None:
        """Read the published calibration; None before the first."""
        with self.store.database.reading():
            version = self.version()
            return self.read(version) if version else None

    def own_queries(self) -> references.Own:
        """Return the user's own queries: those that were given to an earlier calibration, and those logged."""
        without = self.opened.name == NO_ENCODER  # there is no encoder for them
        return [] if without else query_log.kept(self.store.queries)

    def drifted(self, fitted_on: Statistics) -> bool:
        """Whether a re-fit is worth its cost: a mean has moved since the fit, or a part has grown much."""
        now = self.store.statistics()
        before = fitted_on.parts
        if not now.parts or not before:
            return False
        grown = any(now.parts[part].count > GROWTH * before[part].count for part in now.parts if part in before)
        return grown or max(calibration.drift(fitted_on, now).values()) > DRIFT

    @contextmanager
    def building(self) -> Iterator[bool]:
        """Hold the lock of indexes; yields whether this thread has it, and may write them, or publish vectors."""
        if not self.writable or (self.folder is None and self.publisher is None):
            yield False
            return
        with self.store.building() as mine:
            yield mine

    @contextmanager
    def _publishing(self) -> Iterator[bool]:
        """Hold the lock of indexes as ``building`` does; where vectors are published, wait for it.

        Without the lock an index is built in memory, where the vectors of a collection on a server may not fit.
        """
        late = monotonic() + LONGEST_WAIT
        while True:
            with self.building() as mine:
                if mine or self.publisher is None or not self.writable:
                    yield mine
                    return
            if monotonic() > late:
                raise CannotWrite(
                    f"Another process has been publishing vectors of {self.opened.folder} for {LONGEST_WAIT:.0f} "
                    "seconds. Try again when it is done."
                )
            sleep(PAUSE)

    def sweep(self) -> None:
        """Remove drafts of indexes and calibrations that killed processes left, unless another process writes one.

        A draft that the next calibration may continue stays; so does everything while the server does not answer.
        """
        there, version = index_folder.entries(self.folder), self.version()
        newer = max(self.store.calibrations.versions(), default=0) > version
        alone = len(there) <= 1 and there == index_folder.of_version(there, version)
        published = 0 if self.publisher is None else len(self.publisher.records())
        if alone and not newer and published <= 1:
            return  # as nearly always: no lock is needed
        with self.building() as mine, suppress(CannotReach):
            if mine:
                index_folder.keep_only(self.folder, self._newest() if self.publisher is None else None)
                unfinished = drafts.begun(self.store, self.publisher)
                self.store.calibrations.forget_drafts(keep=unfinished.version if unfinished else 0)
                self.sweep_publications()

    def sweep_publications(self) -> None:
        """Drop publications but those of the served calibration, and of one to continue; the caller holds the lock.

        All stay while the server does not answer.
        """
        version = self.version()
        with suppress(CannotReach):
            if self.publisher is None or len(self.publisher.records()) < 2:
                return
            kept = [drafts.begun(self.store, self.publisher), self.read(version) if version else None]
            self.publisher.sweep([one.identity for one in kept if one is not None])

    def _newest(self) -> str | None:
        """Return the name of the newest index that is of this history, by its description."""
        for place in index_folder.places(self.folder, self.version()):
            try:
                about = index_folder.described(place)
                if self.store.passed(State(int(about["sequence"]), str(about["token"]))):
                    return place.name
            except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
                continue
        return None

    def on_disk(self, snapshot: Snapshot) -> bool:
        """Whether the index on the disk, or on the server, is of the same state as a snapshot."""
        if self.publisher is not None:
            return snapshot.is_published and not snapshot.has_changed
        name = Origin.of(snapshot.calibrated, snapshot.state, snapshot.last).name
        return name in [place.name for place in index_folder.places(self.folder, self.version())]

    def damaged(self) -> list[str]:
        """Return what is wrong with the indexes on the disk, every byte of which is read, or with those on a server."""
        found: list[str] = []
        with self.store.database.reading():
            version = self.version()
            try:
                calibrated = self.read(version)
            except BadFile:
                return []  # there is none yet, or it is damaged, which others report
            if self.publisher is not None:
                found = self.publisher.problems(calibrated, self.store)
                if found and self.writable:
                    self.publisher.forget(calibrated)
                return found
            for place in index_folder.places(self.folder, version):
                try:
                    index_folder.read(place, calibrated)
                except index_folder.OtherHistory:
                    continue
                except IsthmusError as error:
                    found.append(str(error))
        return found

    def loaded(self, version: int) -> Snapshot | None:
        """Read the newest index of a calibration from the disk, or find it on the server; None where there is none."""
        calibrated = self.read(version)
        if self.publisher is not None:
            return self.publisher.loaded(calibrated, self.store)
        for place in index_folder.places(self.folder, version):
            try:
                snapshot = index_folder.read(place, calibrated)
            except (IsthmusError, OSError):
                continue  # damaged: made again from the store
            if self.store.passed(snapshot.state):  # else it is of a store that was since put back to an older state
                return snapshot
        return None

    def loaded_or_built(self, version: int) -> Snapshot:
        """Read the index of a calibration from the disk, or build it again."""
        found = self.loaded(version)
        if found is not None:
            return found
        calibrated = self.read(version)
        if unknown(calibrated.fitted, self.store):
            return Snapshot(calibrated, State(-1, ""), -1, ())  # following it shows what it cannot fold
        return self.built(calibrated)

    def built(self, calibrated: Calibrated, *, trim: bool = True) -> Snapshot:
        """Fold every document and put them in indexes: on the disk where we may write, else in memory.

        With ``trim`` the store forgets what only an older index needs to be followed.
        """
        lock = self.building if self._is_published(calibrated) else self._publishing
        with lock() as mine, self.store.database.reading():
            if mine and self.publisher is not None and calibrated.version:
                self._check_needed(calibrated.version)
            if not mine and self.publisher is not None:
                there = self.publisher.loaded(calibrated, self.store)  # another process brings it up to date
                if there is not None:
                    return there
            state, last = self.store.state(), self.store.last()
            snapshot = self._built_from(calibrated, state, last, on_disk=mine)
            if mine and calibrated.version == self.version() and self.on_disk(snapshot):
                self._keep_only(snapshot)
                if trim:
                    self.store.trim(snapshot.sequence)
        return snapshot

    def _check_needed(self, version: int) -> None:
        """Raise an error if another process has done the work before this one had the lock.

        A read that began earlier does not show that, so the manifest is read on a connection of its own.
        """
        names = ("calibration", PUBLICATIONS)
        with self.store.again() as store:
            now = store.database.manifest(*names)
        if int(now.get("calibration", 0)) != version or now != self.store.database.manifest(*names):
            raise Superseded(f"{self.opened.folder} was calibrated by another process meanwhile. Try again.")

    def _is_published(self, calibrated: Calibrated) -> bool:
        if self.publisher is None:
            return False
        with self.store.database.reading():
            return self.publisher.loaded(calibrated, self.store) is not None

    def _keep_only(self, snapshot: Snapshot) -> None:
        """Remove every index on the disk but one; publications are dropped when another one is served."""
        name = Origin.of(snapshot.calibrated, snapshot.state, snapshot.last).name
        index_folder.keep_only(self.folder, name if self.publisher is None else None)

    def _built_from(self, calibrated: Calibrated, state: State, last: int, *, on_disk: bool) -> Snapshot:
        kind = self.index_kind
        if calibrated.version and on_disk and self.publisher is not None:
            return self.publisher.published(calibrated, self.store, (state, last), self.opened.neighbours())
        if calibrated.version and on_disk and self.folder is not None:
            try:
                origin = Origin.of(calibrated, state, last)
                place = index_folder.write(self.folder, self.pieces(calibrated, last), origin, kind)
                return index_folder.read(place, calibrated)
            except (BadFile, CannotWrite, OSError):
                if self.store.database.closed:
                    raise
                # the disk is full, or fails: serve from memory
        return Snapshot(calibrated, state, last, in_memory(self.pieces(calibrated, last), kind))

    def pieces(self, calibrated: Calibrated, last: int) -> Iterator[FoldedBlock]:
        """Fold every document up to a row, block by block."""
        neighbours = self.opened.neighbours()
        for block in self.store.blocks(last=last):
            yield from folded(calibrated.fitted, block, calibrated.sources, neighbours)

    def made(
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
        """Fit a calibration on what is there now, build its indexes, fit P(match), and publish it.

        With ``keep``, and if the collection is writable, it is published for all processes, unless another one was
        published meanwhile; ``replacing`` replaces that as well. The next one is made by the spec ``asked`` (default:
        this spec). With ``over`` nothing is done unless that calibration is still the published one: ``Superseded``.
        What is published is in ``coming`` until the caller serves it.
        """
        keep = keep and self.writable
        encoding = encodings(self.store.database)
        with self._fitting(keep), self._publishing() if keep else nullcontext(False) as mine:
            if keep and over is not None:
                self._check_needed(over)
            with self.store.database.reading():
                before = None if replacing else self.version()
                if not self.store.count():
                    return self._nothing()
                snapshot = self.fitted(spec, own, keep=keep, on_disk=mine, means=means, progress=progress)
            calibrated = snapshot.calibrated
            if keep:
                with self._about_to_serve(calibrated.version):
                    versions.publish(self.store.calibrations, calibrated, asked or spec, over=before, encoding=encoding)
            if mine and self.version() == calibrated.version:
                self._keep_only(snapshot)
        return snapshot

    @contextmanager
    def _fitting(self, keep: bool) -> Iterator[None]:
        """Hold the right to publish a calibration, if it is to be kept; raise an error if another process has it."""
        with self.store.fitting() if keep else nullcontext(True) as mine:
            if not mine:
                raise CannotWrite(
                    f"{self.opened.folder} is being calibrated by another process. Searches use its calibration as "
                    "soon as it is done; to make another, try again then."
                )
            if keep:
                check_finished(self.store.database.manifest(COPY), self.opened.folder)
            yield

    def restored(self, version: int) -> Snapshot:
        """Build the indexes of an earlier calibration again and publish it, under a new number.

        What is published is in ``coming`` until the caller serves it.
        """
        encoding = encodings(self.store.database)
        with self._fitting(True), self._publishing() as mine:
            with self.store.database.reading():
                earlier = self.read(version)
                if missing := unknown(earlier.fitted, self.store):
                    raise CannotFit(
                        f"Calibration {version} was made before documents of {', '.join(sorted(missing))} came, and "
                        "has no place for them. Calibrate again."
                    )
                state, last = self.store.state(), self.store.last()
                calibrated = versions.draft(self.store.calibrations, replace(earlier, request=""))
                snapshot = self._built_from(calibrated, state, last, on_disk=mine)
            with self._about_to_serve(calibrated.version):
                spec = str(earlier.fitted.spec)
                versions.publish(self.store.calibrations, calibrated, spec, encoding=encoding)
            if mine and self.version() == calibrated.version:
                self._keep_only(snapshot)
        return snapshot

    @contextmanager
    def _about_to_serve(self, version: int) -> Iterator[None]:
        """Note that this process will serve a calibration: searches until then are answered by the one before."""
        self.coming.add(version)
        try:
            yield
        except BaseException:
            self.coming.discard(version)
            raise

    def fitted(
        self,
        spec: str,
        own: references.Own = (),
        *,
        keep: bool,
        on_disk: bool,
        means: Means = None,
        progress: Progress = lambda _, __: None,
    ) -> Snapshot:
        """Fit and build; with ``keep`` under a number of its own in the store, not served yet."""
        state, last = self.store.state(), self.store.last()
        trials = calibrate.STEPS
        steps = trials + 3  # references, trials, index, P(match)
        progress(0, steps)
        encoder = self.opened.load()
        gathered = references.gather(self.store, encoder, [*self.own_queries(), *own])
        progress(1, steps)
        plain = isinstance(spec, str) and not own and means is None  # `chosen` rejects what is no string
        request = drafts.request_of(spec, self.store, encoder) if plain else ""
        begun = self._to_continue(request) if keep and on_disk else None
        if begun is not None:
            calibrated = begun
        else:
            fitted = calibrate.chosen(spec, gathered, lambda done, of: progress(1 + done * trials // of, steps), means)
            fitted = replace(fitted, statistics=self.store.statistics())
            made = datetime.now(UTC).isoformat(timespec="seconds")
            sources = gathered.real.by_document()
            calibrated = Calibrated(0, state.sequence, made, fitted, None, sources, request=request)
            if keep:
                calibrated = versions.draft(self.store.calibrations, calibrated)
        progress(1 + trials, steps)
        built = self._built_from(calibrated, state, last, on_disk=on_disk)
        progress(2 + trials, steps)
        match = calibrate.matched(built, self.store, gathered, encoder)
        joined = hybrid.fit(built, self.store, gathered.real)
        progress(steps, steps)
        return replace(built, calibrated=replace(calibrated, match=match, hybrid=joined))

    def _to_continue(self, request: str) -> Calibrated | None:
        """Return the draft of a killed process that was asked for the same and still fits the documents; else None."""
        draft = drafts.begun(self.store, self.publisher)
        if draft is None:
            return None
        fits_still = not unknown(draft.fitted, self.store) and not self.drifted(draft.fitted.statistics)
        if draft.request == request and fits_still:
            return draft
        self.store.calibrations.forget_drafts()
        return None

    def _nothing(self) -> Snapshot:
        """Return an empty collection: nothing to fit, nothing to find."""
        one = Vectors.of(np.ones((1, 1), dtype=np.float32), TEXT)
        fitted = replace(calibration.fit("none", one, one), statistics=Statistics({}))
        return Snapshot(Calibrated(0, 0, "", fitted), self.store.state(), -1, ())
