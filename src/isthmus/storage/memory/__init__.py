"""A collection in memory, lost when its process ends: ``Collection.open(":memory:")``, for notebooks and tests."""
