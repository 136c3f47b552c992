"""Indexes: finding nearest neighbours among plain vectors. For now, what a calibration needs of them."""

from isthmus.index.neighbours import FaissNeighbours

__all__ = ["FaissNeighbours"]
