"""Calibrate a store that isthmus did not build: write folded rows beside the old ones, and a fold for the queries.

    1. read the store once: statistics, a sample, hashes of the rows
    2. fit on the sample and on reference queries
    3. save the fold, then read the store again and write every row, folded, into the target; where that is a file,
       save the fold when it is complete
    4. save the hashes of what was written, as FOLD.rows

An update repeats 1. If the statistics have moved by more than ``DRIFT``, or another calibration or other queries are
asked for, it fits again and writes every row; otherwise it folds what was added or changed since, and deletes what is
gone. What is not asked for again stays as it was: calibration, queries, their kind, and always the metric. While
FOLD.rows is not there, the target is not complete: an update after an interruption writes every row again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from isthmus import calibration
from isthmus.atomic import replacing
from isthmus.calibration.auto import default_spec
from isthmus.errors import BadFile, BadInput, BadSpec, CannotFit, CannotWrite, counted
from isthmus.registry import lookup
from isthmus.stores import references as reference_queries
from isthmus.stores.address import StoreAddress
from isthmus.stores.base import Batch, Id, StoreDescription, VectorSource
from isthmus.stores.fold import Fold, load
from isthmus.stores.kinds import explained, open_source, open_target
from isthmus.stores.references import ReferenceVectors
from isthmus.stores.sampling import Modality, Progress, StorePass, batches, id_hash, no_progress, row_hashes, scan
from isthmus.types import Mask, Rows, Vectors

Hashes: TypeAlias = NDArray[np.uint64]
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
    with _opened(source, target, fold, options, progress) as work:
        if work.fold_path.exists():
            raise CannotWrite(
                f"{fold} exists. Name another file (--fold), or follow the changes of the store, or finish an "
                "interrupted run, with --update."
            )
        if work.target.exists():
            raise CannotWrite(
                f"{work.target_address} exists, and nothing is overwritten. Name a new one, or follow the changes of "
                "the store with --update."
            )
        return work.write_all(work.scan(), why="a first calibration")


def update(
    source: str, target: str, fold: Path, options: StoreOptions, *, progress: Callable[[str], Progress] | None = None
) -> StoreReport:
    """Follow the adds, changes and deletes of ``source`` since ``target`` was written."""
    with _opened(source, target, fold, options, progress) as work:
        return work.update()


@contextmanager
def _opened(
    source: str, target: str, fold: Path, options: StoreOptions, progress: Callable[[str], Progress] | None
) -> Iterator[_Work]:
    with explained(StoreAddress.read(source), StoreAddress.read(target)), ExitStack() as stack:
        yield _Work(source, target, fold, options, progress, stack)


class _Work:
    """A source and a target, open until the end of a stack."""

    def __init__(
        self,
        source: str,
        target: str,
        fold: Path,
        options: StoreOptions,
        progress: Callable[[str], Progress] | None,
        stack: ExitStack,
    ) -> None:
        self.address, self.target_address = StoreAddress.read(source), StoreAddress.read(target)
        self.fold_path, self.options = fold, options
        self.progress = progress or (lambda _: no_progress)
        if str(self.address) == str(self.target_address):
            raise BadInput(f"{self.target_address} is the store itself. Folded vectors go into a new one.")
        _check_spec(options.spec)
        self.source: VectorSource = stack.enter_context(closing(open_source(self.address)))
        self.kind, self.target = open_target(self.target_address, self.source)
        stack.callback(self.target.close)
        self.metric = next(iter(self.kind.values)) if options.metric is None else options.metric
        lookup(self.kind.values, self.metric, f"metric of {self.target_address.kind}")
        self.description: StoreDescription = self.source.describe()
        self.modality = Modality(self.address, self.description.fields)

    def scan(self) -> StorePass:
        return scan(self.source, self.description, self.modality, self.progress("reading"))

    def update(self) -> StoreReport:
        if not self.fold_path.exists():
            raise BadInput(
                f"{self.fold_path} does not exist. Calibrate once without --update, or name the file (--fold)."
            )
        old = load(self.fold_path)
        if old.target != str(self.target_address) or old.source != str(self.address):
            raise BadInput(
                f"{self.fold_path} is of {old.source} in {old.target}. Name these stores, or another file (--fold)."
            )
        before = _read_rows(self.rows_path)
        if before is not None and not self.target.exists():
            raise BadInput(f"{self.target_address} does not exist. Calibrate without --update, with a new --fold file.")
        self._keep_settings(old)
        seen = self.scan()
        why = "the last run was interrupted" if before is None else self._changed_request(old)
        moved = max(calibration.drift(old.statistics, seen.statistics).values())
        if why is None and moved > DRIFT:
            why = f"the vectors have drifted by {moved:.2f} radii"
        if before is None or why is not None:
            return self.write_all(seen, why=why or "", old=old)
        return self._follow(old, seen, before, moved)

    def _keep_settings(self, old: Fold) -> None:
        """Fit, if at all, as before where nothing else is asked for; the metric and the kind of query always stay."""
        if self.options.metric not in (None, old.metric):
            raise BadInput(
                f"{self.target_address} has the metric {old.metric}. Leave --metric out, or calibrate into a new store."
            )
        spec = str(old.fitted.spec) if self.options.spec == AUTO else self.options.spec
        self.options = replace(self.options, spec=spec, query_modality=old.queries, metric=old.metric)
        self.metric = old.metric

    def _changed_request(self, old: Fold) -> str | None:
        """Return what is asked for that the fold is not of; None if it is."""
        if str(calibration.Spec.parse(self.options.spec)) != str(old.fitted.spec):
            return f"another calibration was asked for than {old.fitted.spec}"
        given = None if self.options.queries is None else self._given(self.options.queries).vectors
        return None if given is None or np.array_equal(given, old.references) else "other queries were given"

    def write_all(self, seen: StorePass, *, why: str, old: Fold | None = None) -> StoreReport:
        """Fit on what was seen and write every row; with ``old``, delete the others that are there."""
        fold, note = self._fit(seen, old)
        if old is not None and fold.width != old.width and not self.target.whole:
            raise BadInput(
                f"{self.target_address} holds vectors of {old.width} numbers, and a calibration of what is there now "
                f"({', '.join(seen.counts)}) makes {fold.width}. Calibrate into a new store, with a new --fold file."
            )
        return self._write(fold, seen, None, None if old else np.empty(0, np.uint64), (True, why, note))

    def _follow(self, fold: Fold, seen: StorePass, before: Hashes, moved: float) -> StoreReport:
        known = before[np.argsort(before[:, 0], kind="stable")]
        place, is_known = _places(seen.rows[:, 0], known[:, 0])
        is_changed = ~is_known
        is_changed[is_known] = known[place[is_known], 1] != seen.rows[is_known, 1]
        changed = set(seen.rows[is_changed, 0].tolist())
        why = f"the vectors have drifted by {moved:.2f} radii, less than {DRIFT}"
        is_gone = not np.isin(known[:, 0], seen.rows[:, 0]).all()
        wanted = None if self.target.whole and (changed or is_gone) else changed
        return self._write(fold, seen, wanted, known[:, 0], (False, why, ""))

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
            return self._given(self.options.queries)
        if old is not None and not old.reference_ids:
            return ReferenceVectors(old.references, note=f"the {counted(len(old.references), 'query')} of the last fit")
        return reference_queries.sampled(seen.sample, self.options.query_modality)

    def _given(self, path: Path) -> ReferenceVectors:
        return reference_queries.given(path, self.description.dim)

    def _write(
        self, fold: Fold, seen: StorePass, wanted: set[int] | None, before: Hashes | None, fit: tuple[bool, str, str]
    ) -> StoreReport:
        """Write the rows whose ids have these hashes, or all; delete those that are gone.

        ``before``: hashes of the ids that the target has; None if that is not known. What changes in the store between
        two passes is left to the next update: a row is recorded as it was written.
        """
        refitted, whole = fit[0], self.target.whole
        if not whole:
            self.rows_path.unlink(missing_ok=True)
        if refitted and not whole:
            fold.save(self.fold_path)
        kept = [] if wanted is None else [_without(seen.rows, wanted)]
        written = 0
        if wanted is None or wanted:
            with self.target.writing(fold.width, fold.metric, self.description) as write:
                for batch in batches(self.source, self.description, self.progress("writing")):
                    some = batch if wanted is None else _picked(batch, wanted)
                    if len(some):
                        write(_folded(fold, some, self.modality))
                        kept.append(row_hashes(some))
                        written += len(some)
                self.rows_path.unlink(missing_ok=True)
        if refitted and whole:
            fold.save(self.fold_path)  # not before: until now the old file was there
        rows = np.concatenate([np.empty((0, 2), np.uint64), *kept])
        is_left = before is None or not np.isin(before, rows[:, 0]).all()
        deleted = self._delete(rows) if is_left and not whole else 0
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
            refitted=refitted,
            why=fit[1],
            note=fit[2],
        )

    def _delete(self, rows: Hashes) -> int:
        there, gone = np.sort(rows[:, 0]), list[Id]()
        for some in self.target.ids():
            hashes = np.array([id_hash(key) for key in some], dtype=np.uint64)
            gone += [key for key, stays in zip(some, _places(hashes, there)[1], strict=True) if not stays]
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


def _read_rows(path: Path) -> Hashes | None:
    try:
        found = np.load(path, allow_pickle=False)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, EOFError) as error:
        raise BadFile(f"{path} is damaged: {error}. Remove it; the next update writes every row again.") from None
    return np.asarray(found, dtype=np.uint64)


def _without(rows: Hashes, ids: set[int]) -> Hashes:
    return rows[~np.isin(rows[:, 0], np.fromiter(ids, np.uint64, len(ids)))]


def _places(hashes: Hashes, known: Hashes) -> tuple[Rows, Mask]:
    """Return where hashes are among known ones, which are sorted, and whether they are there."""
    if not len(known):
        return np.zeros(len(hashes), dtype=np.intp), np.zeros(len(hashes), dtype=bool)
    place = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
    return place, known[place] == hashes


def _picked(batch: Batch, wanted: set[int]) -> Batch:
    rows = [at for at, key in enumerate(batch.ids) if id_hash(key) in wanted]
    return _taken(batch, rows)


def _taken(batch: Batch, rows: Sequence[int]) -> Batch:
    texts = None if batch.texts is None else [batch.texts[at] for at in rows]
    return Batch([batch.ids[at] for at in rows], batch.vectors[rows], [batch.metadata[at] for at in rows], texts)


def _folded(fold: Fold, batch: Batch, modality: Modality) -> Batch:
    rows = fold.rows(batch.vectors, modality.of(batch), batch.ids)
    return Batch(batch.ids, rows, batch.metadata, batch.texts)
