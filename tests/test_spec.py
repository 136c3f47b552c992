"""A spec is a value: it reads, it writes, and it refuses what it cannot mean."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.calibration import METHODS, Spec
from isthmus.errors import BadSpec, UnknownName
from worlds import DYNAMIC_SPECS, SPECS


@pytest.mark.parametrize("text", [*SPECS, *DYNAMIC_SPECS, *METHODS])
def test_a_spec_written_and_read_again_is_the_same(text: str) -> None:
    spec = Spec.parse(text)
    assert Spec.parse(str(spec)) == spec
    assert Spec.parse(spec) is spec


@given(k=st.integers(1, 10**6), alpha=st.floats(-10, 10))
def test_settings_survive_writing_to_the_last_digit(k: int, alpha: float) -> None:
    bias = Spec.parse(str(Spec.parse(f"nnn(k={k},alpha={alpha!r})"))).bias
    assert (bias.k, bias.alpha) == (k, alpha)  # type: ignore[union-attr]


def test_defaults_are_left_out_and_spaces_do_not_matter() -> None:
    assert str(Spec.parse(" center + nnn( alpha = 0.75 , k = 16 ) ")) == "center+nnn(k=16)"
    assert str(Spec.parse("nnn(k=none)")) == "nnn"
    assert str(Spec.parse("qbnorm(beta=1e+2,dynamic=TRUE)")) == "qbnorm(beta=100.0,dynamic=true)"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("centre", "No calibration is called 'centre'. Did you mean 'center'?"),
        ("Center", "Did you mean 'center'?"),
        ("NNN", "Did you mean 'nnn'?"),
        ("nnn(kk=3)", "No setting of nnn is called 'kk'. Did you mean 'k'?"),
        ("zzzzzzz", "Known: blend, center, dbnorm"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_one(text: str, said: str) -> None:
    with pytest.raises(UnknownName) as caught:
        Spec.parse(text)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "cannot be read"),
        ("center+", "cannot be read"),
        ("+center", "cannot be read"),
        ("nnn(k=3", "cannot be read"),
        ("nnn(k=3)center", "cannot be read"),
        ("nnn(3)", "write settings as name=value, for instance nnn(k=16, alpha=0.75)"),
        ("center(k=3)", "center has no settings"),
        ("center+auto", "must be the only name"),
        ("nnn(k=3,k=4)", "k twice"),
        ("nnn(k=2.5)", "needs k as int or none, not '2.5'"),
        ("nnn(k=many)", "not 'many'"),
        ("nnn(k=true)", "not 'true'"),
        ("nnn(k=0)", "k ≥ 1, not 0"),
        ("nnn(alpha=nan)", "finite alpha"),
        ("dn(lam=inf)", "finite lam"),
        ("qbnorm(beta=0)", "beta between 1e-6 and 1e6, not 0.0"),
        ("qbnorm(beta=1e39)", "beta between"),
        ("qbnorm(dynamic=1)", "needs dynamic as bool"),
        ("dbnorm(beta_query=-1)", "beta_query between"),
        ("dbnorm(beta_gallery=0,beta_query=0)", "beta_gallery or beta_query above 0"),
        ("learned(l2=0)", "positive, finite l2"),
        ("learned(candidates=0)", "candidates ≥ 1"),
        ("minmax(k=0)", "minmax needs k ≥ 1"),
        ("zscore(k=0)", "zscore needs k ≥ 1"),
        ("rrf(k=0)", "rrf needs k ≥ 1"),
        ("nnn+center", "comes first"),
        ("center+dn", "more than one shift"),
        ("nnn+qbnorm", "more than one bias"),
        ("standardize+standardize", "more than one scale"),
        ("learned+nnn", "replaces scale and bias"),
        ("standardize+rrf", "replaces scale and bias"),
        ("qbnorm(dynamic=true)+standardize", "Put standardize before it"),
    ],
)
def test_a_spec_that_cannot_be_meant_is_refused_with_the_reason(text: str, said: str) -> None:
    with pytest.raises(BadSpec) as caught:
        Spec.parse(text)
    assert said in str(caught.value)
