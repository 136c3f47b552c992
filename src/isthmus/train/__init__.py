"""Training, on a GPU in minutes: ``mini``, and rewriters of queries. Needs ``isthmus[train]``; ``lexicon`` does not."""
