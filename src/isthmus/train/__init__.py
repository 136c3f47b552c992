"""Training, on a GPU in minutes: ``mini``, the embedded encoder. Everything here needs the extra ``train``."""
