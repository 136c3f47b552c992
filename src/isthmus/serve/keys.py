"""API keys: what each may do, and in which collections. The file holds hashes; a key is shown once, when it is made.

    isthmus_3f2a9c1b_Zk4…                    the id of the key, and its secret of 256 random bits
    {"keys": [{"id", "name", "hash", "scope", "collections", "made"}]}

The secret is random, so a plain SHA-256 of it is enough: there is nothing to guess. Hashes are compared in constant
time. A server reads the file again when it changes: a revoked key ends at once.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any

from filelock import FileLock, Timeout

from isthmus.atomic import replacing
from isthmus.budget import MIB
from isthmus.errors import BadFile, BadInput, CannotRead, CannotWrite, UnknownName
from isthmus.files import read_regular
from isthmus.registry import lookup, suggestion

SCOPES = {"read": 1, "write": 2, "admin": 3}  # each may do what those before it may
EVERY = "*"  # every collection
TOKEN = re.compile(r"isthmus_([0-9a-f]{8})_([A-Za-z0-9_-]{43})")
PATIENCE = 10.0  # seconds to wait for another change of the file
NOBODY = hashlib.sha256(b"nobody").hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """What a key may do."""

    id: str
    name: str
    hash: str
    scope: str = "read"
    collections: tuple[str, ...] = (EVERY,)
    made: str = ""

    def may(self, scope: str, collection: str | None = None) -> bool:
        """Whether it may do this, in a collection or (None) everywhere."""
        return SCOPES[self.scope] >= SCOPES[scope] and (EVERY in self.collections or collection in self.collections)


def read_keys(path: Path) -> list[ApiKey]:
    """Read a file of keys."""
    try:
        found = json.loads(read_regular(path, MIB))["keys"]
        return [_key(one) for one in found]
    except FileNotFoundError:
        raise CannotRead(
            f"There is no file of keys at {path}. Make it with `isthmus keys create --keys {path} --name NAME`."
        ) from None
    except OSError as error:
        raise CannotRead(f"The keys in {path} cannot be read: {error.strerror or error}.") from None
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise BadFile(
            f"{path} is not a file of keys ({type(error).__name__}). Make one with `isthmus keys create`."
        ) from None


def _key(form: dict[str, Any]) -> ApiKey:
    if form["scope"] not in SCOPES:
        raise ValueError(f"unknown scope {form['scope']}")
    return ApiKey(**{**form, "collections": tuple(form["collections"])})


def write_keys(path: Path, keys: Sequence[ApiKey]) -> None:
    """Write a file of keys that nobody else on this machine can read."""
    form = {"keys": [asdict(one) for one in keys]}
    try:
        with replacing(path) as draft:
            draft.touch(mode=0o600)
            os.chmod(draft, 0o600)  # noqa: PTH101 - also where the mask of the process says less
            draft.write_text(json.dumps(form, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise CannotWrite(f"The keys cannot be written to {path}: {error.strerror or error}.") from None


def create_key(path: Path, name: str, scope: str = "read", collections: Sequence[str] = ()) -> tuple[ApiKey, str]:
    """Add a key to a file, which is made if there is none; return it and the token, which is not kept."""
    lookup(SCOPES, scope, "scope")
    if not name.strip():
        raise BadInput("The key has no name. Say who uses it: --name laptop.")
    number, secret = secrets.token_hex(4), secrets.token_urlsafe(32)
    key = ApiKey(
        id=number,
        name=name,
        hash=_hashed(secret),
        scope=scope,
        collections=tuple(collections) or (EVERY,),
        made=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    with _changing(path):
        write_keys(path, [*(read_keys(path) if path.exists() else []), key])
    return key, f"isthmus_{number}_{secret}"


def revoke_key(path: Path, number: str) -> ApiKey:
    """Remove a key from a file, by its id."""
    read_keys(path)  # which says what is wrong with a file before a lock is made beside it
    with _changing(path):
        known = read_keys(path)
        gone = next((key for key in known if key.id == number), None)
        if gone is None:
            raise UnknownName(f"No key has the id {number!r}. {suggestion(number, [key.id for key in known])}")
        write_keys(path, [key for key in known if key is not gone])
    return gone


@contextmanager
def _changing(path: Path) -> Iterator[None]:
    """Change a file of keys alone: else a new key could be lost meanwhile, or a revoked one come back."""
    lock = FileLock(path.with_name(f"{path.name}.lock"), timeout=PATIENCE, mode=0o600)
    if not path.parent.is_dir():
        raise CannotWrite(f"The keys cannot be written to {path}: there is no folder {path.parent}.")
    try:
        lock.acquire()
    except Timeout:
        raise CannotWrite(f"The keys in {path} are being changed by another process. Try again.") from None
    except OSError as error:
        raise CannotWrite(f"The keys cannot be written to {path}: {error.strerror or error}.") from None
    try:
        yield
    finally:
        lock.release()


def _hashed(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


class KeyRing:
    """The keys of a server; the file is read again when it changes. Without a file, everybody may do everything."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._stamp: tuple[int, int, int] | None = None
        self._keys: dict[str, ApiKey] = {}
        self._lock = Lock()
        if path is not None:
            self._reload()

    def _reload(self) -> None:
        if self.path is None:
            return
        try:
            found = self.path.stat()
            stamp = (found.st_mtime_ns, found.st_ino, found.st_size)
        except OSError:
            stamp = None
        with self._lock:
            if stamp is None or stamp != self._stamp:
                self._keys = {key.id: key for key in read_keys(self.path)}
                self._stamp = stamp

    def find(self, token: str) -> ApiKey | None:
        """Return the key of a token; None if there is none. The time it takes says nothing about the secret."""
        self._reload()
        found = TOKEN.fullmatch(token)
        number, secret = (found[1], found[2]) if found else ("", "")
        key = self._keys.get(number)
        same = hmac.compare_digest(_hashed(secret), key.hash if key is not None else NOBODY)
        return key if same and key is not None else None
