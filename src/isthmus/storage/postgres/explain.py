"""PostgreSQL's errors as errors that say what happened and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from isthmus.errors import BadFile, BadInput, CannotReach, CannotWrite, IsthmusError
from isthmus.storage.conflicts import WriteConflict

if TYPE_CHECKING:
    import psycopg

CONFLICTS = ("40001", "40P01")  # serialization failure, deadlock
MISSING = ("42P01", "3F000", "42703")  # a table, a schema, a column
PRIVILEGE = "42501"
READ_ONLY = "25006"
TOO_MANY = ("too many c", "connection slots")  # clients or connections; no state comes with it
TIMEOUTS = ("57014", "25P03", "25P04")  # of a statement, of an idle transaction, of a whole one
LOCKED = "55P03"
NOT_CONNECTED = "08001"


def explained(error: psycopg.Error, place: str) -> IsthmusError:  # noqa: C901 - one line for each state
    """Return an error that says what PostgreSQL's error means here, and what to do."""
    state, said = error.sqlstate or "", first_line(error)
    if "conflict with recovery" in said:
        return CannotReach(
            f"{place}: the replica cancelled the read, because it was behind and had to catch up ({said}). Try again, "
            "or set hot_standby_feedback on it."
        )
    if state in CONFLICTS:
        return WriteConflict(f"{place}: another transaction was in the way ({said}). Nothing was changed. Try again.")
    if state == "53100" or state == "53400" or "No space left" in said:
        return CannotWrite(
            f"{place} cannot grow: the server's disk is full ({said}). Nothing acknowledged is lost. Make room and run "
            "it again."
        )
    if state in TIMEOUTS:
        return CannotReach(
            f"{place}: the server stopped a statement ({said}). Try again, or raise statement_timeout for this role."
            if state == TIMEOUTS[0]
            else f"{place}: the server ended a transaction ({said}). Try again, or raise that timeout for this role."
        )
    if state == LOCKED:
        return CannotWrite(f"{place} is locked by another writer ({said}). Try again when it has finished.")
    if any(words in said for words in TOO_MANY):
        return CannotReach(
            f"{place}: the server takes no more connections ({said}). Close some, or raise max_connections or the "
            "limit of this role."
        )
    if state == READ_ONLY or "during recovery" in said:
        return CannotWrite(f"{place} cannot be written to ({said}). Name the primary server, not a replica.")
    if state == PRIVILEGE:
        return CannotWrite(f"{place}: this role may not do that ({said}). docs/postgres.md lists what a role needs.")
    if state in MISSING:
        return BadFile(
            f"{place} is not whole: {said}. If the collection was deleted, open it again to make a new one; else "
            "restore it from a backup."
        )
    if state.startswith("XX"):
        return BadFile(f"{place} is damaged ({said}). Nothing was changed. Restore it from a backup, or index again.")
    if _is_connection(error, state):
        return CannotReach(f"{place} cannot be reached ({said}). Check that the server runs, and try again.")
    if state.startswith("22") or "NUL" in said:
        return BadInput(f"{place} cannot store that: {said}.")
    return BadFile(f"{place}: {said}.")


def uncertain(error: psycopg.Error, place: str) -> CannotReach:
    """Return the error of a connection that was lost while a transaction was being committed."""
    return CannotReach(
        f"{place}: the connection was lost while a change was being committed ({first_line(error)}). It was stored "
        "whole or not at all. Run it again: what is stored already stays as it is."
    )


def _is_connection(error: psycopg.Error, state: str) -> bool:
    import psycopg

    return state.startswith(("08", "57P", "53", "28", "3D")) or isinstance(error, psycopg.OperationalError)


def first_line(error: psycopg.Error) -> str:
    """Return the first line of what the server says."""
    primary = error.diag.message_primary or str(error)
    if error.sqlstate == NOT_CONNECTED and error.diag.message_detail:  # between two servers; the detail says which
        primary = f"{primary}: {error.diag.message_detail.splitlines()[0]}"
    return " ".join(primary.split())[:300].rstrip(".") or type(error).__name__
