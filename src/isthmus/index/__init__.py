"""Indexes: the largest inner products among plain vectors, exact or approximate. One index per modality.

    kind       a query costs                 built from         chosen
    exact      one read of all the vectors   nothing            up to about 200,000 rows
    ivf-sq8    a look into some cells        a sample, a pass   above
    ivf-rabitq the same, a bit per number    a sample, a pass   on request: the least memory
    hnsw       a walk over a graph           minutes of work    on request

``build(vectors, device="cuda")`` searches exactly on a GPU, by torch.

>>> import numpy as np
>>> shelf = build(np.eye(3, dtype=np.float32), "exact")
>>> scores, rows = shelf.search(np.array([[0.0, 3.0, 1.0]]), k=2, allowed=np.array([True, True, False]))
>>> scores.tolist(), rows.tolist()
([[3.0, 0.0]], [[1, 0]])
"""

from isthmus.index.base import Index
from isthmus.index.choice import AUTO, choose, fits
from isthmus.index.device import DeviceNeighbours
from isthmus.index.kinds import KINDS, build, checked_kind, load
from isthmus.index.neighbours import FaissNeighbours

__all__ = [
    "AUTO",
    "KINDS",
    "DeviceNeighbours",
    "FaissNeighbours",
    "Index",
    "build",
    "checked_kind",
    "choose",
    "fits",
    "load",
]
