"""Calibrations side by side: the same numbers as fitting and scoring by hand."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from isthmus import calibration
from isthmus.calibration import Fitted, ndcg_at_10
from isthmus.calibration.passages import Passages
from isthmus.errors import BadInput, BadSpec, UnknownModality, UnknownName
from isthmus.evaluate import Corpus, References, alone, compare, fit, ranked, values
from isthmus.evaluate.compare import scored
from isthmus.types import Mask, Matrix, Rows, Vectors
from worlds import DYNAMIC_SPECS, SPECS, world

DYNAMIC = [spec for spec in DYNAMIC_SPECS if "dbnorm" not in spec]  # DualDIS folds without a factor of its own
PER_QUERY = ["minmax", "zscore", "rrf", "center+rrf"]


def corpus(seed: int = 0, *, elsewhere: bool = False, passages: bool = False) -> Corpus:
    """Make 30 documents (or 30 rows of fewer) and 11 queries, one to three right documents each."""
    made = world(seed, documents=30, queries=24)
    rng = np.random.default_rng(seed + 100)
    documents, owner = made.documents, None
    if passages:
        repeats = rng.integers(1, 4, size=30)
        rows = np.repeat(np.arange(30), repeats)
        owner = rows
        noise = {p: m[rows] + 0.3 * rng.normal(size=(len(rows), documents.dim)) for p, m in documents.parts.items()}
        documents = Vectors(noise, {p: mask[rows] for p, mask in documents.present.items()})
    names = [f"d{i}" for i in range(30)]
    qrels = {
        f"q{i}": {
            names[d]: int(rng.integers(1, 3)) for d in rng.choice(30, size=int(rng.integers(1, 4)), replace=False)
        }
        for i in range(11)
    }
    known = rng.integers(0, len(made.unseen) if elsewhere else 30, size=24)
    return Corpus(
        benchmark="world",
        encoder="random",
        document_ids=names,
        documents=documents,
        owner=owner,
        query_ids=[f"q{i}" for i in range(11)],
        queries=made.asked,
        qrels=qrels,
        types={f"q{i}": ("short", "long")[i % 2] for i in range(11)},
        references=References(
            queries=made.queries,
            sources=known,
            documents=made.unseen if elsewhere else None,
            gallery=made.gallery,
        ),
    )


def by_hand(of: Corpus, spec: str) -> Matrix:
    known = of.references
    documents, owner = (of.documents, of.owner) if known.documents is None else (known.documents, known.owner)
    fitted = calibration.fit(
        spec, documents, known.queries, sources=known.sources, reference_documents=known.gallery, owner=owner
    )
    sources = known.sources if known.documents is None else None
    return fitted.scores(of.queries, of.documents, sources=sources, owner=of.owner)


def relevant(of: Corpus) -> Mask:
    return np.array([[of.qrels[q].get(d, 0) > 0 for d in of.document_ids] for q in of.query_ids])


def codes(of: Corpus) -> Rows:
    return Passages.of(of.documents, of.owner).modality_code


@pytest.mark.parametrize("spec", [*SPECS, *DYNAMIC, *PER_QUERY])
@pytest.mark.parametrize("kind", ["here", "elsewhere", "passages"])
def test_comparing_is_fitting_and_scoring_by_hand(spec: str, kind: str) -> None:
    of = corpus(3, elsewhere=kind == "elsewhere", passages=kind == "passages")
    binary = replace(of, qrels={q: dict.fromkeys(judged, 1) for q, judged in of.qrels.items()})
    rows = {row.slice: row for row in compare(binary, [spec], ["nDCG@10"], resamples=10)}
    scores, right = by_hand(of, spec), relevant(of)
    assert rows["overall"].value == pytest.approx(ndcg_at_10(scores, right).mean())
    for code, name in enumerate(of.documents.modalities):
        there = right & (codes(of) == code)
        judged = there.any(axis=1)
        assert rows[name].value == pytest.approx(ndcg_at_10(scores[judged], there[judged]).mean())
    short = np.arange(11) % 2 == 0
    assert rows["short"].value == pytest.approx(ndcg_at_10(scores[short], right[short]).mean())


def test_a_row_for_each_spec_measure_and_slice_in_this_order() -> None:
    of, specs = corpus(), ["none", "rrf", "alone", "auto", "center + nnn( k=3 )", "none"]
    seen: list[tuple[str, bool]] = []
    rows = compare(
        of,
        specs,
        ["nDCG@10", "R@1", "RR"],
        resamples=50,
        notice=lambda name, fitted: seen.append((name, fitted is None)),
    )
    names = ["none", "rrf", "alone", "auto", "center + nnn( k=3 )"]
    parts = ["overall", "image", "image+text", "text", "long", "short"]
    expected = [(name, measure, part) for name in names for measure in ("nDCG@10", "R@1", "MRR") for part in parts]
    assert [(row.calibration, row.measure, row.slice) for row in rows] == expected
    assert {(row.benchmark, row.encoder) for row in rows} == {("world", "random")}
    assert all(0 <= row.low <= row.value <= row.high <= 1 for row in rows)
    assert seen == [(name, name == "alone") for name in names]
    assert compare(of, specs, ["nDCG@10", "R@1", "RR"], resamples=50) == rows


def test_the_run_of_a_row_can_be_had_and_gives_its_value() -> None:
    of = corpus()
    fitted = fit(of, "center+nnn(k=3)")
    run = ranked(of, fitted, k=5)
    assert {len(hits) for hits in run.values()} == {5}
    row = compare(of, [fitted.spec], ["nDCG(gain=exp)@5"], resamples=10)[0]
    assert row.value == pytest.approx(np.mean(list(values("nDCG(gain=exp)@5", run, of.qrels).values())))


def test_auto_chooses_as_fit_does() -> None:
    of, chosen = corpus(), dict[str, Fitted | None]()
    compare(of, ["auto"], resamples=10, notice=chosen.__setitem__)
    known = of.references
    expected = calibration.fit("auto", of.documents, known.queries, sources=known.sources)
    assert chosen["auto"] is not None
    assert chosen["auto"].spec == expected.spec


@pytest.mark.parametrize("kind", ["here", "elsewhere"])
def test_conditions_pass_the_known_pairs_to_the_fit_and_no_longer_keep_them_apart(kind: str) -> None:
    of = corpus(3, elsewhere=kind == "elsewhere")
    documents = of.documents if kind == "here" else of.references.documents
    assert documents is not None
    pairs = [(q, d) for q in range(len(of.references.queries)) for d in range(0, len(documents), 2)]
    of = replace(of, references=replace(of.references, sources=pairs))
    known = of.references
    for positives, sources in product(("pseudo", "labelled"), ("apart", "as-published")):
        hidden = known.sources if sources == "apart" else None
        expected = calibration.fit(
            "standardize",
            documents,
            known.queries,
            positives=known.sources if positives == "labelled" else None,
            sources=hidden,
        )
        changed = of.with_conditions(positives=positives, sources=sources)
        fitted = fit(changed, "standardize")
        assert fitted.scale is not None
        assert expected.scale is not None
        assert fitted.scale.statistics == expected.scale.statistics
    assert of.with_conditions().references.sources is known.sources


def test_as_published_a_bias_meets_the_sources_again() -> None:
    of = corpus(3)
    published = of.with_conditions(sources="as-published")
    scores = np.concatenate([block for _, block in scored(published, fit(published, "nnn(k=3)"))])
    expected = calibration.fit("nnn(k=3)", of.documents, of.references.queries).scores(of.queries, of.documents)
    np.testing.assert_allclose(scores, expected, atol=1e-5)
    assert np.abs(expected - by_hand(of, "nnn(k=3)")).max() > 1e-3


def test_conditions_that_do_not_exist_or_need_what_is_not_known_are_rejected() -> None:
    of = corpus()
    with pytest.raises(UnknownName, match="Did you mean 'labelled'"):
        of.with_conditions(positives="labeled")
    with pytest.raises(UnknownName, match="as-published"):
        of.with_conditions(sources="as-publishd")
    unknown = replace(of, references=replace(of.references, sources=None))
    with pytest.raises(BadInput, match="no known right documents"):
        unknown.with_conditions(positives="labelled")


def test_alone_searches_only_the_modalities_of_the_right_documents() -> None:
    of = corpus(passages=True)
    run = alone(of, k=1000)
    raw, right = by_hand(of, "none"), relevant(of)
    for row, query in enumerate(of.query_ids):
        allowed = np.isin(codes(of), codes(of)[right[row]])
        expected = [of.document_ids[i] for i in np.argsort(-raw[row], kind="stable") if allowed[i]]
        assert list(run[query]) == expected
    rows = {row.slice: row.value for row in compare(of, ["alone"], ["MRR"], resamples=10)}
    for code, name in enumerate(of.documents.modalities):  # in a slice: that modality alone
        there, inside = right & (codes(of) == code), codes(of) == code
        rank = [
            1 + np.flatnonzero(there[row, inside][np.argsort(-raw[row, inside])])[0]
            for row in np.flatnonzero(there.any(axis=1))
        ]
        assert rows[name] == pytest.approx(np.mean(1 / np.array(rank)))


def test_blocks_change_no_score(monkeypatch: pytest.MonkeyPatch) -> None:
    of = corpus(passages=True)
    for spec in ("center+nnn(k=3)", "minmax", "qbnorm(dynamic=true)"):
        fitted = fit(of, spec)
        whole = np.concatenate([scores for _, scores in scored(of, fitted)])
        with monkeypatch.context() as patch:
            patch.setitem(scored.__globals__, "BLOCK_BYTES", 8 * len(of.documents) * 4)
            blocks = list(scored(of, fitted))
        assert [rows.stop - rows.start for rows, _ in blocks] == [4, 4, 3]
        np.testing.assert_allclose(np.concatenate([scores for _, scores in blocks]), whole, atol=1e-5)


def test_a_right_document_that_is_not_here_counts_and_cannot_be_found() -> None:
    of = corpus()
    qrels = {"q0": {"d0": 1, "lost": 1}, "q1": {"lost": 1}}
    rows = {row.slice: row.value for row in compare(replace(of, qrels=qrels, types={}), ["alone"], ["R@30"])}
    assert rows == {"overall": 0.25, str(of.modality["d0"]): 1.0}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"document_ids": ["a"]}, "30 document vectors and 1 ids"),
        ({"query_ids": ["a"]}, "11 query vectors and 1 ids"),
        ({"document_ids": ["d1"] * 30}, "document ids occur twice"),
        ({"qrels": {"nobody": {"d1": 1}}}, "'nobody'"),
        ({"qrels": {"q1": {"d1": 0}}}, "No right document"),
        ({"qrels": {"q1": {"x": 1}}}, "No right document"),
    ],
)
def test_a_corpus_that_does_not_fit_together_is_refused(change: dict[str, object], says: str) -> None:
    with pytest.raises(BadInput, match=says):
        replace(corpus(), **change)  # type: ignore[arg-type]


def test_wrong_names_are_refused_before_anything_is_fitted() -> None:
    def never(name: str, fitted: Fitted | None) -> None:
        raise AssertionError(name)

    with pytest.raises(UnknownName, match="'center'"):
        compare(corpus(), ["none", "centre"], notice=never)
    with pytest.raises(UnknownName, match="'nDCG'"):
        compare(corpus(), ["none"], ["nDGC@10"], notice=never)
    with pytest.raises(BadInput, match="at least one"):
        compare(corpus(), [])
    text = Vectors.of(np.ones((3, 8)), "text")
    with pytest.raises(UnknownModality, match="image"):
        compare(replace(corpus(), references=References(queries=text)), ["none"])


def test_means_of_the_searched_documents_or_of_the_training_split() -> None:
    of = corpus(2, elsewhere=True)
    known = of.references
    assert known.documents is not None
    for spec in ("center", "dn(lam=1.0)", "center+nnn(k=3)+standardize"):
        shift = spec.partition("+")[0]
        own, train = fit(of.with_means("own"), spec), fit(of.with_means("train"), spec)
        for fitted, origin in ((own, of.documents), (train, known.documents)):
            means = calibration.fit(shift, origin, known.queries)
            by_hand = calibration.fit(spec, known.documents, known.queries, sources=known.sources, means=means)
            np.testing.assert_array_equal(
                fitted.scores(of.queries, of.documents), by_hand.scores(of.queries, of.documents)
            )
        assert ranked(of, own) != ranked(of, train)
        assert ranked(of, train) == ranked(of, fit(of, spec))


def test_means_of_a_fitted_calibration_serve_documents_and_queries() -> None:
    of, elsewhere = corpus(2), corpus(5)
    other = calibration.fit("center", elsewhere.documents, elsewhere.queries)
    given = of.with_means(other)
    known = of.references
    by_hand = calibration.fit("center+nnn(k=3)", of.documents, known.queries, sources=known.sources, means=other)
    found = fit(given, "center+nnn(k=3)")
    np.testing.assert_array_equal(found.scores(of.queries, of.documents), by_hand.scores(of.queries, of.documents))
    assert ranked(given, fit(given, "center")) != ranked(of, fit(of, "center"))
    assert ranked(given, fit(given, "nnn(k=3)")) == ranked(of, fit(of, "nnn(k=3)"))
    with pytest.raises(BadSpec, match="same shift"):
        fit(given, "dn")


def test_references_of_a_kind_without_given_means_are_left_out() -> None:
    of, elsewhere = corpus(2), corpus(5)
    texts = elsewhere.queries.take(elsewhere.queries.modality == "text")
    other = calibration.fit("center", elsewhere.documents, texts)
    queries = of.references.queries
    mixed = Vectors.concat([queries.take(queries.modality == "text"), Vectors.of(np.eye(8)[:4], "image")])
    of = replace(of, references=References(queries=mixed))
    asked = of.queries.take(of.queries.modality == "text")
    found = fit(of.with_means(other), "center+nnn(k=3)").scores(asked, of.documents)
    alone = mixed.take(mixed.modality == "text")
    by_hand = calibration.fit("center+nnn(k=3)", of.documents, alone, means=other).scores(asked, of.documents)
    np.testing.assert_array_equal(found, by_hand)


def test_a_calibration_without_means_does_not_depend_on_their_origin() -> None:
    of = corpus(2, elsewhere=True)
    for spec in ("none", "nnn(k=3)", "rrf"):
        assert ranked(of, fit(of.with_means("own"), spec)) == ranked(of, fit(of, spec))
    here = corpus(2)
    assert ranked(here, fit(here.with_means("own"), "center")) == ranked(here, fit(here, "center"))


def test_auto_keeps_its_choice_and_takes_it_with_the_means_of_the_searched_documents() -> None:
    of = corpus(2, elsewhere=True)
    usual, own = fit(of, "auto"), fit(of.with_means("own"), "auto")
    assert (own.spec, own.tuned, own.note) == (usual.spec, usual.tuned, usual.note)
    again = fit(of.with_means("own"), usual.spec)
    np.testing.assert_array_equal(own.scores(of.queries, of.documents), again.scores(of.queries, of.documents))


def test_an_unknown_origin_of_means_and_a_missing_training_split_are_refused() -> None:
    with pytest.raises(UnknownName, match=r"No origin of means is called 'trian'\. Did you mean 'train'\?"):
        corpus().with_means("trian")
    with pytest.raises(BadInput, match="needs documents of a training split"):
        corpus().with_means("train")


def test_fusion_gives_texts_the_weight_it_says() -> None:
    of = corpus(4, elsewhere=True)
    both = np.flatnonzero(of.documents.modality == "image+text")
    for alpha, part in ((0.0, "image"), (1.0, "text")):
        scores = fit(of.fused(alpha), "none").scores(of.queries, of.fused(alpha).documents)[:, both]
        lone = Vectors.of(of.documents.parts[part][both], part)
        np.testing.assert_allclose(scores, fit(of, "none").scores(of.queries, lone), atol=1e-12)
    rows = {alpha: compare(of.fused(alpha), ["center"], resamples=10) for alpha in (0.1, 0.5, 0.9)}
    assert rows[0.5] == compare(of, ["center"], resamples=10)
    assert rows[0.1] != rows[0.9]
    seen = of.fused(0.1).references.documents
    assert seen is not None and seen.weights is not None
    texts = replace(of, documents=Vectors.of(np.random.default_rng(0).normal(size=(30, 8)), "text"))
    with pytest.raises(BadInput, match="nothing to fuse"):
        texts.fused(0.5)
    with pytest.raises(BadInput, match="from 0 to 1"):
        of.fused(1.5)
