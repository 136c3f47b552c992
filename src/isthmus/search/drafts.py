"""A calibration that was being published on a server when its process ended: found again, and continued.

Its draft is in the store, and the rows that were published are counted in its publication. The next calibration that
asks for the same goes on with both: it neither fits nor writes them again. Documents that came meanwhile are folded by
it as by any calibration; if they have moved the means too far, it starts over.
"""

from __future__ import annotations

from isthmus import checksums
from isthmus.encoders import Encoder
from isthmus.errors import BadFile
from isthmus.search import versions
from isthmus.search.publisher import Publisher
from isthmus.search.snapshot import Calibrated
from isthmus.storage.protocols import Store


def request_of(spec: str, store: Store, encoder: Encoder | None) -> str:
    """Return a checksum of what is asked for: the spec, the queries that were given, and the encoder."""
    given = [value for pair in store.queries.given() for value in pair]
    return str(checksums.of_values(spec, encoder.identity if encoder else None, *given))


def begun(store: Store, publisher: Publisher | None) -> Calibrated | None:
    """Return the newest draft of which rows are published; None if there is none."""
    served = store.calibrations.served()
    drafts = [] if publisher is None else [one for one in store.calibrations.versions() if one > served]
    for version in reversed(drafts):
        try:
            found = versions.read(store.calibrations, version)
        except BadFile:
            continue
        if found.request and publisher is not None and publisher.begun(found, store):
            return found
    return None
