"""Worker processes that read pages in parallel: each loads the models once and uses one core.

A picture that crashes the engine, or takes longer or more memory than ``isthmus.budget`` allows, ends its worker, not
this process. The next picture gets a new one.
"""

from __future__ import annotations

from queue import LifoQueue

from isthmus import budget
from isthmus.errors import BadImage, BadInput
from isthmus.isolated.worker import Worker


class OcrPool:
    """Reads pages in at most ``size`` processes, which start when they are needed. Safe to use from many threads."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._workers = [Worker("ocr", budget.OCR_MEMORY, budget.OCR_SECONDS) for _ in range(size)]
        self._free: LifoQueue[Worker] = LifoQueue()  # the one used last has its models loaded
        for worker in self._workers:
            self._free.put(worker)

    def lines(self, data: bytes, name: str) -> list[str]:
        """Return the lines of text in a picture, given as the bytes of its file; ``name`` is for error messages."""
        from PIL import Image

        worker = self._free.get()
        try:
            answer = worker.ask({"name": name, "pixels": Image.MAX_IMAGE_PIXELS}, [data])
        except BadImage:
            raise
        except BadInput as error:
            raise BadImage(f"{name} {error}.") from None
        finally:
            self._free.put(worker)
        lines: list[str] = answer.body["lines"]
        return lines

    def close(self) -> None:
        """Stop the processes."""
        for worker in self._workers:
            worker.close()
