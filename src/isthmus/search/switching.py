"""The last step of a re-encoding: all that was made for the new vectors takes the place of the old, in one transaction.

Whoever has the collection open sees it as it was, or as it is then: see ``Opened.steadily``.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing

from isthmus.calibration import Statistics
from isthmus.encoders import Encoder
from isthmus.errors import BadFile, CannotFit
from isthmus.search import versions
from isthmus.search.keeper import Keeper
from isthmus.search.manifest import Opened
from isthmus.search.served import Served
from isthmus.search.staging import Staging
from isthmus.search.store import Store, several
from isthmus.search.writer import Skipped

ADOPT = (
    "DELETE FROM vectors",
    "INSERT INTO vectors (document, part, passage, start, stop, vector) "
    "SELECT document, part, passage, start, stop, vector FROM fresh.vectors v "
    "WHERE document IN (SELECT row FROM documents) ORDER BY document, v.row",
    "UPDATE documents SET (modality, text_hash, image_hash, own_hash, checksum) = (SELECT f.modality, f.text_hash, "
    "f.image_hash, f.own_hash, f.checksum FROM fresh.documents f WHERE f.row = documents.row)",
    "INSERT OR REPLACE INTO manifest SELECT name, value FROM fresh.manifest "
    "WHERE name IN ('encoder', 'identity', 'dim', 'statistics')",
    "INSERT OR IGNORE INTO manifest VALUES ('encoding', 0)",
    "UPDATE manifest SET value = value + 1 WHERE name IN ('encoding', 'sequence')",
)
LEFT = "SELECT count(*) FROM documents WHERE row NOT IN (SELECT row FROM fresh.documents)"


def switch(keeper: Keeper, begun: Staging, name: str, encoder: Encoder, dropped: Sequence[Skipped]) -> None:
    """Calibrate on the new vectors, then serve them; ``dropped`` documents, which have none, are deleted."""
    opened, asked = keeper.opened, keeper.asked_spec
    with closing(begun.whole()) as whole:
        new = Opened(opened.folder, whole, name, opened.device, opened.threads, encoder, opened.encoding)
        served = _calibrated(Keeper(new, Store(whole), keeper.spec, follows=False), begun, asked)
    with closing(begun.attached()) as database, opened.guard:  # nobody loads the new encoder before it is put there
        with database.writing() as connection:
            _delete(connection, Store(database), dropped)
            if connection.execute(LEFT).fetchone()[0]:
                raise BadFile(f"{opened.folder} was written to while it was re-encoded. Run it again.")
            for statement in ADOPT:
                connection.execute(statement)
            versions.replace_all(connection, served.calibrated if served else None, asked)
        opened.moved()
        opened.encoder = encoder


def _calibrated(keeper: Keeper, begun: Staging, asked: str) -> Served | None:
    """Calibrate the collection as it will be: as it was told to, or by ``auto`` where that does not fit any more."""
    statistics = Statistics({})
    for block in keeper.store.blocks():
        statistics = statistics.add(block.vectors, block.owner)
    with begun.database.writing() as connection:
        connection.execute("INSERT OR REPLACE INTO manifest VALUES ('statistics', ?)", (statistics.to_bytes(),))
    if not keeper.store.count():
        return None
    try:
        return keeper.fitted(asked, keep=True)
    except CannotFit:
        return keeper.fitted("auto", keep=True)


def _delete(connection: sqlite3.Connection, store: Store, dropped: Sequence[Skipped]) -> None:
    """Take documents out; the files they came from are listed as skipped, and read again by the next `index`."""
    why = {one.id: one.why for one in dropped}
    for some in several(list(why)):
        marks = ",".join("?" * len(some))
        units = f"FROM documents d JOIN units u ON u.number = d.unit WHERE d.id IN ({marks})"
        for number, root, key, name in connection.execute(
            f"SELECT u.number, u.root, u.key, d.id {units}", some
        ).fetchall():
            connection.execute("INSERT INTO skipped VALUES (?, ?, ?, ?)", (root, key, name, why[name]))
            connection.execute("UPDATE units SET stamp = NULL WHERE number = ?", (number,))
    store.remove(connection, list(why))
