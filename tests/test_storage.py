"""A calibration and its statistics as bytes: the same after reading, and one clear error when anything is damaged."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus import calibration, errors
from isthmus.calibration import Statistics
from isthmus.calibration.storage import from_bytes, to_bytes
from worlds import DYNAMIC_SPECS, SPECS, world

W = world(0)


def fitted_on(spec: str) -> calibration.Fitted:
    known = W.positives if "learned" in spec else None
    return calibration.fit(spec, W.documents, W.queries, positives=known, reference_documents=W.gallery)


KEPT = to_bytes(fitted_on("center+standardize+nnn(k=3)").with_balance({"image": 0.5}))
STATISTICS = Statistics.of(W.documents).to_bytes()


@pytest.mark.parametrize("spec", SPECS + DYNAMIC_SPECS)
def test_a_calibration_is_the_same_after_bytes(spec: str) -> None:
    fitted = fitted_on(spec)
    back = from_bytes(to_bytes(fitted))
    assert back.describe() == fitted.describe()
    assert np.array_equal(back.scores(W.asked, W.unseen), fitted.scores(W.asked, W.unseen))


def test_statistics_are_the_same_after_bytes_and_go_on_counting() -> None:
    back = Statistics.from_bytes(STATISTICS)
    assert back.counts == Statistics.of(W.documents).counts
    live = back.add(W.unseen).remove(W.documents)
    for part, mean in Statistics.of(W.unseen).means.items():
        np.testing.assert_allclose(live.means[part], mean, atol=1e-12)
    assert Statistics.from_bytes(Statistics({}).to_bytes()).parts == {}


@given(share=st.floats(0, 1, exclude_max=True))
def test_bytes_cut_anywhere_are_refused(share: float) -> None:
    for data, read in ((KEPT, from_bytes), (STATISTICS, Statistics.from_bytes)):
        with pytest.raises(errors.BadFile, match="is damaged"):
            read(data[: int(share * len(data))])


def test_one_changed_bit_is_refused_wherever_it_is() -> None:
    for data, read in ((KEPT, from_bytes), (STATISTICS, Statistics.from_bytes)):
        header = 8 + int.from_bytes(data[:8], "little")
        for place in [*range(0, header, 3), *range(header, len(data), 61)]:
            flipped = bytearray(data)
            flipped[place] ^= 1 << (place % 8)
            with pytest.raises(errors.BadFile, match="is damaged"):
                read(bytes(flipped))


def test_bytes_of_another_kind_are_refused_by_the_name_they_are_given() -> None:
    with pytest.raises(errors.BadFile, match="version 7 of things is damaged or contains no isthmus calibration"):
        from_bytes(STATISTICS, "version 7 of things")
    with pytest.raises(errors.BadFile, match="no isthmus statistics"):
        Statistics.from_bytes(KEPT)


def test_a_note_that_looks_like_a_seal_does_not_break_it() -> None:
    from dataclasses import replace

    note = '"seal":"' + "0" * 64 + '"'
    assert from_bytes(to_bytes(replace(fitted_on("none"), note=note))).note == note
