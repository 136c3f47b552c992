"""Training of encoders and query rewriters, in minutes on a GPU. Needs ``isthmus[train]``, except ``lexicon``."""
