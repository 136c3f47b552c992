"""Training, on a GPU in minutes: ``mini``, the embedded encoder, and rewriters of queries. Needs ``isthmus[train]``."""
