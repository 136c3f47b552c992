"""What a collection keeps, behind small protocols, so that an engine can be exchanged.

    documents     documents and their segments' vectors, in and out, inside a transaction            Documents
    ledger        the files that documents came from, and what was skipped                           Ledger
    calibrations  fitted calibrations by number; the manifest says which one is served               Calibrations
    query log     the words of real queries, when the log is switched on                             QueryLog
    words         BM25 over the documents' texts                                                     Words

``storage.sqlite`` is the engine of a collection in a folder: SQLite. Nothing outside it knows a statement of SQL.
"""
