"""The objectives of fusion: contrast with queues, and matching with three wrong documents."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from isthmus.train.fusion.objectives import ANY, contrast, drawn, labels, matching, ranking, right, spread, wrong
from isthmus.train.fusion.queues import Queue

EMPTY = torch.zeros(0, 4), torch.zeros(0, 2, dtype=torch.long)


def ids(*pairs: tuple[int, int]) -> torch.Tensor:
    return torch.tensor(pairs, dtype=torch.long)


THREE = ids((0, 0), (1, 1), (2, 2))


@given(n=st.integers(1, 6), k=st.integers(0, 5))
def test_uniform_similarities_give_the_logarithm_of_batch_and_queue(n: int, k: int) -> None:
    same = F.normalize(torch.ones(n, 4), dim=1)
    past = F.normalize(torch.ones(k, 4), dim=1), torch.arange(100, 100 + 2 * k).reshape(k, 2)
    own = torch.arange(2 * n).reshape(n, 2)
    assert contrast(same, same, (own, own), (past, past), 0.07).item() == pytest.approx(math.log(n + k), abs=1e-5)


def test_the_contrast_is_the_mean_of_both_directions_written_out() -> None:
    generator = torch.Generator().manual_seed(3)
    q, d, old_q, old_d = (F.normalize(torch.randn(n, 4, generator=generator), dim=1) for n in (3, 3, 2, 4))
    own, far = torch.arange(6).reshape(3, 2), torch.arange(50, 62).reshape(6, 2)
    loss = contrast(q, d, (own, own), ((old_q, far[:2]), (old_d, far[2:])), 0.1)

    def cross_entropy(asking: torch.Tensor, answers: torch.Tensor) -> float:
        total = 0.0
        for row in range(3):
            scores = [math.exp(float(asking[row] @ answer) / 0.1) for answer in answers]
            total -= math.log(scores[row] / sum(scores))
        return total / 3

    expected = (cross_entropy(q, torch.cat([d, old_d])) + cross_entropy(d, torch.cat([q, old_q]))) / 2
    assert loss.item() == pytest.approx(expected, abs=1e-5)


def test_repeated_ids_share_the_target_evenly() -> None:
    logits = torch.tensor([[2.0, 1.0, 0.0]])
    target = torch.tensor([[True, True, False]])
    log = F.log_softmax(logits, dim=1)[0]
    assert spread(logits, target).item() == pytest.approx(float(-(log[0] + log[1]) / 2))
    one = torch.tensor([[True, False, False]])
    assert spread(logits, one).item() == pytest.approx(float(-log[0]))


def test_a_document_in_the_queue_that_answers_is_no_wrong_answer() -> None:
    q = F.normalize(torch.eye(4)[:2], dim=1)
    own = ids((1, 1), (2, 2))
    again = q[:1], ids((1, 9))  # the text of the first query, under another photo
    about_text = ids((1, ANY), (2, ANY))
    turned = F.normalize(q + 0.5, dim=1)  # farther than what the queue holds
    with_truth = contrast(q, turned, (about_text, own), (EMPTY, again), 0.1)
    as_stranger = contrast(q, turned, (about_text, own), (EMPTY, (q[:1], ids((8, 9)))), 0.1)
    assert with_truth < as_stranger


def test_what_is_right_depends_on_what_a_query_asks_for() -> None:
    documents = ids((1, 1), (1, 2), (2, 1))
    assert right(ids((1, ANY)), documents).tolist() == [[True, True, False]]
    assert right(ids((ANY, 1)), documents).tolist() == [[True, False, True]]
    assert right(ids((1, 1)), documents).tolist() == [[True, False, False]]


def test_a_queue_keeps_the_last_ones_in_the_order_they_came() -> None:
    queue = Queue(5)
    for number in range(4):
        queue.put(torch.full((2, 3), float(number)), ids((number, 0), (number, 1)))
    assert queue.ids.tolist() == [[1, 1], [2, 0], [2, 1], [3, 0], [3, 1]]
    assert queue.vectors[:, 0].tolist() == [1.0, 2.0, 2.0, 3.0, 3.0]
    none = Queue(0)
    none.put(torch.ones(2, 3), ids((0, 0), (1, 1)))
    assert len(none.vectors) == 0


def test_a_queue_takes_no_part_in_the_gradient() -> None:
    queue = Queue(4)
    weight = torch.ones(2, 3, requires_grad=True)
    queue.put(weight * 2, ids((0, 0), (1, 1)))
    assert not queue.vectors.requires_grad


@given(seed=st.integers(0, 1000), n=st.integers(2, 8))
def test_a_drawn_negative_is_never_right(seed: int, n: int) -> None:
    rng = torch.Generator().manual_seed(seed)
    documents = torch.randint(0, 3, (n, 2), generator=rng)
    truth = right(documents, documents)
    if bool(truth.all(dim=1).any()):
        return
    several = drawn(torch.randn(n, n, generator=rng), truth, 0.05, 2, rng)
    assert not truth.gather(1, several).any()


def test_nearer_documents_are_drawn_more_often() -> None:
    rng = torch.Generator().manual_seed(0)
    similarity = torch.tensor([[0.9, 0.3, 0.0]]).repeat(2000, 1)
    truth = torch.tensor([[True, False, False]]).repeat(2000, 1)
    chosen = drawn(similarity, truth, 0.3, 1, rng)
    share = (chosen == 1).float().mean().item()
    expected = math.exp(0.3 / 0.3) / (math.exp(0.3 / 0.3) + 1)
    assert share == pytest.approx(expected, abs=0.04)


def test_where_all_are_right_the_neighbour_is_taken() -> None:
    rng = torch.Generator().manual_seed(0)
    assert drawn(torch.zeros(3, 3), torch.ones(3, 3, dtype=torch.bool), 0.1, 1, rng).tolist() == [[1], [2], [0]]
    assert drawn(torch.zeros(2, 4), torch.ones(2, 4, dtype=torch.bool), 0.1, 1, rng).tolist() == [[1], [2]]


def test_labels_are_one_to_three() -> None:
    assert labels(2).tolist() == [[1, 0, 0, 0], [1, 0, 0, 0]]
    assert matching(torch.zeros(5, 4)).item() == pytest.approx(math.log(2))
    sure = torch.tensor([[30.0, -30.0, -30.0, -30.0]])
    assert matching(sure).item() == pytest.approx(0, abs=1e-6)


def test_a_mixed_query_meets_both_pseudo_negatives() -> None:
    pairs = wrong(torch.tensor([[1, 2], [2, 0], [0, 1]]), (THREE, THREE))
    assert pairs.text.tolist()[0] == [1, 1, 0]  # drawn; its text with the right image; the right text with …
    assert pairs.image.tolist()[0] == [1, 0, 1]  # … its image


def test_a_document_that_still_answers_is_not_called_wrong() -> None:
    negatives = torch.tensor([[1, 2], [2, 0], [0, 1]])
    about_text = wrong(negatives, (ids((0, ANY), (1, ANY), (2, ANY)), THREE))
    assert about_text.text.tolist()[0] == [1, 1, 2]
    assert about_text.image.tolist()[0] == [1, 0, 2]  # no third one with the right text
    about_image = wrong(negatives, (ids((ANY, 0), (ANY, 1), (ANY, 2)), THREE))
    assert about_image.image.tolist()[0] == [1, 2, 1]
    assert about_image.text.tolist()[0] == [1, 2, 0]


def test_the_paper_calls_it_wrong_all_the_same() -> None:
    about_text = ids((0, ANY), (1, ANY), (2, ANY))
    pairs = wrong(torch.tensor([[1, 2], [2, 0], [0, 1]]), (about_text, THREE), paper=True)
    assert (pairs.text.tolist()[0], pairs.image.tolist()[0]) == ([1, 1, 0], [1, 0, 1])


@given(seed=st.integers(0, 500), kind=st.sampled_from([(True, True), (True, False), (False, True)]))
def test_no_wrong_document_is_right(seed: int, kind: tuple[bool, bool]) -> None:
    rng = torch.Generator().manual_seed(seed)
    n, m = 4, 7  # the matcher reads some queries of a batch
    documents = torch.randint(0, 4, (m, 2), generator=rng)  # texts and pictures come again
    queries = torch.where(torch.tensor(kind), documents[:n], ANY)
    truth = right(queries, documents)
    if bool(truth.all(dim=1).any()):
        return
    pairs = wrong(drawn(torch.randn(n, m, generator=rng), truth, 0.1, 2, rng), (queries, documents))
    for column in range(3):
        made = torch.stack([documents[pairs.text[:, column], 0], documents[pairs.image[:, column], 1]], dim=1)
        assert not right(queries, made).diagonal().any()


def test_ranking_is_the_logarithm_of_four_for_equals_and_sees_no_level() -> None:
    logits = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    assert float(ranking(torch.zeros(5, 4))) == pytest.approx(math.log(4))
    assert float(ranking(logits)) == pytest.approx(float(ranking(logits + torch.arange(5.0)[:, None])), abs=1e-6)
    assert float(ranking(torch.tensor([[9.0, 0.0, 0.0, 0.0]]))) < 0.001 < float(ranking(torch.tensor([[0.0, 9, 0, 0]])))
