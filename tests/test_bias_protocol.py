"""A bias of one's own: a class and a line in the table, and every claim about calibrations holds for it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType

import numpy as np
import pytest

import test_folding
import test_invariants
import test_passages
import test_storage
from isthmus import calibration, errors
from isthmus.calibration import METHODS, Banks, BiasMethod, Method, StepKind
from isthmus.errors import BadVectors, CannotFit
from isthmus.types import Mask, Matrix, Vectors
from worlds import SPECS, world


def finite_median(similarity: Matrix) -> Matrix:
    return np.asarray(np.nanmedian(np.where(np.isfinite(similarity), similarity, np.nan), axis=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class MedianBias(BiasMethod):
    """Subtract a share of each document's median similarity to the reference queries."""

    alpha: float = 0.5

    def columns(self, banks: Banks) -> Matrix:
        return banks.references.reduce(lambda similarity, _: finite_median(similarity))[:, None]

    def coefficients(self, active: Mask) -> Matrix:
        return np.full((len(active), 1), self.alpha)


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoBanks(BiasMethod):
    """Subtract a third of the nearest reference document's similarity and a quarter of the nearest query's."""

    @property
    def needs_gallery(self) -> bool:
        return True

    def columns(self, banks: Banks) -> Matrix:
        assert banks.gallery is not None
        return np.stack([banks.gallery.mean_of_largest(1), banks.references.mean_of_largest(1)], axis=1)

    def coefficients(self, active: Mask) -> Matrix:
        return np.tile([1 / 3, 1 / 4], (len(active), 1))


TOYS = [
    *("median(alpha=0.3)", "center+median", "standardize+median", "median+standardize", "dn+median(alpha=2.0)"),
    *("two_banks", "standardize+two_banks", "center+two_banks+standardize"),
]


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(METHODS, "median", Method(StepKind.BIAS, MedianBias))
    monkeypatch.setitem(METHODS, "two_banks", Method(StepKind.BIAS, TwoBanks))
    yield


def battery(*modules: ModuleType) -> list[Callable[..., None]]:
    """Every test that runs on all the specs of worlds.py."""
    found = []
    for module in modules:
        for name, test in vars(module).items():
            marks = getattr(test, "pytestmark", []) if name.startswith("test_") else []
            if any(mark.args[0] == "spec" and set(SPECS) <= set(mark.args[1]) for mark in marks):
                found.append(test)
    return found


BATTERY = battery(test_folding, test_invariants, test_passages, test_storage)


@pytest.mark.parametrize("spec", TOYS)
@pytest.mark.parametrize("claim", BATTERY, ids=[test.__name__ for test in BATTERY])
def test_every_claim_about_calibrations_holds_for_a_bias_of_ones_own(
    claim: Callable[..., None], spec: str, request: pytest.FixtureRequest
) -> None:
    wanted = inspect.signature(claim).parameters
    claim(spec=spec, **{name: request.getfixturevalue(name) for name in wanted if name != "spec"})


def test_every_claim_is_found() -> None:
    names = [test.__name__ for test in BATTERY]
    assert len(names) >= 10
    assert "test_folded_inner_products_finished_equal_the_dense_scores" in names


def test_two_columns_and_a_scale_before_or_after_them_score_by_the_equation() -> None:
    w = world(2)
    x, references, asked = (
        calibration.fit("none", w.documents, w.queries).fold_queries(v).vectors.astype(float)
        for v in (w.documents, w.queries, w.asked)
    )
    gallery = calibration.fit("none", w.documents, w.queries).fold(w.gallery).vectors.astype(float)
    fitted = calibration.fit("two_banks", w.documents, w.queries, reference_documents=w.gallery)
    found = fitted.scores(w.asked, w.documents)
    for modality in w.queries.modalities:
        of_query = (x @ references[w.queries.modality == modality].T).max(axis=1)
        rows = w.asked.modality == modality
        expected = asked[rows] @ x.T - (x @ gallery.T).max(axis=1) / 3 - of_query / 4
        np.testing.assert_allclose(found[rows], expected, atol=1e-6)


def test_alpha_of_a_bias_of_ones_own_changes_without_touching_folded_documents() -> None:
    w = world()
    fitted = calibration.fit("standardize+median", w.documents, w.queries)
    changed = fitted.with_alpha(0.2)
    assert str(changed.spec) == "standardize+median(alpha=0.2)"
    assert np.array_equal(changed.fold(w.documents).vectors, fitted.fold(w.documents).vectors)
    with pytest.raises(errors.BadSpec, match="only nnn, median has"):
        calibration.fit("center", w.documents, w.queries).with_alpha(0.2)


def test_a_bias_of_ones_own_without_its_gallery_is_refused() -> None:
    w = world()
    with pytest.raises(errors.CannotFit, match=r"two_banks.* needs a gallery bank"):
        calibration.fit("two_banks", w.documents, w.queries)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongBias(BiasMethod):
    """A bias with a fault: too many neighbours, or a row of numbers for a column."""

    neighbours: int = 0

    def columns(self, banks: Banks) -> Matrix:
        if self.neighbours:
            return banks.references.mean_of_largest(self.neighbours)[:, None]
        return banks.references.mean_of_largest(1)


def test_a_faulty_bias_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "wrong", Method(StepKind.BIAS, WrongBias))
    rng = np.random.default_rng(0)
    documents = Vectors.of(rng.normal(size=(12, 6)), "image")
    queries = Vectors.of(rng.normal(size=(20, 6)), "text")
    with pytest.raises(BadVectors, match=r"WrongBias.columns returned an array of shape \(12,\) for 12 documents"):
        calibration.fit("wrong", documents, queries).fold(documents)
    with pytest.raises(CannotFit, match="The 21 nearest of 20 reference queries"):
        calibration.fit("wrong(neighbours=21)", documents, queries).fold(documents)
