"""An asynchronous collection, used like one that is not: each call runs on an event loop of its own thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from threading import Thread
from typing import Any, TypeVar, cast

from isthmus import Document, connect_async
from isthmus.client.async_remote import AsyncRemoteCollection
from isthmus.client.forms import RemoteCalibration
from isthmus.client.remote import RemoteCollection

Result = TypeVar("Result")


class Awaited:
    """What ``len``, ``in``, iterating and the properties of a collection are in ``AsyncRemoteCollection``."""

    def __init__(self, address: str, name: str, encoder: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever)
        self._thread.start()
        self._things: AsyncRemoteCollection = self._run(connect_async(address, name, create=True, encoder=encoder))

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def __enter__(self) -> Awaited:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __len__(self) -> int:
        return self._run(self._things.count())

    def __contains__(self, name: object) -> bool:
        return self._run(self._things.has(name))

    def __iter__(self) -> Iterator[Document]:
        async def every() -> list[Document]:
            return [await self._things.load(document) async for document in self._things]

        return iter(self._run(every()))

    @property
    def calibration(self) -> RemoteCalibration | None:
        return self._run(self._things.calibration())

    @property
    def calibration_spec(self) -> str:
        return self._run(self._things.calibration_spec())

    @property
    def drifted(self) -> bool:
        return self._run(self._things.drifted())

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._things, name)
        return lambda *given, **options: self._run(method(*given, **options))


def awaited(address: str, name: str, encoder: str) -> RemoteCollection:
    """Make a collection on a server, for tests of one that is used without ``await``."""
    return cast("RemoteCollection", Awaited(address, name, encoder))
