"""Read ahead: what comes next is made on another thread while the last is used."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import TypeVar

Item = TypeVar("Item")

PATIENCE = 0.1  # seconds between looks at whether anybody still wants what is made


def ahead(items: Iterable[Item], size: int) -> Generator[Item, None, None]:
    """Yield the items in their order; up to ``size`` of them are made before they are asked for.

    An error of the maker is raised where the item would have been. Closing the generator stops the maker.

    >>> list(ahead(range(4), 2))
    [0, 1, 2, 3]
    """
    queue: Queue[tuple[str, Item | BaseException | None]] = Queue(size)
    stopped = Event()
    maker = Thread(target=_make, args=(items, queue, stopped), name="isthmus-ahead", daemon=True)
    maker.start()
    try:
        while True:
            try:
                kind, item = queue.get(timeout=PATIENCE)  # a wait that Ctrl-C can end
            except Empty:
                continue
            if kind == "error" and isinstance(item, BaseException):
                raise item
            if kind == "end":
                return
            yield item  # type: ignore[misc]  # an item by its kind
    finally:
        stopped.set()
        maker.join()


def _make(items: Iterable[Item], queue: Queue[tuple[str, Item | BaseException | None]], stopped: Event) -> None:
    """Fill the queue until the items end or nobody wants them."""

    def put(kind: str, item: Item | BaseException | None) -> bool:
        while not stopped.is_set():
            try:
                queue.put((kind, item), timeout=PATIENCE)
            except Full:
                continue
            return True
        return False

    try:
        for item in items:
            if not put("item", item):
                return
        put("end", None)
    except BaseException as error:  # noqa: BLE001 - it is raised again by whoever reads
        put("error", error)
