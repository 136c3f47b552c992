"""Read ahead: what comes next is made on another thread while the last is used."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from threading import Condition, Thread
from typing import Generic, TypeVar

Item = TypeVar("Item")

PATIENCE = 0.1  # seconds between looks at whether Ctrl-C was pressed
BYTES = 64 << 20  # made ahead, at most


def prefetch(
    items: Iterable[Item], size: int, weigh: Callable[[Item], int] = lambda _: 0
) -> Generator[Item, None, None]:
    """Yield the items in their order; up to ``size`` of them, and ``BYTES`` by ``weigh``, are made beforehand.

    An error of the maker is raised where the item would have been. Closing the generator stops the maker.

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
    """Items on their way from the thread that makes them to the one that uses them."""

    def __init__(self, size: int, weigh: Callable[[Item], int]) -> None:
        self._size, self._weigh = size, weigh
        self._waiting: deque[Item] = deque()
        self._bytes = 0
        self._changed = Condition()
        self._ended = self._stopped = False
        self._error: BaseException | None = None

    def fill(self, items: Iterable[Item]) -> None:
        """Take items in until they end or nobody wants them."""
        try:
            for item in items:
                if not self._put(item):
                    return
        except BaseException as error:  # noqa: BLE001 - it is raised again by whoever reads
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
        """Give items out."""
        while True:
            with self._changed:
                while not self._waiting and not self._ended:
                    self._changed.wait(PATIENCE)  # a wait that Ctrl-C can end
                if not self._waiting:
                    break
                item = self._waiting.popleft()
                self._bytes -= self._weigh(item)
                self._changed.notify_all()
            yield item
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Want nothing more."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
