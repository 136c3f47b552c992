"""How forge-mini learns: rewards, gradients, a teacher, and the file it becomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from isthmus.align import mini
from isthmus.align.base import Found
from isthmus.align.mini import ForgeMini
from isthmus.align.reading import ROOM, SIGNS, Window, WindowReader
from isthmus.evaluate.measures import values
from isthmus.train import forge_mini
from isthmus.train.forge import advantages
from isthmus.train.forge_mini import DIM, Example, ForgeMiniPolicy, ForgeMiniRecipe
from test_tower import session

SMALL = ForgeMiniRecipe(
    width=16, heads=2, dropout=0.1, batch=16, sft_steps=60, sft_rate=1e-2, rl_steps=60, rl_rate=1e-2
)
MARKED = 3


def example(rng: np.random.Generator, length: int = 8) -> Example:
    """A query of marked words and others, one token each; the mark is the first input."""
    marked = rng.permutation(length) < MARKED
    inputs = rng.normal(0, 0.3, (length, DIM + SIGNS)).astype(np.float32)
    inputs[:, 0] = np.where(marked, 3.0, -3.0)
    said = [f"{'yes' if mark else 'no'}{place}" for place, mark in enumerate(marked)]
    return Example(Window(said, np.arange(length), inputs, np.zeros(length, dtype=int)), marked, frozenset(["right"]))


def toys(count: int = 32) -> list[Example]:
    rng = np.random.default_rng(0)
    return [example(rng, int(rng.integers(4, 12))) for _ in range(count)]


class Marked:
    """Puts the right document the further down the fewer marked words are asked for."""

    name = "marked"

    def search(self, texts: Sequence[str], k: int = 10) -> list[Found]:
        missing = [MARKED - text.count("yes") for text in texts]
        return [[*((f"wrong{place}", 9.0 - place) for place in range(many)), ("right", 1.0)] for many in missing]


class Alike:
    name = "alike"

    def search(self, texts: Sequence[str], k: int = 10) -> list[Found]:
        return [[("wrong", 2.0), ("right", 1.0)] for _ in texts]


def random_policy(recipe: ForgeMiniRecipe = SMALL) -> ForgeMiniPolicy:
    torch.manual_seed(0)
    made = ForgeMiniPolicy(recipe)
    for weight in made.parameters():
        torch.nn.init.normal_(weight, std=0.2)
    return made.eval()


def kept_share(policy: ForgeMiniPolicy, examples: Sequence[Example]) -> tuple[float, float]:
    """Return how much of the marked and of the other words is kept."""
    with torch.no_grad():
        logits, _ = forge_mini.word_logits(policy.eval(), examples, "cpu")
    rows = [(logits[row, : len(each.teacher)].numpy() > 0, each.teacher) for row, each in enumerate(examples)]
    kept, marked = (np.concatenate(several) for several in zip(*rows, strict=True))
    return float(kept[marked].mean()), float(kept[~marked].mean())


def test_advantages_of_a_group_sum_to_zero_and_are_not_divided_by_the_deviation() -> None:
    rewards = torch.rand(5, 8, generator=torch.Generator().manual_seed(0))
    found = advantages(rewards)
    torch.testing.assert_close(found.sum(1), torch.zeros(5), rtol=0, atol=1e-6)
    torch.testing.assert_close(advantages(10 * rewards), 10 * found)
    assert vars(forge_mini)["advantages"] is advantages  # one definition for both trainers


def test_equal_rewards_move_nothing() -> None:
    made, start = random_policy(), random_policy()
    recipe = replace(SMALL, rl_steps=3, length_cost=0.0)
    curve = forge_mini.reinforced(made, toys(), [[Alike()]], recipe, "cpu")
    assert len(curve.rows) == 3
    for name, weight in start.state_dict().items():
        assert torch.equal(made.state_dict()[name], weight), name


def test_the_log_probability_of_a_sample_is_the_sum_over_its_words() -> None:
    rng = np.random.default_rng(0)
    logits, kept = rng.normal(0, 4, (3, 5)), rng.random((3, 7, 5)) < 0.5
    there = np.array([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 0, 0, 0, 0]], dtype=float)
    chance = 1 / (1 + np.exp(-logits))[:, None]  # (n, 1, w)
    expected = (np.log(np.where(kept, chance, 1 - chance)) * there[:, None]).sum(axis=2)
    found = forge_mini.log_probability(torch.tensor(logits), torch.tensor(kept), torch.tensor(there))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    far = forge_mini.log_probability(torch.tensor([[500.0]]), torch.tensor([[[False]]]), torch.ones(1, 1))
    assert far.tolist() == [[-500.0]]


def test_the_gradient_is_the_policy_gradient_of_the_expected_reward() -> None:
    """Over all samples of two words, Σ P · A · ∇log P is ∇ of the expected reward."""
    logits = torch.tensor([[0.3, -1.2]], dtype=torch.float64, requires_grad=True)
    every = torch.tensor([[[False, False], [False, True], [True, False], [True, True]]])
    reward = torch.tensor([[0.1, 0.9, 0.4, 0.2]], dtype=torch.float64)
    there = torch.ones(1, 2, dtype=torch.float64)
    said = forge_mini.log_probability(logits, every, there)
    (direct,) = torch.autograd.grad((said.exp() * reward).sum(), logits, retain_graph=True)
    (ours,) = torch.autograd.grad((said.exp().detach() * (reward - 0.7) * said).sum(), logits)
    torch.testing.assert_close(ours, direct)  # whatever is subtracted from every reward


def test_padding_never_changes_a_logit() -> None:
    made, several = random_policy(), toys(6)
    with torch.no_grad():
        together, there = forge_mini.word_logits(made, several, "cpu")
        for row, each in enumerate(several):
            alone, _ = forge_mini.word_logits(made, [each], "cpu")
            count = len(each.window.words)
            assert there[row].tolist() == [1.0] * count + [0.0] * (there.shape[1] - count)
            torch.testing.assert_close(together[row, :count], alone[0], rtol=1e-4, atol=1e-5)


def test_at_first_three_of_four_words_are_kept() -> None:
    logits, _ = forge_mini.word_logits(ForgeMiniPolicy(SMALL), toys(2), "cpu")
    torch.testing.assert_close(logits.sigmoid(), torch.full_like(logits, 0.75))


def test_leaning_keeps_words_from_a_lower_probability_on() -> None:
    made, several = random_policy(), toys(3)
    before, _ = forge_mini.word_logits(made, several, "cpu")
    made.lean(0.2)
    after, _ = forge_mini.word_logits(made, several, "cpu")
    torch.testing.assert_close(after - before, torch.full_like(before, np.log(4)))


@given(
    st.permutations([f"d{place}" for place in range(15)]), st.sets(st.integers(0, 20), min_size=1), st.integers(0, 15)
)
def test_ndcg_is_that_of_evaluate(order: list[str], right: set[int], length: int) -> None:
    found = [(name, 20.0 - place) for place, name in enumerate(order[:length])]
    judged = {f"d{place}": 1 for place in right}
    expected = values("nDCG@10", {"q": dict(found)}, {"q": judged}, by="ours")["q"]
    assert forge_mini.ndcg(found, frozenset(judged)) == pytest.approx(expected, abs=1e-12)


def test_the_reward_is_the_mean_over_the_retrievers_of_a_querys_own_corpus() -> None:
    first, second = toys(2)
    second = replace(second, corpus=1)
    found = forge_mini.rewards([first, second], [["yes yes yes", "no"], ["no", ""]], [[Marked(), Alike()], [Alike()]])
    half = 1 / np.log2(3)
    np.testing.assert_allclose(found, [[(1 + half) / 2, (1 / np.log2(5) + half) / 2], [half, half]], rtol=1e-6)


@pytest.mark.parametrize("length", [1, 8, 31, ROOM])
def test_what_is_exported_says_what_was_trained(length: int, exported: tuple[ForgeMiniPolicy, Path]) -> None:
    policy, path = exported
    rng = np.random.default_rng(length)
    inputs = rng.normal(size=(3, length, DIM + SIGNS)).astype(np.float32)
    mask = np.arange(length) < np.array([[length], [max(1, length // 2)], [1]])
    with torch.no_grad():
        expected = policy(torch.tensor(inputs), torch.tensor(mask)).numpy()
    (found,) = session(path.read_bytes()).run(None, {"inputs": inputs, "mask": mask})
    np.testing.assert_allclose(found[mask], expected[mask], atol=1e-4)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[ForgeMiniPolicy, Path]:
    policy, path = random_policy(), tmp_path_factory.mktemp("exported") / "made.onnx"
    forge_mini.export(policy, path)
    return policy, path


def test_what_is_exported_is_a_rewriter(exported: tuple[ForgeMiniPolicy, Path]) -> None:
    made = ForgeMini(WindowReader.open(1), mini.load(exported[1]).model)
    (new,) = made.rewrite(["a cat on a red sofa"])
    assert set(new.text.split()) <= {"a", "cat", "on", "red", "sofa"}


def test_a_teacher_teaches_which_words_to_keep() -> None:
    torch.manual_seed(0)
    made, said = ForgeMiniPolicy(SMALL), list[str]()
    forge_mini.supervised(made, toys(), SMALL, "cpu", said.append)
    losses = [float(line.rpartition(" ")[2]) for line in said]
    assert losses[-1] < losses[0] / 4
    marked, others = kept_share(made, toys())
    assert marked > 0.95
    assert others < 0.05


def test_rewards_alone_teach_it_too_and_the_length_cost_drops_the_rest() -> None:
    torch.manual_seed(0)
    made = ForgeMiniPolicy(SMALL)
    curve = forge_mini.reinforced(made, toys(), [[Marked()]], SMALL, "cpu")
    first, last = curve.rows[:5], curve.rows[-5:]
    assert np.mean([row["reward"] for row in last]) > np.mean([row["reward"] for row in first]) + 0.05
    assert np.mean([row["kept"] for row in last]) < np.mean([row["kept"] for row in first]) - 0.2
    marked, others = kept_share(made, toys())
    assert marked > 0.95
    assert others < 0.05


def test_the_same_seed_learns_the_same_and_time_ends_it() -> None:
    curves = []
    for _ in range(2):
        torch.manual_seed(0)
        curves.append(
            forge_mini.reinforced(ForgeMiniPolicy(SMALL), toys(), [[Marked()]], replace(SMALL, rl_steps=4), "cpu")
        )
    assert curves[0] == curves[1]
    assert forge_mini.reinforced(random_policy(), toys(), [[Marked()]], SMALL, "cpu", seconds=-1).rows == []
