"""Open a collection's folder: check that it is one, whether it can be written, and that its encoder matches.

The manifest counts how often a collection was re-encoded. A process that has it open compares that number before and
after any work that reads vectors; if it has grown, the work is repeated with the new encoder. So vectors of two
encoders are never mixed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from threading import RLock
from typing import TypeVar

from isthmus import __version__, encoders
from isthmus._optional import need
from isthmus.calibration import NeighbourSearch
from isthmus.encoders import Encoder
from isthmus.encoders.abilities import HasUsage, Usage
from isthmus.encoders.base import FULL
from isthmus.encoders.runtime import Runtime
from isthmus.errors import BadFile, BadInput
from isthmus.index import DeviceNeighbours
from isthmus.search.copy_record import COPY, check_finished
from isthmus.search.engines import MEMORY, open_store
from isthmus.search.publisher import VECTORS, Publisher, publisher_of
from isthmus.storage.base import Place
from isthmus.storage.postgres import address as postgres
from isthmus.storage.protocols import Engine, PublishedVectors, Store
from isthmus.storage.servers import FOLDER, opened_server
from isthmus.storage.sqlite.database import ChangedMeanwhile

NO_ENCODER = "none"
TRIES = 10  # how often work is repeated when the collection is re-encoded meanwhile

Result = TypeVar("Result")


@dataclass(slots=True, eq=False)
class Handle:
    """A collection's folder, its database, and its encoder, which is loaded when first needed."""

    folder: Place
    store: Store
    name: str
    runtime: Runtime = field(default_factory=Runtime)
    encoder: Encoder | None = None
    encoding: int = 0  # how often the collection had been re-encoded when ``name`` was read
    others: dict[str, Encoder] = field(default_factory=dict)  # loaded for a search that named them, as to rerank
    guard: RLock = field(default_factory=RLock)
    publisher: Publisher | None = None  # of folded vectors that live on a server

    @property
    def database(self) -> Engine:
        """Transactions, snapshots, and the manifest."""
        return self.store.database

    @property
    def dim(self) -> int | None:
        """How many numbers a vector has; None if it is not known yet."""
        found = self.database.manifest("dim").get("dim")
        if found is not None:
            return int(found)
        return self.encoder.dim if self.encoder is not None else None

    @property
    def loader(self) -> Callable[[], Encoder] | None:
        """What loads the encoder; None for a collection of vectors."""
        return None if self.name == NO_ENCODER else self._loaded

    def load(self) -> Encoder | None:
        """Return the encoder; None for a collection of vectors."""
        return None if self.name == NO_ENCODER else self._loaded()

    def _loaded(self) -> Encoder:
        if (there := self.encoder) is not None:  # without the guard, which a re-encoding holds
            return there
        with self.guard:
            if self.encoder is None:
                encoder = self.others.pop(self.name, None)
                if encoder is None or not _is_own(self.database, encoder):  # its files may have changed since
                    encoder = self._opened()
                check(self.folder, self.database, encoder)
                self.encoder = encoder
            return self.encoder

    def _opened(self) -> Encoder:
        try:
            return self.runtime.encoder(self.name)
        except BadFile as error:
            kind, _, place = self.name.partition(":")
            if not Path(place).is_absolute() or Path(place).is_dir():
                raise
            raise BadFile(
                f"{error} The encoder of {self.folder} was there. If its folder has moved, write where it is now: "
                f"isthmus reencode --in {self.folder} --encoder {kind}:FOLDER. Nothing is encoded again if it is the "
                "same model."
            ) from None

    def neighbours(self) -> NeighbourSearch | None:
        """Return the search for biases on the GPU that was named, if torch has it; None: they are computed here."""
        device = self.runtime.device
        if device.partition(":")[0] not in ("auto", "cuda") or find_spec("torch") is None:
            return None
        if not need("torch", extra="gpu").cuda.is_available():
            return None
        precision = self.runtime.precision if self.runtime.precision in ("auto", "half") else FULL
        return DeviceNeighbours("cuda" if device == "auto" else device, precision)

    def named(self, name: str) -> Encoder:
        """Return an encoder by name: the collection's own, or another; each is loaded once."""
        with self.guard:
            if name == self.name:
                return self._loaded()
            if name not in self.others:
                self.others[name] = self.runtime.encoder(name)
            return self.others[name]

    def usage(self) -> dict[str, Usage]:
        """Return what the services behind encoders were asked, by the encoder's name."""
        loaded = {**self.others, **({} if self.encoder is None else {self.name: self.encoder})}
        return {name: encoder.usage for name, encoder in loaded.items() if isinstance(encoder, HasUsage)}

    def reload_if_reencoded(self) -> int:
        """Return how often the collection has been re-encoded; its encoder since then takes the other's place."""
        now = encodings(self.database)
        if now != self.encoding:
            with self.guard:
                found = self.database.manifest("encoder", "encoding")
                now = int(found.get("encoding", 0))
                if now != self.encoding:
                    self.name, self.encoder, self.encoding = str(found["encoder"]), None, now
        return now

    def retry_if_reencoded(self, work: Callable[[], Result]) -> Result:
        """Run work that reads vectors; repeat it if the collection was re-encoded meanwhile, at most 10 times."""
        for tries_left in reversed(range(TRIES)):
            began = self.reload_if_reencoded()
            try:
                done = work()
            except ChangedMeanwhile:
                if not tries_left:
                    raise
            except Exception:
                if not tries_left or encodings(self.database) == began:
                    raise
            else:
                if encodings(self.database) == began:
                    return done
        raise ChangedMeanwhile(f"{self.folder} was re-encoded {TRIES} times while it was read. Try again.")


def encodings(database: Engine) -> int:
    """Return how often a collection has been re-encoded."""
    return int(database.manifest("encoding").get("encoding", 0))


def open_handle(
    path: str | PathLike[str],
    encoder: str | Encoder | None,
    *,
    create: bool,
    runtime: Runtime,
    vectors: str | PublishedVectors | None = None,
) -> Handle:
    """Open a folder as a collection, or make it one; ``:memory:`` is a new one that ends with its process.

    The URL of a PostgreSQL server opens a collection there. ``vectors``: the server of its folded vectors, or
    ``folder``; left out, what the collection has.
    """
    server = named_server(path, vectors)
    found = _opened(path, encoder, create=create, runtime=runtime)
    try:
        found.publisher = publisher_of(found.database, _server(found.store, server))
    except BaseException:
        found.database.close()
        raise
    return found


def named_server(path: str | PathLike[str], vectors: str | PublishedVectors | None) -> PublishedVectors | str | None:
    """Return the server of folded vectors that is named, unless it is the collection's own engine."""
    in_database = vectors in (*postgres.NAMES, *postgres.SHARDED) and postgres.is_address(os.fspath(path))
    own = vectors == FOLDER or in_database
    return opened_server(vectors) if isinstance(vectors, str) and not own else vectors


def _server(store: Store, vectors: str | PublishedVectors | None) -> PublishedVectors | str | None:
    """Return the server of folded vectors that was named, or the store's own if that is named, or nothing is."""
    if vectors is not None and not isinstance(vectors, str):
        return vectors
    kept = store.database.manifest(VECTORS).get(VECTORS) if vectors is None else vectors
    own = store.published(None if kept is None else str(kept))
    if own is None and vectors in postgres.NAMES:
        raise BadInput(
            f"{store.database.path} has no pgvector 0.8 or later, so its vectors cannot be there. Use "
            "vectors='folder', or, if the database has it by now, make a copy of the collection: isthmus copy."
        )
    if own is None and kept in postgres.SHARDED:
        raise BadInput(f"{store.database.path} has no shards. Make them first: isthmus shards SERVER… --in URL.")
    return own or vectors


def _opened(path: str | PathLike[str], encoder: str | Encoder | None, *, create: bool, runtime: Runtime) -> Handle:
    place, store, loaded = open_store(
        path, lambda place: _before_making(place, encoder, create=create, runtime=runtime)
    )
    try:
        return _with_encoder(place, store, encoder, runtime, loaded)
    except BaseException:
        store.database.close()
        raise


def _before_making(place: Place, encoder: str | Encoder | None, *, create: bool, runtime: Runtime) -> Encoder | None:
    """Refuse to make a collection without ``create``; load the encoder that is named, so an error leaves nothing."""
    if not create and str(place) == MEMORY:
        raise BadInput(f"There is no collection at {MEMORY}: each one is new. Leave out create=False.")
    if not create:
        raise BadInput(f"There is no collection at {place}. Make one with `isthmus index PATH --into {place}`.")
    return runtime.encoder(encoder) if isinstance(encoder, str) and encoder != NO_ENCODER else None


def _with_encoder(
    folder: Place, store: Store, encoder: str | Encoder | None, runtime: Runtime, loaded: Encoder | None = None
) -> Handle:
    """Open a store with its encoder; ``loaded`` is the one that ``encoder`` names, if it is loaded already."""
    database = store.database
    manifest = database.manifest("encoder", "encoding", COPY)
    check_finished(manifest, folder)
    known, encoding = manifest.get("encoder"), int(manifest.get("encoding", 0))
    asked = encoder if isinstance(encoder, str) or encoder is None else encoder.name
    if known is not None and encoder is not None and not isinstance(encoder, str) and _is_own(database, encoder):
        return Handle(folder, store, str(known), runtime, encoder, encoding)
    if known is None:
        name = encoders.located(asked or "mini")
        found = Handle(folder, store, name, runtime, loaded if isinstance(encoder, str) else encoder)
        if _sign(found):
            return found
        return _with_encoder(folder, store, encoder, runtime, loaded)  # another process made it meanwhile
    if asked is not None and encoders.located(asked) != encoders.located(str(known)):
        moved = _moved(database, asked, runtime) if isinstance(encoder, str) else None
        if moved is not None:
            return Handle(folder, store, encoders.located(asked), runtime, moved, encoding)
        raise BadFile(
            f"{folder} was made with the encoder {known} and was opened with {asked}: vectors of different encoders "
            f"do not mix. Leave the encoder out, index into another folder, or re-encode it: isthmus reencode --in "
            f"{folder} --encoder {asked}."
        )
    if encoder is not None and not isinstance(encoder, str):
        check(folder, database, encoder)
    if loaded is not None:
        check(folder, database, loaded)
    return Handle(folder, store, str(known), runtime, loaded, encoding)


def _moved(database: Engine, asked: str, runtime: Runtime) -> Encoder | None:
    """Return the encoder in a folder if it is the collection's, which was loaded from another place."""
    place = encoders.located(asked).partition(":")[2]
    if not place or not Path(place).is_dir():
        return None
    loaded = runtime.encoder(asked)
    return loaded if _is_own(database, loaded) else None


def _sign(found: Handle) -> bool:
    """Store the encoder of a new collection; return whether this process was the first."""
    encoder = found.encoder
    if encoder is None and found.name != NO_ENCODER:
        encoder = found.runtime.encoder(found.name)
        found.encoder = encoder
    values = {"encoder": found.name, "identity": encoder.identity if encoder else "", "made_with": __version__}
    with found.database.writing() as connection:
        if found.database.manifest("encoder"):
            return False
        found.database.put(connection, **values, **({"dim": encoder.dim} if encoder is not None else {}))
    return True


def check(folder: Place, database: Engine, encoder: Encoder) -> None:
    """Reject an encoder of the same name that makes other vectors."""
    if not _is_own(database, encoder):
        known = database.manifest("identity", "encoder")
        identity, name = known["identity"], known["encoder"]
        raise BadFile(
            f"{folder} was made with another version of the encoder {encoder.name} (checksum {identity[:12]}…, this "
            f"one is {encoder.identity[:12]}…): their vectors do not mix. Use the version it was made with, or "
            f"re-encode it: isthmus reencode --in {folder} --encoder {name}."
        )


def _is_own(database: Engine, encoder: Encoder) -> bool:
    """Whether the collection's vectors are this encoder's, under whatever name it was loaded."""
    known = database.manifest("identity").get("identity")
    return known is None or bool(known == encoder.identity)
