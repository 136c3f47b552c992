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
from isthmus.search import schema, versions
from isthmus.search.keeper import Keeper
from isthmus.search.manifest import Opened, encodings
from isthmus.search.served import Served
from isthmus.search.staging import Staging
from isthmus.search.store import Store, several
from isthmus.search.writer import Skipped

ADOPT = (
    "DELETE FROM vectors",
    "INSERT INTO vectors (document, part, passage, start, stop, vector, checksum) "
    "SELECT document, part, passage, start, stop, vector, checksum FROM fresh.vectors v "
    "WHERE document IN (SELECT row FROM documents) ORDER BY document, v.row",
    "UPDATE documents SET (modality, text_hash, image_hash, own_hash, checksum) = (SELECT f.modality, f.text_hash, "
    "f.image_hash, f.own_hash, f.checksum FROM fresh.documents f WHERE f.row = documents.row)",
    f"UPDATE documents SET content = {schema.CONTENT}",
    "INSERT OR REPLACE INTO manifest SELECT * FROM fresh.manifest "
    "WHERE name IN ('encoder', 'identity', 'dim', 'statistics')",
    "DELETE FROM gone WHERE sequence <= (SELECT value FROM manifest WHERE name = 'sequence')",
    "DELETE FROM states",  # no index of the old vectors is of one of these; that of the new ones is of the next
    "INSERT INTO states SELECT * FROM fresh.states WHERE sequence = "
    "(SELECT value FROM manifest WHERE name = 'sequence')",
)
LEFT = "SELECT count(*) FROM documents WHERE row NOT IN (SELECT row FROM fresh.documents)"


def switch(keeper: Keeper, begun: Staging, name: str, encoder: Encoder, dropped: Sequence[Skipped]) -> None:
    """Calibrate on the new vectors, then serve them; ``dropped`` documents, which have none, are deleted."""
    opened, asked = keeper.opened, keeper.asked_spec
    with closing(begun.whole()) as whole:
        new = Opened(opened.folder, whole, name, opened.device, opened.threads, encoder, opened.encoding)
        calibrating = Keeper(new, Store(whole), keeper.spec, follows=False)
        with calibrating.building() as mine:  # until it is served, or it would be swept away as a draft
            served = _calibrated(calibrating, begun, asked, mine)
            _adopt(opened, begun, served, asked, encoder, dropped)


def _adopt(
    opened: Opened, begun: Staging, served: Served | None, asked: str, encoder: Encoder, dropped: Sequence[Skipped]
) -> None:
    with closing(begun.attached()) as database, opened.guard:  # nobody loads the new encoder before it is put there
        with database.writing() as connection:
            _delete(connection, Store(database), dropped)
            if connection.execute(LEFT).fetchone()[0]:
                raise BadFile(f"{opened.folder} was written to while it was re-encoded. Run it again.")
            for statement in ADOPT:
                connection.execute(statement)
            schema.changed(connection)
            schema.put(connection, encoding=encodings(database) + 1)
            versions.replace_all(connection, served.calibrated if served else None, asked)
        opened.moved()
        opened.encoder = encoder


def _calibrated(keeper: Keeper, begun: Staging, asked: str, on_disk: bool) -> Served | None:
    """Calibrate the collection as it will be: as it was told to, or by ``auto`` where that does not fit any more."""
    statistics = Statistics({})
    for block in keeper.store.blocks():
        statistics = statistics.add(block.vectors, block.owner)
    with begun.database.writing() as connection:
        schema.put(connection, statistics=statistics.to_bytes())
        schema.add_state(connection, keeper.store.database.sequence())
    if not keeper.store.count():
        return None
    try:
        return keeper.fitted(asked, keep=True, on_disk=on_disk)
    except CannotFit:
        return keeper.fitted("auto", keep=True, on_disk=on_disk)


def _delete(connection: sqlite3.Connection, store: Store, dropped: Sequence[Skipped]) -> None:
    """Take documents out; the files they came from are listed as skipped, and read again by the next `index`."""
    why = {one.id: one.why for one in dropped}
    for some in several(list(why)):
        marks = ",".join("?" * len(some))
        units = f"FROM documents d JOIN units u ON u.number = d.unit WHERE d.id IN ({marks})"
        for number, root, key, name in connection.execute(
            f"SELECT u.number, u.root, u.key, d.id {units}", some
        ).fetchall():
            statement = "INSERT INTO skipped VALUES (?1, ?2, ?3, ?4, seal(?1, ?2, ?3, ?4))"
            connection.execute(statement, (root, key, name, why[name]))
            connection.execute("UPDATE units SET stamp = NULL WHERE number = ?", (number,))
            schema.seal(connection, "units", "number = ?", number)
    store.remove(connection, list(why))
