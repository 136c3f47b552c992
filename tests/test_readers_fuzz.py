"""Whatever is in a file, every reader gives documents, or skips it with a reason."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pytest

import fuzz

COUNT = {"picture": 120, "pdf": 30, "html": 40, "parquet": 40}


@pytest.mark.filterwarnings("ignore")  # Pillow warns of what is odd in a damaged picture
@pytest.mark.parametrize("reader", fuzz.READERS)
def test_a_damaged_file_is_read_or_skipped_with_a_reason(reader: str, tmp_path: Path) -> None:
    seen = fuzz.run(reader, np.random.default_rng(zlib.crc32(reader.encode())), COUNT.get(reader, 60), tmp_path)
    assert seen["documents"] > 0
    assert seen["skipped"] + seen["refused"] > 0


def test_the_same_seed_makes_the_same_files() -> None:
    one, other = (fuzz.cases("pdf", np.random.default_rng(7)) for _ in range(2))
    assert [next(one) for _ in range(30)] == [next(other) for _ in range(30)]
