"""GR-CLIP's experiments take any paired set: the corpora they make, and what a gap does to them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from isthmus.types import Vectors

ROOT = Path(__file__).parent.parent
N = 60


@pytest.fixture
def paired(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "reproduce"))
    import paired

    return paired


def things(paired: ModuleType, *parts: str) -> object:
    """Make things whose parts are noisy copies of one meaning, each part in a cone of its own, as their queries are."""
    rng = np.random.default_rng(0)
    cones = {name: 2.0 * rng.normal(size=16) for name in ("text", *parts)}

    def vectors(names: tuple[str, ...]) -> dict[str, np.ndarray]:
        meaning = rng.normal(size=(N, 16))
        return {n: meaning + cones[n.partition(" ")[0]] + 0.3 * rng.normal(size=(N, 16)) for n in names}

    made, train = (vectors(("text", *parts, "text asked")) for _ in range(2))
    asked, references = (Vectors.of(each.pop("text asked"), "text") for each in (made, train))
    return paired.Paired("things", Vectors(made), asked, references, Vectors(train))


@pytest.mark.parametrize("parts", [("image",), ("audio",), ("video",), ("audio", "video")])
def test_a_gap_buries_any_kind_of_part_and_centring_finds_it(paired: ModuleType, parts: tuple[str, ...]) -> None:
    of = things(paired, *parts)
    half = paired.replaced(of.documents, 0.5, np.random.default_rng(1))  # type: ignore[attr-defined]
    assert set(half.modality) == {"text", "+".join(sorted(parts))}
    value = {
        name: paired.measured(paired.scores(of, half, name))["nDCG@10"]
        for name in (
            paired.RAW,
            paired.DOWN,
            paired.BELOW,
            paired.OWN,
            paired.TRAIN,
            paired.ONE,
            paired.EACH,
            paired.OURS,
        )
    }
    assert abs(value[paired.RAW] - value[paired.BELOW]) < 0.02  # the push-down explains the loss
    assert value[paired.DOWN] <= value[paired.BELOW]
    for name in (paired.OWN, paired.TRAIN, paired.ONE, paired.EACH, paired.OURS):
        assert value[name] > value[paired.RAW] + 0.2, name


def test_a_mixture_has_its_ratio_and_a_share_its_ends(paired: ModuleType) -> None:
    documents = things(paired, "image").documents  # type: ignore[attr-defined]
    made = paired.mixed(documents, (7, 2, 1), np.random.default_rng(0))
    assert Counter(made.modality.tolist()) == {"text": 42, "image": 12, "image+text": 6}
    for share, part in ((0.0, "text"), (1.0, "image")):
        assert set(paired.replaced(documents, share, np.random.default_rng(0)).modality) == {part}


def test_the_measures_of_known_ranks(paired: ModuleType) -> None:
    scores = np.array([[3.0, 2.0, 1.0], [3.0, 2.0, 1.0], [2.0, 2.0, 2.0]])  # ranks 1, 2 and, after its equals, 3
    assert paired.measured(scores) == pytest.approx(
        {"nDCG@10": (1 + 1 / np.log2(3) + 0.5) / 3, "nDCG@100": (1 + 1 / np.log2(3) + 0.5) / 3, "R@1": 1 / 3}
    )
