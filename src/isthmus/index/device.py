"""Exact search on a device of torch: every product is computed, in blocks of fixed shape, and the largest are kept.

In ``full`` precision products are computed in float32; TF32, which GPUs may use instead, is off. In ``half`` precision
they are computed in float16, many times faster on a GPU, and only propose candidates:

1. the k + spare best of the float16 products are scored again in float32;
2. a row that was not proposed has a float16 product of at most the last candidate's, p. Rounding changed its product by
   at most e = 2⁻⁹ · |query| · (the longest row). So if the k-th best in float32 is at least p + e, nothing was missed;
3. the queries for which this does not hold are searched again in float32.

Either way the result is that of float32 and equals the processor's, up to the order in which products are summed
(``tests/test_device.py``). A block that does not fit into the memory of the device is halved, and stays so. Rows that
do not fit at once are searched slab by slab.

>>> shelf = DeviceExact(np.eye(3, dtype=np.float32), device="cpu")
>>> scores, rows = shelf.search(np.array([[0.0, 2.0, 1.0]]), k=2)
>>> scores.tolist(), rows.tolist()
([[2.0, 1.0]], [[1, 2]])
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from isthmus._optional import need
from isthmus.devices import torch_device, unless_out_of_memory
from isthmus.errors import BadInput
from isthmus.index.base import checked_k, checked_mask, checked_queries, checked_vectors, filled
from isthmus.index.select import LOW, keys, largest, ordered
from isthmus.index.tiles import Tensor, decoded, keyed, largest_products
from isthmus.types import Mask, Matrix, Rows

FULL, HALF = "full", "half"
EXTRA = "gpu"
ROUNDING = 2.0**-9  # of a float16 product of unit vectors: 2⁻¹⁰ for the factors, 2⁻¹² for the product, and a reserve
SPARE = 16  # candidates beyond k, at least; or a quarter of k
LEAST_ROWS, LEAST_COLUMNS = 32, 1024
BANKS_KEPT = 4
RESCORED_BYTES = 1 << 28  # of candidates that are scored again at a time


@dataclass(slots=True)
class Tile:
    """How many queries are multiplied with how many rows at a time; halved if that is too much for the device."""

    rows: int
    columns: int

    @classmethod
    def of(cls, device: str) -> Tile:
        """Return a tile for a device: 32,768 × 65,536 products are 4 GB in half precision, some ms on a large GPU."""
        return cls(1024, 8192) if device == "cpu" else cls(32_768, 65_536)

    @property
    def smallest(self) -> bool:
        """Whether it cannot be halved."""
        return self.rows <= LEAST_ROWS and self.columns <= LEAST_COLUMNS

    def halve(self) -> None:
        """Make it smaller: fewer queries first, which costs nothing but launches."""
        if self.rows > LEAST_ROWS:
            self.rows //= 2
        else:
            self.columns //= 2


@dataclass(frozen=True, slots=True, eq=False)
class Slab:
    """Rows on the device: in float32; in float16, divided by ``longest``, if that is computed with."""

    first: int
    full: Tensor
    half: Tensor | None = None
    longest: float = 1.0


@dataclass(slots=True, eq=False)
class DeviceProducts:
    """Searches rows for the largest products with queries, on one device."""

    device: str
    precision: str
    tile: Tile
    slab_rows: int | None = None  # default: what fits into half of the device's free memory

    @classmethod
    def on(cls, device: str, precision: str = "auto") -> DeviceProducts:
        """Check the names of a device, and of a precision: ``full``, ``half``, or ``auto``, half on a GPU."""
        found = torch_device(device, EXTRA)
        if found.startswith("mps"):
            raise BadInput("Search by torch runs on cuda and cpu, not on mps. Leave the device out.")
        if precision not in ("auto", FULL, HALF):
            raise BadInput(f"precision is {precision!r}; for a search it must be auto, full or half.")
        chosen = (FULL if found == "cpu" else HALF) if precision == "auto" else precision
        return cls(found, chosen, Tile.of(found))

    def slabs(self, vectors: Matrix) -> Iterator[Slab]:
        """Copy the rows to the device, one slab after another."""
        size = self.slab_rows or self._room(vectors.shape[1])
        start = 0
        while start < len(vectors):
            part = vectors[start : start + size]
            smallest = "One row alone" if size == 1 else None
            found = unless_out_of_memory(lambda first=start, rows=part: self.copied(first, rows), smallest)  # type: ignore[misc]
            if found is None:
                size //= 2
                continue
            start += len(part)
            yield found

    def _room(self, dim: int) -> int:
        torch = need("torch", extra=EXTRA)
        if self.device == "cpu":
            return 1 << 62  # they are where they are
        free = int(torch.cuda.mem_get_info(self.device)[0])
        return max(1, free // 2 // (dim * (4 if self.precision == FULL else 6)))

    def copied(self, first: int, rows: Matrix) -> Slab:
        """Copy rows to the device."""
        torch = need("torch", extra=EXTRA)
        full = torch.from_numpy(_writable(rows)).to(self.device)
        if self.precision == FULL:
            return Slab(first, full)
        longest = float(full.norm(dim=1).max()) or 1.0
        return Slab(first, full, (full / longest).half(), longest)

    def search(self, queries: Matrix, slab: Slab, k: int, hidden: Tensor | None = None) -> tuple[Matrix, Rows]:
        """Return the ``k`` largest products of each query with the rows of a slab, best first, ``(m, k)`` twice."""
        torch = need("torch", extra=EXTRA)
        k = min(k, len(slab.full))
        scores = np.empty((len(queries), k), dtype=np.float32)
        rows = np.empty((len(queries), k), dtype=np.intp)
        start = 0
        while start < len(queries):
            part = torch.from_numpy(_writable(queries[start : start + self.tile.rows]))
            smallest = "A block of the smallest size" if self.tile.smallest else None
            found = unless_out_of_memory(
                lambda block=part: self.block(block.to(self.device), slab, k, hidden),  # type: ignore[misc]
                smallest,
            )
            if found is None:
                self.tile.halve()
                continue
            taken = slice(start, start + len(part))
            scores[taken], rows[taken] = (of_block.cpu().numpy() for of_block in found)
            start += len(part)
        rows[rows >= 0] += slab.first
        return scores, rows

    def block(self, queries: Tensor, slab: Slab, k: int, hidden: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Search for some queries on the device; returns tensors there, ``(m, k)`` twice."""
        if slab.half is None or k + SPARE >= len(slab.full):
            with _without_tf32():
                return decoded(largest_products(queries, slab.full, k, self.tile.columns, hidden))
        spare = max(SPARE, k // 4)
        lengths = queries.norm(dim=1, keepdim=True)
        unit = (queries / lengths.clamp_min(1e-30)).half()
        proposed, rows = decoded(largest_products(unit, slab.half, k + spare, self.tile.columns, hidden))
        best = keyed(_products(queries, slab.full, rows), rows)[:, :k]
        scores = decoded(best)[0]
        size = lengths[:, 0] * slab.longest
        unsure = (scores[:, -1] < (proposed[:, -1] + ROUNDING) * size) & (rows[:, -1] >= 0)
        if bool(unsure.any()):
            with _without_tf32():
                best[unsure] = largest_products(queries[unsure], slab.full, k, self.tile.columns, hidden)
        return decoded(best)


def _products(queries: Tensor, rows: Tensor, chosen: Tensor) -> Tensor:
    """Return each query's products with its own rows in float32, ``(m, candidates)``."""
    torch = need("torch", extra=EXTRA)
    step = max(1, RESCORED_BYTES // (4 * chosen.shape[1] * queries.shape[1]))
    with _without_tf32():
        several = [
            (rows[chosen[start : start + step].clamp_min(0)] @ queries[start : start + step, :, None])[:, :, 0]
            for start in range(0, len(queries), step)
        ]
    return torch.cat(several)


@contextmanager
def _without_tf32() -> Iterator[None]:
    """Multiply float32 as float32 inside the block, whatever the process has set."""
    torch = need("torch", extra=EXTRA)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _writable(rows: Matrix) -> Matrix:
    """Return rows as torch takes them: contiguous, and copied if they are read-only, as a memory map is."""
    plain = np.ascontiguousarray(rows, dtype=np.float32)
    return plain if plain.flags.writeable else plain.copy()


def _in_slabs(
    products: DeviceProducts, slabs: Iterator[Slab], queries: Matrix, k: int, allowed: Mask | None = None
) -> tuple[Matrix, Rows]:
    """Search slab after slab and keep the ``k`` best of all, best first."""
    torch = need("torch", extra=EXTRA)
    best = np.empty((len(queries), 0), dtype=np.int64)
    for slab in slabs:
        hidden = None
        if allowed is not None:
            own = ~allowed[slab.first : slab.first + len(slab.full)]
            hidden = torch.from_numpy(own).to(products.device)
        scores, rows = products.search(queries, slab, k, hidden)
        best = largest(np.concatenate([best, keys(scores, np.where(rows < 0, LOW, rows))], axis=1), k)
    scores, rows = ordered(best)
    return filled(scores, rows, k)


class DeviceExact:
    """``exact`` on a device: the rows are copied there once, if they fit, and for each search otherwise."""

    kind = "exact"

    def __init__(self, vectors: Matrix, *, device: str, precision: str = "auto") -> None:
        self.vectors = checked_vectors(vectors)
        self.products = DeviceProducts.on(device, precision)
        first = next(self.products.slabs(self.vectors), None)
        self._kept = first if first is not None and len(first.full) == len(self.vectors) else None

    def __len__(self) -> int:
        return len(self.vectors)

    def search(self, queries: Matrix, k: int, allowed: Mask | None = None) -> tuple[Matrix, Rows]:
        """Return the ``k`` largest inner products of each query and their rows, best first."""
        k, queries = checked_k(k), checked_queries(queries, self.vectors.shape[1])
        slabs = self.products.slabs(self.vectors) if self._kept is None else iter([self._kept])
        return _in_slabs(self.products, slabs, queries, k, checked_mask(allowed, len(self)))

    def save(self, folder: Path, name: str) -> list[Path]:  # noqa: ARG002 - there is nothing to write
        """Write nothing: the index is the vectors."""
        return []


@dataclass(slots=True, eq=False)
class DeviceNeighbours:
    """Finds the nearest rows of a bank exactly, on a device: for biases, as ``neighbours=`` of a fit and a fold.

    The last few banks (one per query modality) stay on the device, so a bank must not be changed in place.

    >>> bank = np.eye(4, dtype=np.float32)
    >>> similarity, rows = DeviceNeighbours("cpu")(bank[:1], bank, 1)
    >>> similarity.tolist(), rows.tolist()
    ([[1.0]], [[0]])
    """

    device: str
    precision: str = "auto"
    products: DeviceProducts = field(init=False, repr=False)
    _kept: list[tuple[Matrix, Slab]] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        self.products = DeviceProducts.on(self.device, self.precision)

    def __call__(self, vectors: Matrix, bank: Matrix, k: int) -> tuple[Matrix, Rows]:
        """Return the ``k`` largest inner products of each vector with the bank, and their rows: ``(n, k)`` twice."""
        if not 1 <= k <= len(bank):
            raise BadInput(f"k = {k} neighbours must be between 1 and {len(bank)}, the size of the bank.")
        return _in_slabs(self.products, self._slabs(bank), checked_queries(vectors, bank.shape[1]), k)

    def search_once(self, vectors: Matrix, bank: Matrix, k: int) -> tuple[Matrix, Rows]:
        """Return the same for a bank that does not stay on the device: one that is not searched again."""
        slabs = self.products.slabs(checked_vectors(bank))
        return _in_slabs(self.products, slabs, checked_queries(vectors, bank.shape[1]), k)

    def _slabs(self, bank: Matrix) -> Iterator[Slab]:
        for known, slab in self._kept:
            if known is bank:
                yield slab
                return
        for slab in self.products.slabs(checked_vectors(bank)):
            if len(slab.full) == len(bank):
                self._kept = [*self._kept[1 - BANKS_KEPT :], (bank, slab)]
            yield slab
