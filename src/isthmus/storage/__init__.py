"""The storage of a collection, behind small protocols, so that engines are interchangeable.

    documents     documents and their segments' vectors, in and out, inside a transaction            Documents
    ledger        the files that documents came from, and what was skipped                           Ledger
    calibrations  fitted calibrations by number; the manifest names the one that is served               Calibrations
    query log     the words of real queries, if the log is on                             QueryLog
    words         BM25 over the documents' texts                                                     Words

``storage.sqlite`` is the engine of a collection in a folder: SQLite. No other module contains SQL.
"""
