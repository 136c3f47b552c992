"""What a copy remembers of itself, in its manifest: what it was copied from, how far it is, and whether it is complete.

An unfinished copy is not opened by anything but the next run of the same copy.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from isthmus.errors import UnfinishedCopy, counted
from isthmus.storage.base import Place, State
from isthmus.storage.protocols import Engine

COPY = "copy"  # its name in the manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyRecord:
    """The record of a copy; ``last`` is the row of the source up to which its documents are there."""

    source: str  # where the source was, without secrets
    state: State  # of the source's documents, when the last run began
    encoding: int  # how often the source had been re-encoded
    documents: int  # of the source
    last: int = -1
    done: int = 0  # documents that are there
    finished: State | None = None  # of the copy, when it was complete and verified

    def to_json(self) -> str:
        """Return it as the manifest keeps it."""
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, manifest: Mapping[str, Any]) -> CopyRecord | None:
        """Read the record in a manifest; None if it is not of a copy."""
        if COPY not in manifest:
            return None
        read = json.loads(manifest[COPY])
        finished = read["finished"] and State(**read["finished"])
        return cls(**{**read, "state": State(**read["state"]), "finished": finished})

    @classmethod
    def read(cls, database: Engine) -> CopyRecord | None:
        """Return the record of a store; None if it is not a copy."""
        return cls.of(database.manifest(COPY))


def check_finished(manifest: Mapping[str, Any], place: Place) -> None:
    """Reject a copy that is not complete."""
    record = CopyRecord.of(manifest)
    if record is not None and record.finished is None:
        raise UnfinishedCopy(
            f"{place} is an unfinished copy of {record.source}: {record.done:,} of "
            f"{counted(record.documents, 'document')}. Finish it: isthmus copy {record.source} {place}."
        )
