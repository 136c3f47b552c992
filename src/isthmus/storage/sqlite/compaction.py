"""Free disk space: deleted and replaced documents leave unused space in the store's file, and some lists only grow.

    shrink     after a change, if enough space is unused: the file is rewritten without it
    compact    the same on request; the word index is optimized as well, or rebuilt if it does
               not match the texts

Rewriting a store takes about as long as copying it twice, and free disk space of twice its size: SQLite makes a copy in
its folder for temporary files (``SQLITE_TMPDIR``, else ``/var/tmp``), and moves it through the journal next to the
store. Searches continue meanwhile; writers wait. Killed at any time, the file is the old one or the new one.

A process with an older index needs rows of ``gone`` and ``states``; ``Store.trim`` deletes those older than the index
on disk. A process that is even further behind reads that index.
"""

from __future__ import annotations

import shutil
from contextlib import closing, suppress

from isthmus.errors import CannotWrite
from isthmus.storage.base import Compacted
from isthmus.storage.sqlite import schema
from isthmus.storage.sqlite.database import Database
from isthmus.storage.sqlite.words import words_match

LEAST = 16 << 20  # bytes that must be unused before the file is rewritten automatically
SHARE = 1 / 3  # of the file, at least


def shrink(database: Database) -> None:
    """Rewrite the file if enough of it is unused; do nothing if the disk has too little space."""
    deleted = int(database.manifest("deleted").get("deleted", 0))
    if not deleted:
        return
    page, count = (int(database.one(f"PRAGMA {name}")[0]) for name in ("page_size", "page_count"))
    if page * count < LEAST:
        return
    free = int(database.one("PRAGMA freelist_count")[0])
    there = int(database.one("SELECT count(*) FROM documents")[0])
    wasted = max(free, count * deleted / (deleted + there))  # free pages, or unused space in other pages
    if page * wasted < LEAST or wasted < SHARE * count:
        return
    try:
        if shutil.disk_usage(database.path.parent).free < 2 * page * count:
            raise CannotWrite("there is no room for a copy and its journal")
        forget_history(database)
        _vacuum(database)
    except CannotWrite:
        with suppress(CannotWrite), database.writing(wait=False) as connection:
            schema.put(connection, deleted=0)  # not tried again until the same amount is unused again


def forget_history(database: Database) -> None:
    """Delete the list of deleted rows: a process with an older index rebuilds it."""
    with database.writing() as connection:
        connection.execute("DELETE FROM gone")
        connection.execute("DELETE FROM states WHERE sequence < ?", (database.sequence(),))


def compact(database: Database) -> Compacted:
    """Rewrite the whole store without unused space."""
    _checkpoint(database)
    before = database.path.stat().st_size
    rebuilt = _mend_words(database)
    _vacuum(database)
    return Compacted(before, database.path.stat().st_size, rebuilt)


def _mend_words(database: Database) -> bool:
    """Merge the segments of the word index; rebuild it if it does not match the texts."""
    damaged = not words_match(database)
    with database.writing() as connection:
        connection.execute("INSERT INTO words (words) VALUES (?)", ("rebuild" if damaged else "optimize",))
    return damaged


def _vacuum(database: Database) -> None:
    """Rewrite the file, on a separate connection that keeps the copy on disk, not in memory."""
    with database.lock, database.explained:
        with closing(database.connect()) as connection:
            connection.execute("PRAGMA temp_store = FILE")
            connection.execute("VACUUM")
        with database.writing() as written:
            schema.put(written, deleted=0)
    _checkpoint(database)


def _checkpoint(database: Database) -> None:
    """Move the journal into the file; if another process reads an older state, it is moved later."""
    with database.lock, database.explained, closing(database.connect()) as connection:
        connection.execute("PRAGMA busy_timeout = 0")  # do not wait for readers
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
