"""A collection on a PostgreSQL server: ``Collection.open("postgresql://user@host/database?collection=things")``."""
