"""The last step of a re-encoding: all that was made for the new vectors takes the place of the old, in one transaction.

Whoever has the collection open sees it as it was, or as it is then: see ``Opened.steadily``.
"""

from __future__ import annotations

from collections.abc import Sequence

from isthmus.calibration import Statistics
from isthmus.encoders import Encoder
from isthmus.errors import CannotFit
from isthmus.search import versions
from isthmus.search.keeper import Keeper
from isthmus.search.manifest import Opened, encodings
from isthmus.search.served import Served
from isthmus.search.writer import Skipped
from isthmus.storage.protocols import Staging


def switch(keeper: Keeper, begun: Staging, name: str, encoder: Encoder, dropped: Sequence[Skipped]) -> None:
    """Calibrate on the new vectors, then serve them; ``dropped`` documents, which have none, are deleted."""
    opened, asked = keeper.opened, keeper.asked_spec
    with begun.preview() as future:
        new = Opened(opened.folder, future, name, opened.device, opened.threads, encoder, opened.encoding)
        calibrating = Keeper(new, future, keeper.spec, follows=False)
        with calibrating.building() as mine:  # until it is served, or it would be swept away as a draft
            served = _calibrated(calibrating, begun, asked, mine)
            with opened.guard:  # nobody loads the new encoder before it is put there
                _adopt(opened, begun, served, asked, dropped)
                opened.moved()
                opened.encoder = encoder


def _adopt(opened: Opened, begun: Staging, served: Served | None, asked: str, dropped: Sequence[Skipped]) -> None:
    with begun.adopting(encodings(opened.database) + 1) as (store, transaction):
        why = {one.id: one.why for one in dropped}  # listed as skipped, and read again by the next `index`
        store.ledger.skip_documents(transaction, why)
        store.remove(transaction, list(why))
        versions.replace_all(store.calibrations, transaction, served.calibrated if served else None, asked)


def _calibrated(keeper: Keeper, begun: Staging, asked: str, on_disk: bool) -> Served | None:
    """Calibrate the collection as it will be: as it was told to, or by ``auto`` where that does not fit any more."""
    statistics = Statistics({})
    for block in keeper.store.blocks():
        statistics = statistics.add(block.vectors, block.owner)
    begun.measured(statistics, keeper.store.database.sequence())
    if not keeper.store.count():
        return None
    try:
        return keeper.fitted(asked, keep=True, on_disk=on_disk)
    except CannotFit:
        return keeper.fitted("auto", keep=True, on_disk=on_disk)
