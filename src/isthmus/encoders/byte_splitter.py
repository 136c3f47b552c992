"""Passages for models whose tokenizer is unknown: two bytes of text for each token that the model reads."""

from __future__ import annotations

from isthmus.encoders.texts import Splitter

BYTES_PER_TOKEN = 2  # few tokens are shorter, in any script


def byte_splitter(tokens: int, name: str) -> Splitter:
    """Split between words into passages that fit into ``tokens``, with a tokenizer whose tokens are bytes.

    >>> splitter = byte_splitter(4, "mine")
    >>> [(one.start, one.end) for one in splitter.split(["one two three"])[0]]
    [(0, 7), (7, 13)]
    """
    from tokenizers import Tokenizer, models, pre_tokenizers

    alphabet = {letter: row for row, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocab=alphabet, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return Splitter.of(tokenizer, tokens * BYTES_PER_TOKEN, name)
