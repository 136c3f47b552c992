"""Prefetch items of an iterator on another thread while the last one is used."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from threading import Condition, Thread
from typing import Generic, TypeVar

Item = TypeVar("Item")

PATIENCE = 0.1  # seconds between checks for Ctrl-C
BYTES = 64 << 20  # prefetched, at most


def prefetch(
    items: Iterable[Item], size: int, weigh: Callable[[Item], int] = lambda _: 0
) -> Generator[Item, None, None]:
    """Yield the items in order; up to ``size`` of them, and ``BYTES`` by ``weigh``, are prefetched.

    An error of the producer is raised in place of the item. Closing the generator stops the producer.

    >>> list(prefetch(range(4), 2))
    [0, 1, 2, 3]
    """
    channel: Channel[Item] = Channel(size, weigh)
    maker = Thread(target=channel.fill, args=(items,), name="isthmus-prefetch", daemon=True)
    maker.start()
    try:
        yield from channel.items()
    finally:
        channel.stop()
        maker.join()


class Channel(Generic[Item]):
    """A queue of items between the producer thread and the consumer."""

    def __init__(self, size: int, weigh: Callable[[Item], int]) -> None:
        self._size, self._weigh = size, weigh
        self._waiting: deque[Item] = deque()
        self._bytes = 0
        self._changed = Condition()
        self._ended = self._stopped = False
        self._error: BaseException | None = None

    def fill(self, items: Iterable[Item]) -> None:
        """Put items into the queue until they end or the consumer stops."""
        try:
            for item in items:
                if not self._put(item):
                    return
        except BaseException as error:  # noqa: BLE001 - raised again in the consumer
            self._error = error
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _put(self, item: Item) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or not self._full)
            self._waiting.append(item)
            self._bytes += self._weigh(item)
            self._changed.notify_all()
            return not self._stopped

    @property
    def _full(self) -> bool:
        return len(self._waiting) >= self._size or self._bytes > BYTES

    def items(self) -> Generator[Item, None, None]:
        """Yield items from the queue."""
        while True:
            with self._changed:
                while not self._waiting and not self._ended:
                    self._changed.wait(PATIENCE)  # a wait that Ctrl-C can interrupt
                if not self._waiting:
                    break
                item = self._waiting.popleft()
                self._bytes -= self._weigh(item)
                self._changed.notify_all()
            yield item
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Stop the producer."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
