"""In the worker: the rows of a Parquet file, by pyarrow, a few at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from isthmus._optional import need
from isthmus.budget import MIB
from isthmus.errors import BadFile
from isthmus.files import open_regular
from isthmus.isolated.open_files import OpenFiles

arrow: Any = need("pyarrow", extra="parquet")
parquet: Any = need("pyarrow.parquet", extra="parquet")

AT_ONCE = 256  # rows, fewer where they are large
BYTES_AT_ONCE = 32 * MIB  # according to the file
JSON_KINDS = (str, int, float, bool, type(None))


class Reading:
    """A file that is being read, and the number of rows read so far."""

    def __init__(self, path: str, first: int) -> None:
        self._stream = open_regular(path)
        try:
            self.file = parquet.ParquetFile(self._stream, pre_buffer=False)
        except BaseException:
            self._stream.close()
            raise
        self.next = 0
        self._batches = self._from(first)

    def take(self, vectors: list[str]) -> tuple[object, list[bytes]]:
        """Return the next rows; an empty list at the end."""
        batch = next(self._batches, None)
        if batch is None:
            return {"rows": []}, []
        names = batch.schema.names
        columns = [_values(column, name in vectors) for name, column in zip(names, batch.columns, strict=True)]
        self.next += batch.num_rows
        out = Packed()
        rows = [out.pack(dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)]
        return {"rows": rows, "kinds": out.kinds}, out.blobs

    def close(self) -> None:
        """Close the file."""
        self.file.close()
        self._stream.close()

    def _from(self, first: int) -> Iterator[Any]:
        """Yield batches, without the rows that an earlier worker returned."""
        for batch in self.file.iter_batches(batch_size=self._at_once(), use_threads=False):
            before, self.next = self.next, max(self.next, min(first, self.next + batch.num_rows))
            if self.next - before < batch.num_rows:
                yield batch.slice(self.next - before)

    def _at_once(self) -> int:
        groups = [self.file.metadata.row_group(i) for i in range(self.file.metadata.num_row_groups)]
        largest = max((group.total_byte_size / max(1, group.num_rows) for group in groups), default=1)
        return max(1, min(AT_ONCE, int(BYTES_AT_ONCE / max(1, largest))))


class Packed:
    """Values of rows that JSON cannot represent: ``{"": 3}`` refers to the fourth."""

    def __init__(self) -> None:
        self.blobs: list[bytes] = []
        self.kinds: list[str] = []  # of each: bytes, or the type of an array's numbers

    def pack(self, value: Any) -> Any:
        """Return a value as JSON; other types become null."""
        if isinstance(value, bytes):
            return self._out("bytes", value)
        if isinstance(value, np.ndarray):
            if value.dtype.kind in "fiu" and value.ndim == 1:
                return self._out(value.dtype.str, value.tobytes())
            return self.pack(value.tolist())
        if isinstance(value, Mapping):  # as pairs: an object is a reference to bytes
            return [None, *([str(name), self.pack(item)] for name, item in value.items())]
        if isinstance(value, list | tuple):
            return [0, *(self.pack(item) for item in value)]
        return value if isinstance(value, JSON_KINDS) else None

    def _out(self, kind: str, data: bytes) -> dict[str, int]:
        self.kinds.append(kind)
        self.blobs.append(data)
        return {"": len(self.blobs) - 1}


readings: OpenFiles[Reading] = OpenFiles()


def answer(request: dict[str, Any], _: list[bytes]) -> tuple[object, list[bytes]]:
    """Return the number of rows of a file, or the next rows from ``first`` on; ``close`` closes the file."""
    number = request["reading"]
    if request.get("close"):
        readings.drop(number)
        return None, []
    try:
        reading = readings.get(number, lambda: Reading(request["path"], request.get("first", 0)))
        if "first" not in request:
            return {"count": int(reading.file.metadata.num_rows)}, []
        if reading.next > request["first"]:  # an answer was lost
            readings.drop(number)
            reading = readings.get(number, lambda: Reading(request["path"], request["first"]))
        return reading.take(request["vectors"])
    except MemoryError:
        readings.drop(number)
        raise
    except arrow.ArrowException as error:
        raise BadFile(f"is not Parquet, or damaged: {error}") from None
    except OSError as error:
        if error.errno is not None:
            raise
        raise BadFile(f"is not Parquet, or damaged: {error}") from None


def _values(column: Any, is_vector: bool) -> list[Any]:
    """Turn a column into Python values; vectors into arrays, times into strings, decimals into fractions."""
    kind = column.type
    is_list = arrow.types.is_list(kind) or arrow.types.is_large_list(kind) or arrow.types.is_fixed_size_list(kind)
    if is_list and is_vector:
        return [value.values.to_numpy(zero_copy_only=False) if value.is_valid else None for value in column]
    if arrow.types.is_temporal(kind) and not arrow.types.is_duration(kind):
        column = column.cast(arrow.string())
    elif arrow.types.is_decimal(kind):
        column = column.cast(arrow.float64())
    values: list[Any] = column.to_pylist()
    return values
