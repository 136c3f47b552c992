"""Calibrate a store that isthmus did not build: write folded rows beside the old ones, and a fold for the queries.

    1. read the store once: statistics, a sample, hashes of the rows
    2. fit on the sample and on reference queries
    3. save the fold, then read the store again and write every row, folded, into the target
    4. save the hashes of what was written, as FOLD.rows

An update repeats 1. If the statistics have moved by more than ``DRIFT``, it fits again and writes every row; otherwise
it folds what was added or changed since, and deletes what is gone. While FOLD.rows is not there, the target is not
complete: an update after an interruption writes every row again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from isthmus import calibration
from isthmus.atomic import replacing
from isthmus.calibration.auto import default_spec
from isthmus.errors import BadFile, BadInput, BadSpec, CannotFit, CannotWrite, counted
from isthmus.registry import lookup
from isthmus.stores import references as reference_queries
from isthmus.stores.address import StoreAddress
from isthmus.stores.base import Batch, StoreDescription, StoreKind, VectorSource, VectorTarget
from isthmus.stores.fold import Fold, load
from isthmus.stores.kinds import open_source, open_target
from isthmus.stores.references import ReferenceVectors
from isthmus.stores.sampling import Modality, Progress, StorePass, batches, id_hash, no_progress, row_hashes, scan
from isthmus.types import Vectors

DRIFT = 0.2  # radii that a modality's mean may move before a re-fit, as in collections
AUTO = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """How a store is calibrated. ``metric``: of the new store; default: inner product where it has it."""

    spec: str = AUTO
    queries: Path | None = None
    query_modality: str
    metric: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreReport:
    """What was done."""

    source: str
    target: str
    fold: str
    spec: str
    metric: str
    rows: dict[str, int]  # by modality
    written: int
    deleted: int
    refitted: bool
    why: str  # a re-fit happened, or did not
    note: str  # on the reference queries


def calibrate(
    source: str, target: str, fold: Path, options: StoreOptions, *, progress: Callable[[str], Progress] | None = None
) -> StoreReport:
    """Write a calibrated copy of the vectors of ``source`` into ``target``, which must not exist."""
    with closing(_Work(source, target, fold, options, progress)) as work:
        if work.fold_path.exists():
            raise CannotWrite(
                f"{fold} exists. Name another file (--fold), or follow the changes of the store with --update."
            )
        if work.target.exists():
            raise CannotWrite(
                f"{work.target_address} exists, and nothing is overwritten. Name a new one, or follow the changes of "
                "the store with --update."
            )
        return work.write_all(work.scan(), why="a first calibration", delete=False)


def update(
    source: str, target: str, fold: Path, options: StoreOptions, *, progress: Callable[[str], Progress] | None = None
) -> StoreReport:
    """Follow the adds, changes and deletes of ``source`` since ``target`` was written."""
    with closing(_Work(source, target, fold, options, progress)) as work:
        return work.update()


class _Work:
    """A source and a target, open."""

    def __init__(
        self, source: str, target: str, fold: Path, options: StoreOptions, progress: Callable[[str], Progress] | None
    ) -> None:
        self.address, self.target_address = StoreAddress.read(source), StoreAddress.read(target)
        self.fold_path, self.options = fold, options
        self.progress = progress or (lambda _: no_progress)
        if str(self.address) == str(self.target_address):
            raise BadInput(f"{self.target_address} is the store itself. Folded vectors go into a new one.")
        _check_spec(options.spec)
        self.source: VectorSource = open_source(self.address)
        self.kind: StoreKind
        self.target: VectorTarget
        try:
            self.kind, self.target = open_target(self.target_address, self.source)
            self.metric = next(iter(self.kind.values)) if options.metric is None else options.metric
            lookup(self.kind.values, self.metric, f"metric of {self.target_address.kind}")
            self.description: StoreDescription = self.source.describe()
            self.modality = Modality(self.address, self.description.fields)
        except BaseException:
            self.source.close()
            raise

    def close(self) -> None:
        self.target.close()
        self.source.close()

    def scan(self) -> StorePass:
        return scan(self.source, self.description, self.modality, self.progress("reading"))

    def update(self) -> StoreReport:
        if not self.fold_path.exists():
            raise BadInput(
                f"{self.fold_path} does not exist. Calibrate once without --update, or name the file (--fold)."
            )
        fold = load(self.fold_path)
        if fold.target != str(self.target_address) or fold.source != str(self.address):
            raise BadInput(
                f"{self.fold_path} is of {fold.source} in {fold.target}. Name these stores, or another file (--fold)."
            )
        if not self.target.exists():
            raise BadInput(f"{self.target_address} does not exist. Calibrate without --update, with a new --fold file.")
        seen = self.scan()
        before = _read_rows(self.rows_path)
        moved = max(calibration.drift(fold.statistics, seen.statistics).values())
        if before is None:
            return self.write_all(seen, why="the last run was interrupted", delete=True)
        if moved > DRIFT:
            return self.write_all(seen, why=f"the vectors have drifted by {moved:.2f} radii", delete=True, old=fold)
        return self._follow(fold, seen, before, moved)

    def write_all(self, seen: StorePass, *, why: str, delete: bool, old: Fold | None = None) -> StoreReport:
        fold, note = self._fit(seen, old)
        self.rows_path.unlink(missing_ok=True)
        fold.save(self.fold_path)
        return self._write(fold, seen, None, delete, (True, why, note))

    def _follow(self, fold: Fold, seen: StorePass, before: NDArray[np.uint64], moved: float) -> StoreReport:
        known = {int(key): int(content) for key, content in before}
        changed = {int(key) for key, content in seen.rows if known.get(int(key)) != int(content)}
        why = f"the vectors have drifted by {moved:.2f} radii, less than {DRIFT}"
        gone = known.keys() - {int(key) for key in seen.rows[:, 0]}
        wanted = None if self.target.whole and (changed or gone) else changed
        return self._write(fold, seen, wanted, bool(gone), (False, why, ""))

    def _fit(self, seen: StorePass, old: Fold | None) -> tuple[Fold, str]:
        found = self._references(seen, old)
        asked = Vectors.of(found.vectors, self.options.query_modality)
        documents = seen.sample.documents()
        spec = default_spec(asked) if self.options.spec == AUTO else self.options.spec
        place = {str(name): row for row, name in enumerate(seen.sample.ids)}
        sources = [place[name] for name in found.ids] if found.ids else None
        fold = Fold(
            fitted=calibration.fit(spec, documents, asked, sources=sources),
            queries=asked.modalities[0],
            references=found.vectors,
            reference_ids=found.ids,
            statistics=seen.statistics,
            source=str(self.address),
            target=str(self.target_address),
            metric=self.metric,
            values=dict(self.kind.values),
        )
        return fold.with_radius(seen.sample.vectors, seen.sample.modality), found.note

    def _references(self, seen: StorePass, old: Fold | None) -> ReferenceVectors:
        """Return the queries of the file, those of the fold if it was made from a file, or rows of the store."""
        if self.options.queries is not None:
            return reference_queries.given(self.options.queries, self.description.dim)
        if old is not None and not old.reference_ids:
            return ReferenceVectors(old.references, note=f"the {counted(len(old.references), 'query')} of the last fit")
        return reference_queries.sampled(seen.sample, self.options.query_modality)

    def _write(
        self, fold: Fold, seen: StorePass, wanted: set[int] | None, delete: bool, fit: tuple[bool, str, str]
    ) -> StoreReport:
        """Write the rows whose ids have these hashes, or all; delete those that are gone."""
        self.rows_path.unlink(missing_ok=True)
        kept: list[NDArray[np.uint64]] = []
        written = 0
        if wanted is None or wanted:
            with self.target.writing(fold.width, fold.metric, self.description) as write:
                for batch in batches(self.source, self.description, self.progress("writing")):
                    some = batch if wanted is None else _picked(batch, wanted)
                    kept.append(row_hashes(batch))
                    if len(some):
                        write(_folded(fold, some, self.modality))
                        written += len(some)
        rows = np.concatenate(kept) if kept else seen.rows
        deleted = self._delete(rows) if delete and not self.target.whole else 0
        with replacing(self.rows_path) as draft, draft.open("wb") as file:
            np.save(file, rows)
        return StoreReport(
            source=str(self.address),
            target=str(self.target_address),
            fold=str(self.fold_path),
            spec=str(fold.fitted.spec),
            metric=fold.metric,
            rows=dict(seen.counts),
            written=written,
            deleted=deleted,
            refitted=fit[0],
            why=fit[1],
            note=fit[2],
        )

    def _delete(self, rows: NDArray[np.uint64]) -> int:
        there = set(rows[:, 0].tolist())
        gone = [key for some in self.target.ids() for key in some if id_hash(key) not in there]
        for start in range(0, len(gone), 1000):
            self.target.delete(gone[start : start + 1000])
        return len(gone)

    @property
    def rows_path(self) -> Path:
        """The file with the hashes of what was written."""
        return self.fold_path.with_name(self.fold_path.name + ".rows")


def _check_spec(spec: str) -> None:
    if spec == AUTO:
        return
    parsed = calibration.Spec.parse(spec)
    if parsed.dynamic or parsed.per_query is not None:
        raise BadSpec(f"'{spec}' does not fold into plain vectors. Use center, standardize, nnn or a chain of them.")
    if parsed.learned is not None:
        raise CannotFit(f"'{spec}' learns from right answers, which a store does not hold. Use {AUTO}.")


def _read_rows(path: Path) -> NDArray[np.uint64] | None:
    try:
        found = np.load(path, allow_pickle=False)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, EOFError) as error:
        raise BadFile(f"{path} is damaged: {error}. Remove it; the next update writes every row again.") from None
    return np.asarray(found, dtype=np.uint64)


def _picked(batch: Batch, wanted: set[int]) -> Batch:
    rows = [at for at, key in enumerate(batch.ids) if id_hash(key) in wanted]
    return _taken(batch, rows)


def _taken(batch: Batch, rows: Sequence[int]) -> Batch:
    texts = None if batch.texts is None else [batch.texts[at] for at in rows]
    return Batch([batch.ids[at] for at in rows], batch.vectors[rows], [batch.metadata[at] for at in rows], texts)


def _folded(fold: Fold, batch: Batch, modality: Modality) -> Batch:
    rows = fold.rows(batch.vectors, modality.of(batch), batch.ids)
    return Batch(batch.ids, rows, batch.metadata, batch.texts)
