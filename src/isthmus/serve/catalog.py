"""``Catalog``: the collections that a server has, by name. A name never becomes a path by itself.

A collection's name is that of its folder, without ``.isthmus``. Names are checked against one pattern before anything
is looked up, and only folders directly below a served folder, or named when the server was started, are found.
"""

from __future__ import annotations

import re
import secrets
import shutil
from contextlib import suppress
from pathlib import Path
from threading import RLock

from isthmus.encoders.runtime import Runtime
from isthmus.errors import BadInput, CannotWrite, IsthmusError, shown
from isthmus.registry import suggestion
from isthmus.search import Collection
from isthmus.serve.errors import Refused
from isthmus.serve.settings import MODELS, ServeSettings
from isthmus.storage.sqlite.database import FILE

ENDING = ".isthmus"
NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?=[A-Za-z0-9_-])){0,63}")
DELETED = re.compile(rf"\..+{re.escape(ENDING)}\.[0-9a-f]{{16}}\.deleted")  # what a killed server had not removed yet
STATE = ".isthmus-serve"  # jobs, in the served folder


class Catalog:
    """Collections by name, each opened when it is first used and kept open."""

    def __init__(self, settings: ServeSettings, runtime: Runtime | None = None) -> None:
        self.settings = settings
        self.runtime = runtime or settings.runtime
        self.root: Path | None = None  # where new collections are made
        self._roots: list[Path] = []
        self._named: dict[str, Path] = {}
        self._open: dict[str, Collection] = {}
        self._lock = RLock()
        for path in settings.paths:
            self._take(path)
        for root in self._roots:
            _sweep(root)

    def _take(self, path: Path) -> None:
        if (path / FILE).exists():
            name = path.resolve().name.removesuffix(ENDING)
            if not NAME.fullmatch(name):
                raise BadInput(f"{path} has a name that no URL can have. Use letters, digits, '.', '_' and '-'.")
            if self._named.setdefault(name, path) != path:
                raise BadInput(f"Two collections are called {name!r}: {self._named[name]} and {path}. Rename one.")
        elif path.is_dir():
            self._roots.append(path)
            self.root = self.root or path
        else:
            raise BadInput(f"{path} is neither a collection nor a folder. Make it with `isthmus index`, or mkdir.")

    @property
    def state_folder(self) -> Path:
        """Where the server keeps its jobs."""
        return (self.root or next(iter(self._named.values())).resolve().parent) / STATE

    def names(self) -> list[str]:
        """Return the names of the collections."""
        found = set(self._named)
        for root in self._roots:
            names = (path.parent.name.removesuffix(ENDING) for path in root.glob(f"*{ENDING}/{FILE}"))
            found.update(name for name in names if NAME.fullmatch(name))
        return sorted(found)

    def get(self, name: str) -> Collection:
        """Return a collection, opened; one that is open already waits for no other that is opened or deleted."""
        there = self._open.get(name)
        if there is not None and _is_in_place(there):
            return there
        with self._lock:
            there = self._open.get(name)
            if there is not None and not _is_in_place(there):  # another process deleted or replaced it
                del self._open[name]
                with suppress(IsthmusError):
                    there.close()
            if name not in self._open:
                self._open[name] = self._opened(self._path(name), create=False)
            return self._open[name]

    def _opened(
        self, path: Path, encoder: str | None = None, calibration: str = "auto", *, create: bool = True
    ) -> Collection:
        run = self.runtime
        return Collection.open(
            path,
            encoder,
            calibration,
            create=create,
            device=run.device,
            threads=run.threads,
            precision=run.precision,
            pool=run.pool,
            trust_remote_code=run.trust_remote_code,
        )

    def serves(self, name: str, things: Collection) -> bool:
        """Whether this is the collection of that name: it may have been deleted, and made again."""
        return self._open.get(name) is things and _is_in_place(things)

    def _path(self, name: str) -> Path:
        if NAME.fullmatch(name):
            for path in (self._named.get(name), *(root / f"{name}{ENDING}" for root in self._roots)):
                if path is not None and (path / FILE).exists():
                    return path
        raise Refused(404, f"No collection is called {shown(name)}. GET /v1/collections lists them.")

    def create(self, name: str, encoder: str | None, calibration: str) -> Collection:
        """Make a collection in the served folder."""
        root = self.root
        if root is None:
            raise Refused(409, "This server serves named collections. Start it with a folder to make new ones in.")
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise BadInput("A collection's name has up to 64 letters, digits, '.', '_' and '-', and begins with one.")
        known = (*MODELS, *self.settings.models, "none")
        if encoder is not None and encoder not in known:
            raise BadInput(f"This server has no encoder of that name. {suggestion(str(encoder), known)}")
        with self._lock:
            if name in self.names() or (root / f"{name}{ENDING}").exists():
                raise Refused(409, f"There is a collection called {name!r} already.")
            made = self._opened(root / f"{name}{ENDING}", encoder, calibration)
            self._open[name] = made
            return made

    def delete(self, name: str) -> None:
        """Delete a collection of the served folder, with all its documents."""
        with self._lock:
            path = self._path(name)
            if name in self._named:
                raise Refused(409, f"{name!r} was named when the server was started and cannot be deleted here.")
            opened = self._open.pop(name, None)
            if opened is not None:
                opened.close()
            gone = path.with_name(f".{path.name}.{secrets.token_hex(8)}.deleted")
            path.replace(gone)  # in one step: a crash leaves no half of a collection
            shutil.rmtree(gone, ignore_errors=True)

    def close(self) -> None:
        """Close every collection."""
        with self._lock:
            for opened in self._open.values():
                opened.close()
            self._open.clear()


def _is_in_place(things: Collection) -> bool:
    """Whether the files of a collection are still those that were opened."""
    try:
        things.store.database.check_place()
    except CannotWrite:
        return False
    return True


def _sweep(root: Path) -> None:
    """Remove what is left of collections that were deleted when the server was killed."""
    for path in root.iterdir():
        if DELETED.fullmatch(path.name):
            shutil.rmtree(path, ignore_errors=True)
