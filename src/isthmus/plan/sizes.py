"""How many bytes files and indexes take, from their formats. ``tests/test_plan.py`` compares them with real files.

PostgreSQL keeps rows in pages of 8 KB and never splits an index entry, so sizes go up in steps: 512 numbers in float32
take a third of a page in an HNSW index, 1,536 a whole one. A value leaves a row of over 2 KB (4 KB in tables of
isthmus), in pieces of 1,996 bytes.
"""

from __future__ import annotations

import math

from isthmus.index.approximate import roomy
from isthmus.index.hnsw import LINKS
from isthmus.index.ivf import CELLS_PER_ROOT, ROWS_PER_CELL

PAGE, USABLE = 8192, 8160  # of PostgreSQL
PG_LINKS = 16  # m, pgvector's default
PG_WIDEST = {False: 2000, True: 4000}  # numbers of a vector that an index takes, by whether they have 16 bits
PG_ELEMENT, PG_ITEM, PG_TUPLE = 72, 4, 40  # bytes around a vector in HNSW; of a place in a page; around a row
PG_INLINE, PG_KEPT = 2032, 4080  # of a row, and of one in a table of isthmus; a larger value is stored outside it
PG_CHUNK, PG_OUTSIDE = 1996, 115  # of a piece there; of the row and the entries that point there
MILVUS_LINKS = 16  # M
QDRANT_FACTOR = 1.5  # of its capacity planning: index, versions, segments being optimised


def folded_bytes(rows: int, width: int) -> int:
    """Folded vectors in a folder: float32, and two integers that say whose they are."""
    return rows * (4 * width + 16)


def hnsw_bytes(rows: int, width: int) -> int:
    """A Faiss HNSW file: its own vectors, 2·LINKS neighbours of a row, LINKS in levels above, an offset, a level."""
    above = LINKS / (LINKS - 1)  # levels of a row beyond the lowest, times LINKS
    return round(rows * (4 * roomy(width + 1) + 4 * (2 * LINKS + above) + 12))


def ivf_cells(rows: int) -> int:
    """How many cells an index of cells has."""
    return max(1, min(int(CELLS_PER_ROOT * math.sqrt(rows)), rows // ROWS_PER_CELL))


def ivf_bytes(rows: int, width: int) -> int:
    """A Faiss IVF-SQ8 file: a byte for each number and an id for each row, and the centres of the cells."""
    return rows * (roomy(width) + 8) + ivf_cells(rows) * (4 * roomy(width) + 8)


def rabitq_bytes(rows: int, width: int) -> int:
    """A Faiss IVF-RaBitQ file: a bit a number, two numbers and an id for each row, and the centres of the cells."""
    return rows * (roomy(width) // 8 + 16) + ivf_cells(rows) * (4 * roomy(width) + 8)


def pg_vector_bytes(width: int, *, half: bool = False) -> int:
    """One value of pgvector: 4 bytes a number, 2 for ``halfvec``, and 8."""
    return (2 if half else 4) * width + 8


def pg_table_bytes(rows: int, width: int, *, half: bool = False, inline: int = PG_INLINE) -> int:
    """A table of an id and a vector."""
    value = pg_vector_bytes(width, half=half)
    if value + PG_TUPLE <= inline:
        return rows * PAGE // (USABLE // (value + PG_TUPLE))
    pieces = math.ceil(value / PG_CHUNK)
    outside = value + pieces * PG_TUPLE
    in_page = USABLE // outside
    return round(rows * ((PAGE / in_page if in_page else PAGE * outside / USABLE) + PG_OUTSIDE))


def pg_hnsw_bytes(rows: int, width: int, *, half: bool = False) -> int:
    """An HNSW index of pgvector; 0 if a vector is too long to be indexed."""
    if width > PG_WIDEST[half]:
        return 0
    neighbours = _aligned(4 + 2 * PG_LINKS * 6) + PG_ITEM  # two tuples, the vector and its neighbours
    entry = _aligned(pg_vector_bytes(width, half=half) + PG_ELEMENT) + PG_ITEM + neighbours
    return rows * PAGE // (USABLE // entry) if entry <= USABLE else 2 * rows * PAGE  # on a page of its own each


def _aligned(size: int) -> int:
    return -(-size // 8) * 8


def milvus_hnsw_bytes(rows: int, width: int) -> int:
    """An HNSW index in memory: the vectors, and 2·M neighbours of 4 bytes."""
    return rows * (4 * width + 4 * 2 * MILVUS_LINKS)


def milvus_ivf_bytes(rows: int, width: int) -> int:
    """An IVF_FLAT index in memory: the vectors and their row numbers; the centres are few."""
    return rows * (4 * width + 8)


def milvus_sq8_bytes(rows: int, width: int) -> int:
    """An IVF_SQ8 index in memory: a byte for each number."""
    return rows * (width + 8)


def qdrant_bytes(rows: int, width: int) -> int:
    """What Qdrant's own formula gives: vectors in memory, times 1.5."""
    return round(rows * 4 * width * QDRANT_FACTOR)
