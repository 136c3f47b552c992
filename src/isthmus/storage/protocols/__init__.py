"""The protocols of an engine: what a store of documents and vectors must be able to do.

    Engine         transactions, snapshots, the manifest          Store.database
    Ledger         files and skipped inputs                       Store.ledger
    Calibrations   fitted calibrations                            Store.calibrations
    Queries        the log                                        Store.queries
    Words          BM25                                           Store.words
    DocumentTable  documents, in and out
    VectorTable    vectors, statistics, states
    Store          all of them
    Staging        another encoder's vectors, until they are complete
    PublishedVectors    folded vectors on a server, derived from the store

Methods that take a ``transaction`` run inside ``with engine.writing() as transaction``; all others read, inside a
snapshot (``reading``) if the caller holds one.
"""

from isthmus.storage.protocols.calibrations import Calibrations, Queries
from isthmus.storage.protocols.documents import DocumentTable, Words
from isthmus.storage.protocols.engine import Engine
from isthmus.storage.protocols.ledger import Ledger
from isthmus.storage.protocols.published import About, FoldedRows, NotPublished, PublishedVectors, RowFilter, ShardsDown
from isthmus.storage.protocols.store import Staging, Store
from isthmus.storage.protocols.vectors import VectorTable

__all__ = [
    "About",
    "Calibrations",
    "DocumentTable",
    "Engine",
    "FoldedRows",
    "Ledger",
    "NotPublished",
    "PublishedVectors",
    "Queries",
    "RowFilter",
    "ShardsDown",
    "Staging",
    "Store",
    "VectorTable",
    "Words",
]
