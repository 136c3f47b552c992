"""A collection in memory, which ends with its process: ``Collection.open(":memory:")``, for notebooks and tests."""
