"""Backups: a consistent copy of a collection as a folder of two files, made while others search and write.

    collection.sqlite   documents, vectors, calibrations, query log: one committed state, read by SQLite's backup API
    backup.json         its size, SHA-256 and number of documents

The index is left out: it is rebuilt from the store when the restored collection is first searched. Pictures and other
files that a document names by their path are not in the store, and not in the copy.

A backup and a restored collection are written to ``NAME.part`` and renamed when they are complete. A killed run leaves
that folder behind, and the next run with the same name deletes it. Nothing that exists is overwritten.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from isthmus import __version__
from isthmus.errors import BadFile, BadInput, CannotWrite, IsthmusError, shown
from isthmus.storage.sqlite.database import FILE, LOCK, Database
from isthmus.storage.sqlite.folder import FolderStore

NOTE = "backup.json"
FORMAT = 1
STEP = 1024  # pages that are copied at a time
CHUNK = 1 << 22  # bytes of a restored file that are copied at a time
LISTED = 3  # problems that a message repeats

Progress = Callable[[int, int], None]  # what is done, of how much


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """What a backup holds, as it is written to ``backup.json``."""

    documents: int
    sequence: int  # how many transactions had changed documents
    bytes: int
    sha256: str
    made: str
    version: str = __version__
    format: int = FORMAT


def back_up(folder: Path, out: Path, *, verify: bool = True, progress: Progress | None = None) -> Backup:
    """Copy a collection's store to the new folder ``out``, as of one moment; others may write meanwhile.

    ``verify`` reads the whole copy and raises ``BadFile`` if something in it is damaged. ``progress(done, pages)`` is
    called as pages are copied.
    """
    if not (folder / FILE).exists():
        raise BadInput(f"There is no collection at {folder}. Name the folder that `isthmus index` made.")
    writable = os.access(folder, os.W_OK) and os.access(folder / FILE, os.W_OK)
    with _draft_of(out) as draft:
        with closing(Database(folder, writable=writable)) as database:
            _copy(database, draft / FILE, progress or _ignore)
        documents, sequence = _counted(draft, folder, verify=verify)
        made = datetime.now(UTC).isoformat(timespec="seconds")
        size, digest = (draft / FILE).stat().st_size, _sha256(draft / FILE)
        note = Backup(documents=documents, sequence=sequence, bytes=size, sha256=digest, made=made)
        (draft / NOTE).write_text(json.dumps(asdict(note), indent=2) + "\n")
    return note


def restore(backup: Path, folder: Path, *, progress: Progress | None = None) -> Backup:
    """Make the collection ``folder`` from a backup; a damaged backup is refused and leaves nothing behind."""
    note = read_note(backup)
    with _draft_of(folder) as draft:
        try:
            size, digest = _copied(backup / FILE, draft / FILE, note.bytes, progress or _ignore)
        except FileNotFoundError:
            raise BadFile(f"{backup} has no {FILE}: a part of the backup is missing. Use another copy of it.") from None
        if (size, digest) != (note.bytes, note.sha256):
            raise BadFile(
                f"{backup / FILE} is damaged: it has not the size and SHA-256 that {NOTE} says. Nothing was restored. "
                "Use another copy of the backup."
            )
        _counted(draft, backup, verify=False)  # its version of the tables may be newer than this isthmus
    return note


def read_note(backup: Path) -> Backup:
    """Return what a backup says of itself."""
    try:
        read = json.loads((backup / NOTE).read_text(encoding="utf-8"))
        if read["format"] != FORMAT:
            raise BadFile(f"{backup} has the format {shown(read['format'])}. Restore it with a newer isthmus.")
        note = Backup(
            documents=int(read["documents"]),
            sequence=int(read["sequence"]),
            bytes=int(read["bytes"]),
            sha256=str(read["sha256"]),
            made=str(read["made"]),
            version=str(read["version"]),
        )
    except FileNotFoundError:
        raise BadInput(f"There is no backup at {backup}. Name the folder that `isthmus backup` wrote.") from None
    except BadFile:
        raise
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadFile(f"{backup / NOTE} cannot be read ({error}). Use another copy of the backup.") from None
    return note


def _copy(database: Database, path: Path, progress: Progress) -> None:
    """Copy one committed state; the open snapshot keeps it while others write."""
    with database.reading(), database.connected() as source, closing(sqlite3.connect(path)) as target:
        try:
            source.backup(target, pages=STEP, progress=lambda _, left, pages: progress(pages - left, pages))
        except sqlite3.Error as error:
            if any(word in str(error) for word in ("full", "disk I/O")):  # of the copy: the store is only read
                raise OSError(str(error)) from error
            raise


def _counted(draft: Path, origin: Path, *, verify: bool) -> tuple[int, int]:
    """Return the number of documents and of transactions in a copy of ``origin``, which is checked with ``verify``."""
    with closing(Database(draft)) as database:
        store = FolderStore(database)
        problems = store.problems() if verify else []
        if problems:
            more = f" and {len(problems) - LISTED} more" if len(problems) > LISTED else ""
            raise BadFile(
                f"{origin} is damaged: {' '.join(problems[:LISTED])}{more} Nothing was written. Repair it, or copy it "
                "as it is with --no-verify."
            )
        found = store.count(), database.sequence()
    with closing(sqlite3.connect(draft / FILE)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")  # one file, without a journal beside it
    return found


def _copied(source: Path, target: Path, size: int, progress: Progress) -> tuple[int, str]:
    """Copy a file; return the size and the hash of what was read."""
    digest, done = hashlib.sha256(), 0
    with source.open("rb") as old, target.open("wb") as new:
        while piece := old.read(CHUNK):
            new.write(piece)
            digest.update(piece)
            done += len(piece)
            progress(min(done, size), size)
    return done, digest.hexdigest()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _draft_of(target: Path) -> Iterator[Path]:
    """Yield an empty folder that becomes ``target``, which must not exist; two runs never write the same one.

    The lock is a file inside, so that it moves with the folder: a run that comes later finds another one.
    """
    from filelock import FileLock, Timeout  # late: only needed to write

    if target.exists():
        raise BadInput(f"{target} exists already, and nothing is overwritten. Name a new folder, or move it away.")
    draft = target.with_name(f"{target.name}.part")
    lock = FileLock(draft / LOCK, timeout=0)
    try:
        draft.mkdir(parents=True, exist_ok=True)
        with lock:
            _empty(draft)
            try:
                yield draft
                _flush(draft)
                draft.rename(target)  # an error if another run has made a folder with files there meanwhile
            except BaseException:
                shutil.rmtree(draft, ignore_errors=True)
                raise
        (target / LOCK).unlink(missing_ok=True)
    except Timeout:
        raise CannotWrite(f"{target} is being written by another process. Wait for it, or name a new folder.") from None
    except IsthmusError:
        raise
    except (OSError, ValueError, sqlite3.Error) as error:
        why = getattr(error, "strerror", None) or error
        raise CannotWrite(
            f"{target} cannot be written: {why}. Nothing was left behind. Name a folder of your own on a disk with "
            "enough space."
        ) from None


def _empty(draft: Path) -> None:
    """Delete what a killed run has left, except the lock, which is ours now."""
    for path in draft.iterdir():
        if path.name != LOCK:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _flush(draft: Path) -> None:
    """Wait until the disk has the files."""
    for path in (*draft.iterdir(), draft):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _ignore(*_: object) -> None:
    """Accept and ignore a report of progress."""
