"""The limits of every reader, per document, in one place.

A file can be malicious: its header may claim an exabyte, a page of a few bytes may draw itself forever. Readers stay
within these limits and skip what exceeds them, with the reason. With these numbers, reading a document takes less than
10 seconds and 1 GB of memory, whatever it contains.
"""

from __future__ import annotations

MIB = 2**20

TEXT_BYTES = 64 * MIB  # a text file, a web page, a JSON file, a sidecar; all members of one sample of a shard together
ROW_CHARACTERS = 32 * MIB  # a line of JSON Lines, a row of CSV or TSV
ROW_LINES = 2**20  # of a row of CSV or TSV; those of a quote that is never closed are all in one row
ROW_SKIPPED = 512 * MIB  # characters of a longer line to skip before the rest of the table is skipped
COLUMNS = 10_000  # of a table
JSON_BYTES = 512 * MIB  # memory that the values of a JSON text take, estimated before it is parsed
CHARACTERS = 4 * MIB  # the text of one document; "War and Peace" has 3.2 million
METADATA_BYTES = MIB  # the metadata of one document, as JSON
METADATA_FACTS = 10_000  # values of its metadata that filters can compare
METADATA_VALUES = METADATA_BYTES // 2  # values of any kind: each takes a character and a comma at least
PICTURE_BYTES = 256 * MIB  # a picture's file; its pixels have Pillow's own limit, PIL.Image.MAX_IMAGE_PIXELS
MEDIA_BYTES = 16 * 1024 * MIB  # the file of a sound or a video, which is read in blocks
MEDIA_SECONDS = 24 * 3600  # of a sound or a video
SCAN_PIXELS = 2**32  # pixels times scans of a progressive JPEG
HEADER_BYTES = MIB  # the headers of one member of a shard: its long name, its extended header
SHARD_BYTES = 512 * MIB  # one member of a compressed shard; the expanded size of such a shard, whatever its own size,
SHARD_RATIO = 100  # and for each of its own bytes
PROBLEMS = 100  # members of one sample of a shard that are listed as skipped
DESCRIPTION_BYTES = MIB  # an encoder.toml
MODEL_BYTES = 2048 * MIB  # a model's own file (protobuf has the same limit), a tokenizer
QUERY_FILE_BYTES = 64 * MIB  # a file of queries

SECONDS = 7.0  # for a PDF page, a web page, a picture, a few rows of Parquet; a worker process reads it
MEMORY = 640 * MIB  # of that process, in addition to its size at the start
PICTURE_MEMORY = 1024 * MIB  # of the worker that decodes pictures: three copies of the largest picture
OCR_SECONDS = 300.0  # for the text of one picture; a full page takes a few seconds on a core of its own
OCR_MEMORY = 2048 * MIB  # of the process that reads it
RUNAWAYS = 2  # pages of one file that may exceed their time or memory before the rest of the file is skipped


def mebibytes(count: int) -> str:
    """Format a number of bytes.

    >>> mebibytes(TEXT_BYTES), mebibytes(1000)
    ('64 MiB', '1,000 bytes')
    """
    return f"{count // MIB:,} MiB" if count >= MIB else f"{count:,} bytes"


def too_long(text: str | None) -> str | None:
    """Return why a text is too long for one document; None if it is not.

    >>> too_long("short")
    """
    if text is None or len(text) <= CHARACTERS:
        return None
    return f"has a text of {len(text):,} characters, and one document holds {CHARACTERS:,} at most. Split it"


def too_much_metadata() -> str:
    """Return why metadata is too large."""
    return (
        f"has too much metadata: at most {mebibytes(METADATA_BYTES)} of JSON and {METADATA_FACTS:,} values are stored. "
        "Move long values to the text, or leave them out"
    )
