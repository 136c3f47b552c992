"""Stores that isthmus did not build: diagnose them, and write calibrated vectors beside the old ones.

    isthmus diagnose chroma:FOLDER/photos
    isthmus calibrate chroma:FOLDER/photos --into chroma:FOLDER/photos_fair

    fold = stores.load("photos_fair.fold")              # then, with the client of the store:
    query = fold.query(vector)
    scores = fold.scores(distances, query)

base       the protocols of sources and targets; address: KIND:PLACE?OPTION=VALUE
kinds      the table of kinds, one file each: chroma, clip_retrieval, faiss, lancedb, milvus, parquet, pgvector,
           qdrant; arrow: tables of two of them
sampling   one pass over a store; references: queries from a file, or rows of the store
fold       the calibration in a file; calibrate: writes it and the rows, and follows changes
examine    the input of a diagnosis
"""

from isthmus.stores.address import Address, looks_like_store
from isthmus.stores.base import Batch, StoreDescription, StoreKind, VectorSource, VectorTarget
from isthmus.stores.calibrate import StoreOptions, StoreReport, calibrate, update
from isthmus.stores.examine import examine
from isthmus.stores.fold import Fold, load
from isthmus.stores.kinds import KINDS, open_source, open_target

__all__ = [
    "KINDS",
    "Address",
    "Batch",
    "Fold",
    "StoreDescription",
    "StoreKind",
    "StoreOptions",
    "StoreReport",
    "VectorSource",
    "VectorTarget",
    "calibrate",
    "examine",
    "load",
    "looks_like_store",
    "open_source",
    "open_target",
    "update",
]
