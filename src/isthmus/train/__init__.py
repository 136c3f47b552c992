"""Training, on a GPU in minutes: ``mini``, the embedded encoder. Needs the extra ``train``; ``lexicon`` does not."""
