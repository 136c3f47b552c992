"""The engine of a collection in a folder: one SQLite file. The only module with SQL."""
