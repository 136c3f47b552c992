"""``connect`` and ``connect_async``: find the collection on a server, and return it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from isthmus._optional import need
from isthmus.client.calls import Call, Operation, encoded
from isthmus.errors import BadInput, UnknownName
from isthmus.registry import suggestion

if TYPE_CHECKING:
    from isthmus.client.async_remote import AsyncRemoteCollection
    from isthmus.client.remote import RemoteCollection
    from isthmus.client.sessions import ConnectSettings

IN_URL = re.compile(r"(?P<server>.+?)/v1/collections/(?P<name>[^/]+)/?")


def connect(
    url: str,
    collection: str | None = None,
    *,
    key: str | None = None,
    create: bool = False,
    encoder: str | None = None,
    timeout: float = 60.0,
    tries: int = 3,
) -> RemoteCollection:
    """Return a collection on a server (``isthmus serve``), to be used like a ``Collection``.

    ``collection``: its name; left out, that of a URL such as http://localhost:8080/v1/collections/things, or the only
    one of the server. ``key``: an API key of the server. ``create`` makes the collection if there is none, with
    ``encoder`` (default: ``mini``). ``timeout``: seconds to wait for a connection and between two pieces of an answer.
    ``tries``: how often a request is sent at most, if it can be repeated without harm.
    """
    need("httpx2", extra="client")
    from isthmus.client.remote import RemoteCollection
    from isthmus.client.sessions import Session

    settings, name = _settings(url, collection, key, timeout, tries)
    session = Session(settings)
    try:
        found = session.run(_found(name, encoder, create=create))
    finally:
        session.close()
    return RemoteCollection(found, settings)


async def connect_async(
    url: str,
    collection: str | None = None,
    *,
    key: str | None = None,
    create: bool = False,
    encoder: str | None = None,
    timeout: float = 60.0,
    tries: int = 3,
) -> AsyncRemoteCollection:
    """Return a collection on a server, for ``await``; the arguments are those of ``connect``."""
    need("httpx2", extra="client")
    from isthmus.client.async_remote import AsyncRemoteCollection
    from isthmus.client.sessions import AsyncSession

    settings, name = _settings(url, collection, key, timeout, tries)
    session = AsyncSession(settings)
    try:
        found = await session.run(_found(name, encoder, create=create))
    finally:
        await session.close()
    return AsyncRemoteCollection(found, settings)


def _settings(
    url: str, collection: str | None, key: str | None, timeout: float, tries: int
) -> tuple[ConnectSettings, str | None]:
    from isthmus.client.sessions import ConnectSettings

    inside = IN_URL.fullmatch(url)
    if inside is not None:
        if collection is not None:
            raise BadInput(f"The URL names the collection {inside['name']!r} already. Leave out collection=….")
        url, collection = inside["server"], unquote(inside["name"])
    return ConnectSettings(url=url.rstrip("/"), key=key, timeout=timeout, tries=tries), collection


def _found(name: str | None, encoder: str | None, *, create: bool) -> Operation[str]:
    """Return the name of the collection: the given one if it exists or is made now, or the only one."""
    if name is not None and not create:
        try:
            yield Call(method="GET", path=f"/v1/collections/{quote(name, safe='')}")
        except UnknownName:
            known = yield from _names()
            raise UnknownName(f"No collection is called {name!r} there. {suggestion(name, known)}") from None
        return name
    known = yield from _names()
    if name is None:
        if len(known) != 1:
            listed = f"The server has {', '.join(known)}" if known else "The server has no collection"
            raise UnknownName(f"{listed}. Name one: connect(url, 'NAME'); with create=True it is made.")
        return known[0]
    if name not in known:
        form: dict[str, Any] = {"name": name} | ({} if encoder is None else {"encoder": encoder})
        yield Call(method="POST", path="/v1/collections", body=encoded(form), repeatable=False)
    return name


def _names() -> Operation[list[str]]:
    reply = yield Call(method="GET", path="/v1/collections")
    return [one["name"] for one in reply.json()["collections"]]
