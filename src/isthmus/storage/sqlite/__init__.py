"""The engine of a collection in a folder: one SQLite file. The only place that knows SQL."""
