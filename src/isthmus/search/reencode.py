"""Re-encoding a collection: every document's vectors become another encoder's, in one step at the end.

    documents ──new encoder──▸ staging    in batches, each committed: what is done is not done again     (staging.py)
    staging ──▸ statistics, a calibration and indexes of the new vectors, not served yet
    questions ──▸ the score before and after; a worse encoder is refused                              (comparison.py)
    one transaction ──▸ vectors, hashes, encoder and calibration are the new ones; the old are gone

A part whose tower is the same in both encoders keeps its vectors: from ``mini`` to ``base`` only pictures are encoded.

Searches go on with the old vectors until that transaction, also when it never comes. A document that changes between
two runs has a new row, and is encoded in the next.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace

from isthmus import encoders
from isthmus.calibration import Statistics
from isthmus.documents import Document
from isthmus.encoders import Encoder
from isthmus.encoders.abilities import HasIdentities, part_identity
from isthmus.encoders.items import reads
from isthmus.encoders.locations import EMBEDDED
from isthmus.errors import BadInput, CannotEncode, CannotFit, IsthmusError, WorseEncoder, counted
from isthmus.kinds import atoms
from isthmus.prefetch import prefetch
from isthmus.search import versions
from isthmus.search.comparison import Comparison, compare
from isthmus.search.handle import NO_ENCODER, Handle, encodings
from isthmus.search.ingest import Encoding, prepared
from isthmus.search.snapshot import Snapshot
from isthmus.search.snapshot_builder import Progress
from isthmus.search.snapshot_manager import SnapshotManager
from isthmus.search.writer import BATCH, Arrival, Skipped, batches, plain, room_for
from isthmus.storage.protocols import Staging, Store
from isthmus.storage.segments import Segment

PAGE = 32  # documents that are read at once, with the pictures that are kept here
SHOWN = 5  # documents that an error names


@dataclass(frozen=True, slots=True)
class Reencoded:
    """What a re-encoding did: into which encoder, how many documents now and in earlier runs, and those it deleted.

    ``already``: the collection had this encoder's vectors before, and nothing was done. ``score``: before and after.
    ``kept``: the parts that keep their vectors, because their tower is the same in both encoders.
    """

    encoder: str
    encoded: int = 0
    earlier: int = 0
    skipped: tuple[Skipped, ...] = ()
    already: bool = False
    score: Comparison | None = None
    kept: tuple[str, ...] = ()


def reencode(
    manager: SnapshotManager, wanted: str | Encoder, *, drop: bool, force: bool, progress: Progress
) -> Reencoded:
    """Re-encode a collection, by its only writer; ``Collection.reencode`` describes the arguments."""
    opened = manager.opened
    name = wanted if isinstance(wanted, str) else wanted.name
    if name == NO_ENCODER:
        raise BadInput("'none' encodes nothing. Name an encoder, or index into another folder with --encoder none.")
    encoder = encoders.open_named(wanted, opened.runtime.settings) if isinstance(wanted, str) else wanted
    if opened.database.manifest("identity").get("identity") == encoder.identity:
        _tidy(manager)
        _rename(opened, encoders.located(name))
        return Reencoded(name, already=True)
    if not drop:
        _refuse(name, _unreadable(manager.store, encoder), manager.store.count())
    begun = manager.store.stage(encoders.located(name), encoder)
    try:
        run = Run(manager.store, begun, encoder, progress, _unchanged(opened, encoder)).encode()
        if not drop or len(run.skipped) == run.total:
            _refuse(name, run.skipped, run.total)
        score = switch(manager, begun, Switch(encoders.located(name), encoder, run.skipped, force))
    finally:
        begun.close()
    _tidy(manager)
    kept = run.unchanged & {part for modality in manager.store.counts() for part in atoms(modality)}
    return Reencoded(name, run.encoded, run.earlier, tuple(run.skipped), score=score, kept=tuple(sorted(kept)))


def _rename(opened: Handle, name: str) -> None:
    """Store where the encoder is loaded from; its vectors are the same."""
    if opened.database.manifest("encoder").get("encoder") != name:
        with opened.database.writing() as connection:
            opened.database.put(connection, encoder=name)
        opened.name = name


def _tidy(manager: SnapshotManager) -> None:
    """Remove what is no longer needed: staged vectors that are served now, and indexes of the old vectors."""
    manager.store.drop_staged()
    manager.sweep()


def _unreadable(store: Store, encoder: Encoder) -> list[Skipped]:
    """Return the documents of which it is clear beforehand, not after hours, that the encoder does not read them."""
    found = store.other_modalities(encoder.modalities)
    known = reads(encoder.modalities)
    return [Skipped(name, f"its modality is {modality}; the encoder reads only {known}.") for name, modality in found]


def _unchanged(opened: Handle, encoder: Encoder) -> frozenset[str]:
    """Return the parts whose vectors are the same in both encoders; none where the old one cannot be loaded quickly."""
    old = opened.encoder
    if old is None and opened.name.partition(":")[0] in (*EMBEDDED, "onnx"):
        with suppress(IsthmusError, OSError):
            old = opened.load()
    if old is None or not isinstance(encoder, HasIdentities):
        return frozenset()
    return frozenset(part for part, identity in encoder.identities.items() if part_identity(old, part) == identity)


def _refuse(name: str, skipped: Sequence[Skipped], total: int) -> None:
    """Do not finish while documents cannot be encoded: they are only deleted with ``drop``."""
    if not skipped:
        return
    listed = " ".join(f"{one.id!r}: {one.why}" for one in skipped[:SHOWN])
    more = f" And {len(skipped) - SHOWN:,} more." if len(skipped) > SHOWN else ""
    rest = "" if len(skipped) == total else " To delete them instead, use --drop (drop=True)."
    raise CannotEncode(
        f"{len(skipped):,} of {counted(total, 'document')} cannot be encoded by {name}, so the collection was not "
        f"changed. {listed}{more} Restore their files, or change or delete these documents, and run it again: it "
        f"continues where it stopped.{rest}",
        [(one.id, one.why) for one in skipped],
    )


@dataclass(slots=True, eq=False)
class Run:
    """One run over the documents that have no new vectors yet."""

    store: Store
    staging: Staging
    encoder: Encoder
    progress: Progress
    unchanged: frozenset[str] = frozenset()  # parts that keep their vectors
    total: int = 0
    encoded: int = 0
    earlier: int = 0
    skipped: list[Skipped] = field(default_factory=list)

    def encode(self) -> Run:
        """Encode them, batch by batch; those that cannot be go to ``skipped``."""
        rows = self.store.rows()
        todo = self.staging.missing(rows)
        self.total, self.earlier = len(rows), len(rows) - len(todo)
        self.progress(self.earlier, self.total)
        self._encode_all(todo)
        if self.skipped:  # a picture whose file is gone may be held by a document that came later
            again, self.skipped = self.store.rows_of(one.id for one in self.skipped), []
            self._encode_all(sorted(again.values()))
        return self

    def _encode_all(self, rows: Sequence[int]) -> None:
        with closing(prefetch(self._arriving(rows), 2 * BATCH, lambda arrival: arrival.one.size)) as coming:
            for batch in batches(coming, lambda: room_for(self.encoder)):
                self._encode(batch)
                self.progress(self.earlier + self.encoded, self.total)

    def _arriving(self, rows: Sequence[int]) -> Generator[Arrival, None, None]:
        """Read documents, and hash what is to be encoded as it is now."""
        for start in range(0, len(rows), PAGE):
            page = rows[start : start + PAGE]
            found, described = self.store.documents(page), self.store.described(page)
            segments = self.store.segments(page) if self.unchanged else {}
            for row in page:
                try:
                    bare = _bare(found[row], described[row].modality)
                    one = bare if isinstance(bare, Skipped) else prepared(bare)
                except BadInput as problem:  # what an earlier version took
                    one = Skipped(found[row].id, str(problem))
                if isinstance(one, Skipped):
                    self.skipped.append(one)
                    continue
                known = zip(one.hashes, described[row].hashes, strict=True)
                hashes = tuple(now or then for now, then in known)  # a file may be gone
                same = {at for at, then in enumerate(described[row].hashes) if then is not None and hashes[at] == then}
                kept = tuple(each for each in segments.get(row, ()) if self._keeps(each, same))
                yield Arrival(replace(one, hashes=hashes, kept=kept))

    def _keeps(self, segment: Segment, same: set[int]) -> bool:
        """Whether a vector stays: its tower made it, of content that has not changed."""
        return segment.name in self.unchanged and not segment.own and same.issuperset(segment.parts)

    def _encode(self, batch: Sequence[Arrival]) -> None:
        def skip(place: int, problem: BadInput) -> None:
            self.skipped.append(Skipped(batch[place].id, plain(batch[place].id, problem)))

        encoding = Encoding(self.staging.store, lambda: self.encoder, self.encoder.dim)
        made = [entry for entry in encoding.entries([arrival.one for arrival in batch], skip) if entry is not None]
        rows = self.store.rows_of(entry.document.id for entry in made)
        self.staging.keep([(rows[entry.document.id], entry) for entry in made])
        self.encoded += len(made)


def _bare(document: Document, modality: str) -> Document | Skipped:
    """Return a document without the vectors that it brought: they belong to the old ones."""
    alone = sorted(set(atoms(modality)) - {part.kind for part in document.parts})
    if alone:
        why = f"it brought its own vector for its {' and '.join(alone)}, and holds nothing that could be encoded."
        return Skipped(document.id, why)
    return replace(document, vectors={})


@dataclass(frozen=True, slots=True, eq=False)
class Switch:
    """What to switch to: an encoder, without the ``dropped`` documents; with ``force`` also if it is worse."""

    name: str
    encoder: Encoder
    dropped: Sequence[Skipped] = ()
    force: bool = False


def switch(manager: SnapshotManager, begun: Staging, to: Switch) -> Comparison | None:
    """Calibrate on the new vectors, compare, then serve them; documents that have none are deleted."""
    opened, asked = manager.opened, manager.requested_spec
    with begun.preview() as future:
        new = Handle(opened.folder, future, to.name, opened.runtime, to.encoder, opened.encoding)
        new.publisher = opened.publisher
        calibrating = SnapshotManager(new, future, manager.spec, follows=False)
        with calibrating.building() as mine:  # until it is served, or it would be swept away as a draft
            snapshot = _calibrated(calibrating, begun, asked, mine)
            score = None if snapshot is None else compare(manager, snapshot, future, to.encoder)
            if score is not None and score.worse and not to.force:
                raise _worse(opened, to.name, score)
            with opened.guard:  # so no thread loads the new encoder before it is set
                _adopt(opened, begun, snapshot, asked, to.dropped)
                opened.reload_if_reencoded()
                opened.encoder = to.encoder
    return score


def _worse(opened: Handle, name: str, score: Comparison) -> WorseEncoder:
    return WorseEncoder(
        f"{name} is worse than {opened.name} here, so the collection was not changed: {score}. The new vectors are "
        f"kept: to switch all the same, run it with --force (force=True), which encodes nothing again. To delete them, "
        f"re-encode with {opened.name}.",
        score.before,
        score.after,
    )


def _adopt(opened: Handle, begun: Staging, snapshot: Snapshot | None, asked: str, dropped: Sequence[Skipped]) -> None:
    with begun.adopting(encodings(opened.database) + 1) as (store, transaction):
        why = {one.id: one.why for one in dropped}  # listed as skipped, and read again by the next `index`
        store.ledger.skip_documents(transaction, why)
        store.remove(transaction, list(why))
        versions.replace_all(store.calibrations, transaction, snapshot.calibrated if snapshot else None, asked)


def _calibrated(manager: SnapshotManager, begun: Staging, asked: str, on_disk: bool) -> Snapshot | None:
    """Calibrate the collection as it will be: by its requested spec, or by ``auto`` if that no longer fits."""
    statistics = Statistics({})
    for block in manager.store.blocks():
        statistics = statistics.add(block.vectors, block.owner)
    begun.measured(statistics, manager.store.database.sequence())
    if not manager.store.count():
        return None
    try:
        return manager.fitted(asked, keep=True, on_disk=on_disk)
    except CannotFit:
        return manager.fitted("auto", keep=True, on_disk=on_disk)
