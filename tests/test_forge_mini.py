"""forge-mini: the lower layers it reads through, the words it sees, what it keeps, and how it learns that."""

from __future__ import annotations

import inspect
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from onnxruntime import InferenceSession, SessionOptions
from typer.testing import CliRunner

from isthmus import encoders
from isthmus.align import mini
from isthmus.align.base import DESCRIPTION, Found, Rewritten, joined
from isthmus.align.mini import ForgeMini
from isthmus.align.reading import FEATURES, ROOM, SIGNS, Reader, Window, padded, reader
from isthmus.cli import app, train_forge_mini
from isthmus.encoders.tower import cut
from isthmus.errors import BadFile, BadInput
from isthmus.evaluate.chat import chats
from isthmus.evaluate.measures import values
from isthmus.train import forge_data, forge_mini
from isthmus.train.forge import advantages
from isthmus.train.forge_mini import DIM, Example, Policy, Recipe
from tiny import text_model

TOWER = Path(encoders.__file__).parent / "mini" / "text.onnx"
TEXTS = st.lists(
    st.sampled_from(
        ["cat", "Sofa", "14", "naïve", "猫", "🐱", "\u200b", "\ud800", "hi,", "…", "Image", "Description:", "\n"]
    ),
    max_size=30,
)


def session(model: bytes) -> InferenceSession:
    options = SessionOptions()
    options.log_severity_level = 3
    return InferenceSession(model, options)


# The cut.


def test_a_tower_that_is_cut_gives_what_the_whole_one_has_at_that_place() -> None:
    whole = onnx.load_model_from_string(TOWER.read_bytes())
    whole.graph.output.append(onnx.ValueInfoProto(name=FEATURES))
    asked = {"tokens": np.array([[101, 1037, 4937, 2006, 1037, 102]]), "mask": np.ones((1, 6), dtype=np.int64)}
    (expected,) = session(whole.SerializeToString()).run([FEATURES], asked)
    lower = session(cut(TOWER.read_bytes(), FEATURES))
    (found,) = lower.run(None, asked)
    assert [each.name for each in lower.get_outputs()] == [FEATURES]
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_what_a_cut_leaves_is_a_model_and_shorter() -> None:
    model = text_model(20)
    model.ir_version = 8
    inner = model.graph.node[0].output[0]
    lower = onnx.load_model_from_string(cut(model.SerializeToString(), inner))
    assert [node.output[0] for node in lower.graph.node] == [inner]
    assert [each.name for each in lower.graph.output] == [inner]
    assert (lower.ir_version, lower.opset_import) == (8, model.opset_import)


def test_a_tensor_that_is_not_there_is_said_and_so_is_a_damaged_file() -> None:
    model = text_model(20).SerializeToString()
    inner = text_model(20).graph.node[0].output[0]
    for tensor in ("nowhere", "tokens"):  # an input is nothing that can be cut behind
        with pytest.raises(BadFile, match=f"no tensor called '{tensor}'"):
            cut(model, tensor)
    with pytest.raises(BadFile, match="no tensor"):
        cut(b"", inner)
    for length in range(20, len(model) - 20, 37):
        with pytest.raises(BadFile, match="cut short"):
            cut(model[:length], inner)


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_bytes_that_are_no_model_are_refused(junk: bytes) -> None:
    with pytest.raises(BadFile):
        cut(junk, "features")


# What is read.


def words(text: str) -> list[str]:
    return [word for window in reader().read(text) for word in window.words]


def check(window: Window) -> None:
    """Words and their first tokens line up, and every token has its inputs."""
    lengths = np.diff([*window.first, len(window.inputs)])
    assert len(window.first) == len(window.words)
    assert window.inputs.shape == (lengths.sum(), DIM + SIGNS)
    assert 0 < len(window.inputs) <= ROOM
    assert np.isfinite(window.inputs).all()
    for word, length in zip(window.words, lengths, strict=True):
        alone = reader().tokenizer.encode(word.encode("utf-8", "replace").decode(), add_special_tokens=False)
        assert length == min(ROOM, len(alone.ids))


def test_a_text_is_read_as_its_words_and_tokens_line_up_with_them() -> None:
    (window,) = reader().read("Hyperlipidaemia, in 14 cats!")
    assert window.words == ["Hyperlipidaemia,", "in", "14", "cats!"]
    check(window)


def test_what_a_word_looks_like_stands_beside_its_vector() -> None:
    (window,) = reader().read("Does HDL help Ann? Yes, 3x\nImage Description: it does")
    caption, digit, name, capitals, opens, stop, length = window.inputs[window.first, DIM:].T
    assert window.words == ["Does", "HDL", "help", "Ann?", "Yes,", "3x", "it", "does"]
    assert caption.tolist() == [0, 0, 0, 0, 0, 0, 1, 1]
    assert digit.tolist() == [0, 0, 0, 0, 0, 1, 0, 0]
    assert name.tolist() == [0, 1, 0, 1, 0, 0, 0, 0]
    assert capitals.tolist() == [0, 1, 0, 0, 0, 0, 0, 0]
    assert opens.tolist() == [1, 0, 0, 0, 1, 0, 1, 0]
    assert stop.tolist() == [0, 0, 0, 1, 1, 0, 0, 0]
    np.testing.assert_allclose(length * 20, [4, 3, 4, 4, 4, 2, 2, 4], rtol=1e-6)


def test_the_mark_before_a_caption_is_no_word_but_inside_a_line_it_is() -> None:
    assert words(joined("what is this", ["a red sofa", "a cat"])) == [
        "what",
        "is",
        "this",
        "a",
        "red",
        "sofa",
        "a",
        "cat",
    ]
    assert words(DESCRIPTION) == []
    assert words("an Image Description: helps") == ["an", "Image", "Description:", "helps"]


def test_a_text_longer_than_a_window_keeps_all_its_words() -> None:
    text = [f"word{number}" for number in range(1000)]
    windows = reader().read(" ".join(text))
    assert len(windows) > 3
    assert [word for window in windows for word in window.words] == text
    for window in windows:
        check(window)


@pytest.mark.parametrize("odd", ["x" * 5000, "a" + "." * 5000, "🐱", "👨‍👩‍👧", "猫" * 900, "\ud800"])
def test_odd_words_are_words(odd: str) -> None:
    windows = reader().read(f"the {odd} sleeps")
    assert [word for window in windows for word in window.words] == ["the", odd, "sleeps"]
    for window in windows:
        check(window)


@pytest.mark.parametrize("text", ["", " \n\t ", "\u200b", "\x00"])
def test_of_nothing_nothing_is_read(text: str) -> None:
    assert reader().read(text) == []


def test_padding_is_told_from_tokens() -> None:
    short, long = reader().read("a cat")[0], reader().read("a cat on a red sofa")[0]
    inputs, mask = padded([short, long])
    assert inputs.shape == (2, 6, DIM + SIGNS)
    assert mask.sum(axis=1).tolist() == [2, 6]
    assert not inputs[0, 2:].any()


# What is kept.


@pytest.fixture(scope="module")
def shipped() -> ForgeMini:
    return mini.load()


@pytest.mark.parametrize(
    "query", ["a cat on a red sofa", "two dogs playing in snow", "segmentation fault in numpy", "dogs"]
)
def test_what_is_short_and_clean_stays_as_it_is(query: str, shipped: ForgeMini) -> None:
    assert shipped.rewrite([query]) == [Rewritten(query)]


def test_talk_goes_and_what_is_asked_for_stays(shipped: ForgeMini) -> None:
    (chat,) = chats({"c": "Vitamin D deficiency raises the risk of asthma attacks."}, split="test")
    text = joined(chat.text, [chat.screen])
    (new,) = shipped.rewrite([text])
    assert new.fell_back is None
    assert len(new.text.split()) < len(text.split()) / 2
    assert {"Vitamin", "deficiency", "asthma"} <= set(new.text.split())
    assert shipped.rewrite([text]) == [new]


@settings(deadline=None, max_examples=30)
@given(TEXTS)
def test_each_word_that_is_kept_was_there_in_that_order(several: list[str]) -> None:
    text = " ".join(several)
    (new,) = mini.load().rewrite([text])
    if new.fell_back:
        assert new.text == text
    left = iter(text.split())
    assert all(word in left for word in new.text.split())  # a subsequence: each is looked for behind the one before
    assert [word for word, _ in mini.load().likely(text)] == words(text)
    assert all(0 <= chance <= 1 for _, chance in mini.load().likely(text))


@pytest.mark.parametrize("text", ["", "  ", "\n", "\u200b"])
def test_nothing_stays_nothing_and_says_so(text: str, shipped: ForgeMini) -> None:
    assert shipped.rewrite([text]) == [Rewritten(text, "no word was worth keeping")]
    assert shipped.rewrite([]) == []


def test_three_thousand_words_are_rewritten(shipped: ForgeMini) -> None:
    text = "Hi all, thanks for reading, my cat has asthma since Sunday. " * 272
    assert len(text.split()) > 2990
    (new,) = shipped.rewrite([text])
    assert 0 < len(new.text.split()) < len(text.split())


def test_the_shipped_model_is_small() -> None:
    assert mini.MODEL.stat().st_size < 10e6


# How it learns.

SMALL = Recipe(width=16, heads=2, dropout=0.1, batch=16, sft_steps=60, sft_rate=1e-2, rl_steps=60, rl_rate=1e-2)


MARKED = 3


def example(rng: np.random.Generator, length: int = 8) -> Example:
    """A query of marked words and others, one token each; the mark is the first input."""
    marked = rng.permutation(length) < MARKED
    inputs = rng.normal(0, 0.3, (length, DIM + SIGNS)).astype(np.float32)
    inputs[:, 0] = np.where(marked, 3.0, -3.0)
    said = [f"{'yes' if mark else 'no'}{place}" for place, mark in enumerate(marked)]
    return Example(Window(said, np.arange(length), inputs), marked, frozenset(["right"]))


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


def random_policy(recipe: Recipe = SMALL) -> Policy:
    torch.manual_seed(0)
    made = Policy(recipe)
    for weight in made.parameters():
        torch.nn.init.normal_(weight, std=0.2)
    return made.eval()


def kept_share(policy: Policy, examples: Sequence[Example]) -> tuple[float, float]:
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
    logits, _ = forge_mini.word_logits(Policy(SMALL), toys(2), "cpu")
    torch.testing.assert_close(logits.sigmoid(), torch.full_like(logits, 0.75))


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
def test_what_is_exported_says_what_was_trained(length: int, exported: tuple[Policy, Path]) -> None:
    policy, path = exported
    rng = np.random.default_rng(length)
    inputs = rng.normal(size=(3, length, DIM + SIGNS)).astype(np.float32)
    mask = np.arange(length) < np.array([[length], [max(1, length // 2)], [1]])
    with torch.no_grad():
        expected = policy(torch.tensor(inputs), torch.tensor(mask)).numpy()
    (found,) = session(path.read_bytes()).run(None, {"inputs": inputs, "mask": mask})
    np.testing.assert_allclose(found[mask], expected[mask], atol=1e-4)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Policy, Path]:
    policy, path = random_policy(), tmp_path_factory.mktemp("exported") / "made.onnx"
    forge_mini.export(policy, path)
    return policy, path


def test_what_is_exported_is_a_rewriter(exported: tuple[Policy, Path]) -> None:
    made = ForgeMini(Reader.open(1), mini.load(exported[1]).model)
    (new,) = made.rewrite(["a cat on a red sofa"])
    assert set(new.text.split()) <= {"a", "cat", "on", "red", "sofa"}


def test_a_teacher_teaches_which_words_to_keep() -> None:
    torch.manual_seed(0)
    made, said = Policy(SMALL), list[str]()
    forge_mini.supervised(made, toys(), SMALL, "cpu", said.append)
    losses = [float(line.rpartition(" ")[2]) for line in said]
    assert losses[-1] < losses[0] / 4
    marked, others = kept_share(made, toys())
    assert marked > 0.95
    assert others < 0.05


def test_rewards_alone_teach_it_too_and_the_length_cost_drops_the_rest() -> None:
    torch.manual_seed(0)
    made = Policy(SMALL)
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
        curves.append(forge_mini.reinforced(Policy(SMALL), toys(), [[Marked()]], replace(SMALL, rl_steps=4), "cpu"))
    assert curves[0] == curves[1]
    assert forge_mini.reinforced(random_policy(), toys(), [[Marked()]], SMALL, "cpu", seconds=-1).rows == []


# The command.

CLAIMS = {
    "1": "Aspirin lowers the risk of stroke in old patients.",
    "2": "Vitamin D deficiency raises the risk of asthma.",
    "3": "Statins lower cholesterol in men and women.",
    "4": "Tea prevents colds.",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four claims and their abstracts, three photos of which only the captions are read."""
    scifact, flickr = tmp_path / "scifact", tmp_path / "flickr8k"
    (scifact / "qrels").mkdir(parents=True)
    (flickr / "images").mkdir(parents=True)
    for name, rows in (
        ("corpus", [{"_id": f"d{key}", "title": "A trial.", "text": claim} for key, claim in CLAIMS.items()]),
        ("queries", [{"_id": key, "text": claim} for key, claim in CLAIMS.items()]),
    ):
        (scifact / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    for split, keys in (("train", "123"), ("test", "4")):
        judged = "".join(f"{key}\td{key}\t1\n" for key in keys)
        (scifact / "qrels" / f"{split}.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}")
    photos = {
        "a.jpg": ["A dog runs .", "A brown dog on grass ."],
        "b.jpg": ["Two girls ."],
        "c.jpg": ["A car .", "Red"],
    }
    lines = [f"{photo}#{at}\t{said}\n" for photo, several in photos.items() for at, said in enumerate(several)]
    (flickr / "Flickr8k.token.txt").write_text("".join(lines))
    (flickr / "Flickr_8k.trainImages.txt").write_text("".join(f"{photo}\n" for photo in photos))
    return tmp_path


def command(folder: Path, *more: str, steps: int = 2) -> list[str]:
    given = ["--data", str(folder), "--out", str(folder / "made" / "small.onnx"), "--batch", "4", "--held-out", "1"]
    return ["train", "forge-mini", *given, "--supervised-steps", str(steps), "--steps", str(steps), *more]


@pytest.mark.parametrize(
    ("more", "stages"),
    [((), ["sft", "sft", "rl", "rl"]), (("--supervised-only",), ["sft"] * 2), (("--no-supervised",), ["rl"] * 2)],
)
def test_the_command_writes_a_rewriter_and_its_curve(more: tuple[str, ...], stages: list[str], folder: Path) -> None:
    done = CliRunner().invoke(app, command(folder, *more), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert all(f"{stage} 0 of 2" in done.stderr for stage in stages)
    made = folder / "made" / "small.onnx"
    assert repr(str(made)) in done.stdout
    (new,) = mini.load(made).rewrite(["Hi all, does aspirin help?"])
    assert new.text
    rows = [json.loads(line) for line in made.with_name("small.onnx.jsonl").read_text().splitlines()]
    assert [row["stage"] for row in rows] == stages
    assert all(("loss" in row) if row["stage"] == "sft" else (0 <= row["reward"] <= 1) for row in rows)
    assert {path.name for path in made.parent.iterdir()} == {"small.onnx", "small.onnx.jsonl"}


def test_the_same_command_makes_the_same_file(folder: Path) -> None:
    made = folder / "made" / "small.onnx"
    written = []
    for _ in range(2):
        CliRunner().invoke(app, command(folder), catch_exceptions=False)
        written.append((made.read_bytes(), made.with_name("small.onnx.jsonl").read_bytes()))
    assert written[0] == written[1]


def test_the_commands_defaults_are_those_of_the_recipe() -> None:
    said = {name: each.default for name, each in inspect.signature(train_forge_mini).parameters.items()}
    names = {"supervised_steps": "sft_steps", "steps": "rl_steps", "rate": "rl_rate"}
    for name in (*names, "length_cost", "batch", "seed"):
        assert said[name] == getattr(Recipe(), names.get(name, name)), name
    assert said["held_out"] == forge_data.HELD_OUT


def test_what_is_missing_is_said_with_where_it_comes_from(folder: Path) -> None:
    def refused(error: type[Exception], match: str, *more: str) -> None:
        with pytest.raises(error, match=match):
            CliRunner().invoke(app, command(folder, *more), catch_exceptions=False)

    refused(BadInput, "Give one of them", "--supervised-only", "--no-supervised")
    refused(BadInput, "3 training claims, and 109 are held out", "--held-out", "109")
    (folder / "scifact" / "queries.jsonl").write_text("no JSON\n")
    refused(BadFile, "line 1 is not JSON")
    (folder / "scifact" / "queries.jsonl").unlink()
    refused(BadInput, "queries.jsonl, which is not there. It is from http")
    with pytest.raises(BadFile, match="cannot be loaded"):
        mini.load(folder / "nowhere.onnx")


def test_examples_are_chats_and_clean_queries_and_what_is_clean_is_kept_whole(folder: Path) -> None:
    corpus, claims, right = forge_data.scifact(folder)
    photos, everyday = forge_data.captions(folder)
    assert (corpus.ids, claims["test"], right["1"]) == (["d1", "d2", "d3", "d4"], {"4": CLAIMS["4"]}, frozenset(["d1"]))
    assert photos.texts == ["A dog runs .", "Two girls .", "A car ."]
    assert {each.claim for each in everyday} == {
        "A brown dog on grass .",
        "Red",
    }  # a photo with one caption has no other
    asked = forge_data.claims_asked(claims["train"], right, photos.texts)
    assert [each.claim for each in asked].count(CLAIMS["1"]) == forge_data.TURNS + 1
    made = forge_data.examples(asked, reader(), 2)
    assert len(made) == len(asked)
    for each, learned in zip(asked, made, strict=True):
        kept = [word for word, keep in zip(learned.window.words, learned.teacher, strict=True) if keep]
        assert kept == learned.window.words if each.clean else len(kept) < len(learned.window.words) / 2
    long = forge_data.Asked("talk " * 300, "talk", frozenset("a"))
    assert forge_data.examples([long], reader(), 1) == []  # more than one window
