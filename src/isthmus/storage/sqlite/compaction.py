"""Giving room back: deleted and replaced documents leave holes in the store's file, and lists that only grow are cut.

    shrink     after a change, where so much is wasted that it pays: the file is written anew without holes
    compact    the same when it is asked for; the index of words is put in order as well, or made again where it does
               not match the texts

Writing a store anew takes about as long as copying it twice, and twice as much free disk: SQLite makes a copy in its
folder for temporary files (``SQLITE_TMPDIR``, else ``/var/tmp``), and moves it through the journal beside the store.
Searches go on meanwhile; who wants to write waits. Killed at any time, the file is the old one or the new one.

Rows of ``gone`` and ``states`` are needed by whoever has an older index; ``Store.trim`` cuts what is older than the
index on the disk. A process that is even further behind reads that one.
"""

from __future__ import annotations

import shutil
from contextlib import closing, suppress

from isthmus.errors import CannotWrite
from isthmus.storage.base import Compacted
from isthmus.storage.sqlite import schema
from isthmus.storage.sqlite.database import Database
from isthmus.storage.sqlite.words import words_match

LEAST = 16 << 20  # bytes that must be wasted before the file is written anew without being asked
SHARE = 1 / 3  # of the file, at least


def shrink(database: Database) -> None:
    """Write the file anew if so much of it is wasted that it pays; where the disk has no room for that, leave it."""
    deleted = int(database.manifest("deleted").get("deleted", 0))
    names = ("page_size", "page_count", "freelist_count")
    page, count, free = (int(database.one(f"PRAGMA {name}")[0]) for name in names)
    if not deleted or page * count < LEAST:
        return
    there = int(database.one("SELECT count(*) FROM documents")[0])
    wasted = max(free, count * deleted / (deleted + there))  # free pages, or holes in pages that are still used
    if page * wasted < LEAST or wasted < SHARE * count:
        return
    try:
        if shutil.disk_usage(database.path.parent).free < 2 * page * count:
            raise CannotWrite("there is no room for a copy and its journal")
        forget_history(database)
        _vacuum(database)
    except CannotWrite:
        with suppress(CannotWrite), database.writing(wait=False) as connection:
            schema.put(connection, deleted=0)  # not tried again before as much is wasted once more


def forget_history(database: Database) -> None:
    """Forget which rows were deleted when: whoever has an older index makes it again."""
    with database.writing() as connection:
        connection.execute("DELETE FROM gone")
        connection.execute("DELETE FROM states WHERE sequence < ?", (database.sequence(),))


def compact(database: Database) -> Compacted:
    """Write the whole store anew, without holes."""
    _checkpoint(database)
    before = database.path.stat().st_size
    rebuilt = _mend_words(database)
    _vacuum(database)
    return Compacted(before, database.path.stat().st_size, rebuilt)


def _mend_words(database: Database) -> bool:
    """Merge the segments of the index of words; where it does not match the texts, make it again."""
    damaged = not words_match(database)
    with database.writing() as connection:
        connection.execute("INSERT INTO words (words) VALUES (?)", ("rebuild" if damaged else "optimize",))
    return damaged


def _vacuum(database: Database) -> None:
    """Write the file anew, on a connection of its own that keeps the copy on the disk, not in memory."""
    with database.lock, database.explained():
        with closing(database.connect()) as connection:
            connection.execute("PRAGMA temp_store = FILE")
            connection.execute("VACUUM")
        with database.writing() as written:
            schema.put(written, deleted=0)
    _checkpoint(database)


def _checkpoint(database: Database) -> None:
    """Move what the journal holds into the file, unless somebody reads an older state: then it is moved later."""
    with database.lock, database.explained(), closing(database.connect()) as connection:
        connection.execute("PRAGMA busy_timeout = 0")  # readers are not waited for
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
