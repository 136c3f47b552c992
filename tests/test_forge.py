"""Training a rewriter by reinforcement: its terms are the equations, and a tiny model learns what can be learned."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig, PreTrainedTokenizerFast
from typer.testing import CliRunner

from isthmus.align import prompts, rewrite
from isthmus.align.base import Rewritten
from isthmus.align.limits import Limits
from isthmus.align.retrievers import Bm25
from isthmus.cli import app
from isthmus.errors import BadFile, BadInput, UnknownName
from isthmus.train import bridge_settings, forge, rewriter, warmup
from isthmus.train.forge import ForgeLesson, ForgePolicy, ForgeRecipe
from isthmus.train.reward import Retrieval
from isthmus.train.rewriter import Trained
from isthmus.train.rewrites import Rewrites, until
from isthmus.train.settings import changed

THINGS = ["cat", "dog", "moon", "rain", "salt", "iron"]
CHATTER = ["hi", "all", "my", "is", "odd", "thanks", "please", "well", "so", "oh", "you", "know", "ok", "right"]
PAD, END = 0, 1


def tokenizer() -> Any:
    words = {word: place for place, word in enumerate(["<pad>", "<end>", "<unk>", *THINGS, *CHATTER, "search", ":"])}
    split = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    split.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=split, eos_token="<end>", pad_token="<pad>", unk_token="<unk>")


def policy(kind: str = "llama", seed: int = 0) -> ForgePolicy:
    torch.manual_seed(seed)
    words = tokenizer()
    shared = {"vocab_size": len(words), "bos_token_id": None, "eos_token_id": END, "pad_token_id": PAD}
    config: Any
    if kind == "llama":
        config = LlamaConfig(
            **shared, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2, head_dim=16
        )
    else:
        config = GPT2Config(**shared, n_embd=32, n_layer=2, n_head=2, n_positions=64)
    return ForgePolicy(AutoModelForCausalLM.from_config(config), words, prompt="search :", limits=Limits(tokens=4))


def lessons() -> list[ForgeLesson]:
    """Each message is chatter around one thing."""
    rng = np.random.default_rng(0)
    made = []
    for row in range(24):
        thing, chatter = THINGS[row % len(THINGS)], rng.choice(CHATTER, 3)
        made.append(ForgeLesson(f"q{row}", f"{chatter[0]} {chatter[1]} {thing} {chatter[2]}", thing))
    return made


def worth() -> Retrieval:
    """A library with one text about each thing."""
    qrels = {lesson.id: {str(lesson.target): 1} for lesson in lessons()}
    return Retrieval(Bm25(THINGS, THINGS), qrels)


def rewards(out: Path) -> list[float]:
    return [json.loads(line)["reward"] for line in (out / "log.jsonl").read_text().splitlines()]


def values(out: Path) -> list[dict[str, float]]:
    """What the log says, but for how long it took."""
    rows = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


QUICK = ForgeRecipe(steps=60, queries=12, rate=5e-3, warm=5, every=20)


def test_a_tiny_model_learns_to_say_what_finds_the_document(tmp_path: Path) -> None:
    made = policy()
    assert forge.train(QUICK, made, lessons(), worth(), tmp_path) == 60
    curve = rewards(tmp_path)
    assert np.mean(curve[:5]) < 0.3
    assert np.mean(curve[-5:]) > 0.7
    found = Trained(made).rewrite([lesson.query for lesson in lessons()])
    assert np.mean(worth()([lesson.id for lesson in lessons()], [text.text for text in found])) > 0.7


def test_it_learns_too_with_clipping_several_updates_and_a_penalty_for_leaving_the_start(tmp_path: Path) -> None:
    recipe = replace(QUICK, inner=2, clip=0.2, kl=0.001, steps=40)
    forge.train(recipe, policy("gpt2"), lessons(), worth(), tmp_path)
    curve = rewards(tmp_path)
    assert np.mean(curve[-5:]) > np.mean(curve[:5]) + 0.2


def test_a_heavy_penalty_keeps_the_model_where_it_was(tmp_path: Path) -> None:
    """The same steps move the probabilities less far from the start."""
    moved = []
    for name, kl in (("free", 0.0), ("held", 10.0)):
        made, start = policy(), policy()
        recipe = replace(QUICK, steps=8, warm=1, rate=2e-3, kl=kl)
        forge.train(recipe, made, lessons(), worth(), tmp_path / name)
        said = forge.sample(start, [lesson.query for lesson in lessons()], 1.0, torch.Generator().manual_seed(3))
        with torch.no_grad():
            now, before = (forge.log_probs(each, each.model, said, 1.0) for each in (made, start))
        moved.append((forge.k3(now, before) * said.live).sum().item())
    assert moved[1] < moved[0] / 3


def test_an_interrupted_run_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    recipe = replace(QUICK, steps=6, every=2, kl=0.01)
    straight, halting, resumed = policy(), policy(), policy()
    forge.train(recipe, straight, lessons(), worth(), tmp_path / "straight")

    def interrupted(row: dict[str, float]) -> None:
        if row["step"] == 3:  # after the checkpoint of step 2
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        forge.train(recipe, halting, lessons(), worth(), tmp_path / "halting", progress=interrupted)
    steps: list[float] = []
    forge.train(
        recipe, resumed, lessons(), worth(), tmp_path / "halting", progress=lambda row: steps.append(row["step"])
    )
    assert steps == [3, 4, 5, 6]
    assert values(tmp_path / "halting") == values(tmp_path / "straight")
    for name, weight in straight.model.state_dict().items():
        torch.testing.assert_close(resumed.model.state_dict()[name], weight, rtol=0, atol=0)


def test_a_run_that_is_out_of_time_leaves_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count()  # a second passes whenever somebody looks
    monkeypatch.setattr("isthmus.train.forge.time.monotonic", lambda: next(clock))
    done = forge.train(replace(QUICK, every=1000), policy(), lessons(), worth(), tmp_path, minutes=0.2)
    assert 1 <= done < QUICK.steps
    assert torch.load(tmp_path / "checkpoint.pt", weights_only=True)["step"] == done


def test_a_checkpoint_of_another_recipe_is_refused(tmp_path: Path) -> None:
    forge.train(replace(QUICK, steps=1), policy(), lessons(), worth(), tmp_path)
    with pytest.raises(BadInput, match="another group and kl"):
        forge.train(replace(QUICK, group=4, kl=0.5), policy(), lessons(), worth(), tmp_path)


def test_advantages_of_a_group_sum_to_zero_and_are_not_divided_by_the_deviation() -> None:
    rewards = torch.rand(5, 8, generator=torch.Generator().manual_seed(0))
    rewards[3] = 0.1  # whose mean is not 0.1 in floating point
    advantage = forge.advantages(rewards)
    torch.testing.assert_close(advantage.sum(1), torch.zeros(5), rtol=0, atol=1e-6)
    torch.testing.assert_close(forge.advantages(10 * rewards), 10 * advantage)
    assert advantage[3].tolist() == [0.0] * 8


def test_rewards_that_are_all_alike_move_nothing(tmp_path: Path) -> None:
    made, start = policy(), policy()
    forge.train(replace(QUICK, steps=3), made, lessons(), lambda ids, texts: [0.5] * len(ids), tmp_path)
    for name, weight in start.model.state_dict().items():
        assert torch.equal(made.model.state_dict()[name], weight), name
    with pytest.raises(BadInput, match="no queries"):
        forge.train(QUICK, made, [], worth(), tmp_path)


def test_the_gradient_is_the_policy_gradient() -> None:
    """With one update and no clipping: −1/(nL) Σ A ∇ Σ_t log π, whatever the size of a backward pass."""
    recipe = replace(QUICK, norm=1e9)
    gradients = []
    for rows in (3, 64):
        made = policy()
        said = forge.sample(made, [lesson.query for lesson in lessons()[:8]], 1.0, torch.Generator().manual_seed(0))
        advantage = torch.linspace(-1, 1, 8)
        still = torch.optim.SGD(made.model.parameters(), lr=0.0)
        forge.update(replace(recipe, rows=rows), made, None, still, said, advantage)
        gradients.append(made.model.lm_head.weight.grad.clone())
    made.model.zero_grad()
    whole = (forge.log_probs(made, made.model, said, 1.0) * said.live).sum(1)  # log π of each rewrite
    (-(whole * advantage).sum() / (8 * made.limits.tokens)).backward()  # type: ignore[no-untyped-call]
    for gradient in gradients:
        torch.testing.assert_close(gradient, made.model.lm_head.weight.grad, rtol=1e-4, atol=1e-7)


def test_clipping_and_the_penalty_equal_their_equations() -> None:
    rng = np.random.default_rng(0)
    new, old, start = rng.normal(-2, 0.5, (3, 4, 5))
    advantage = rng.normal(size=(4, 1))
    ratio = np.exp(new - old)
    clipped = np.minimum(ratio * advantage, np.clip(ratio, 0.8, 1.2) * advantage)
    now, before, better = (torch.tensor(each) for each in (new, old, advantage))
    np.testing.assert_allclose(forge.surrogate(now, before, better, 0.2), clipped)
    np.testing.assert_allclose(forge.surrogate(now, before, better, None), ratio * advantage)
    np.testing.assert_allclose(forge.k3(now, torch.tensor(start)), np.exp(start - new) - (start - new) - 1)
    assert not np.allclose(clipped, ratio * advantage)


def test_the_penalty_is_an_unbiased_estimate_of_the_divergence() -> None:
    policy_logits, start_logits = torch.randn(2, 6, generator=torch.Generator().manual_seed(1))
    new, start = policy_logits.log_softmax(0), start_logits.log_softmax(0)
    expected = (new.exp() * (new - start)).sum()
    torch.testing.assert_close((new.exp() * forge.k3(new, start)).sum(), expected)


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_log_probabilities_of_a_padded_batch_are_those_of_each_rewrite_alone(kind: str) -> None:
    made = policy(kind)
    made.model.eval()
    queries = ["cat", "hi all my dog is odd", "oh well"]
    said = forge.sample(made, queries, 1.0, torch.Generator().manual_seed(5))
    together = forge.log_probs(made, made.model, said, 0.7)
    for row, query in enumerate(queries):
        prompt, _ = forge.prompt_tokens(made, [query])
        tokens = said.tokens[row][said.live[row].bool()]
        logits = made.model(input_ids=torch.cat([prompt[0], tokens])[None]).logits[0, prompt.shape[1] - 1 : -1] / 0.7
        alone = logits.log_softmax(1)[torch.arange(len(tokens)), tokens]
        torch.testing.assert_close(together[row, : len(tokens)], alone, rtol=1e-4, atol=1e-5)


def test_chunks_put_similar_lengths_together_and_lose_only_padding() -> None:
    made = policy()
    made.model.eval()
    queries = ["hi all my dog is odd", "cat", "oh well", "moon"]
    said = forge.sample(made, queries, 1.0, torch.Generator().manual_seed(5))
    together = forge.log_probs(made, made.model, said, 1.0) * said.live
    chunks = said.chunks(torch.tensor([0, 1, 3]), 2)
    assert sorted(torch.cat(chunks).tolist()) == [0, 1, 3]
    assert 0 in chunks[-1]  # the longest
    for rows in chunks:
        some = said[rows]
        alone = forge.log_probs(made, made.model, some, 1.0) * some.live
        assert some.prompt_mask.any(0).all()
        assert some.live.any(0).all()
        torch.testing.assert_close(alone.sum(1), together[rows].sum(1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_the_likeliest_rewrite_is_what_transformers_generates(kind: str) -> None:
    made = policy(kind)
    made.model.eval()
    said = forge.sample(made, ["cat", "hi all my dog is odd"], 0.0, None)
    prompt, mask = forge.prompt_tokens(made, ["cat", "hi all my dog is odd"])
    theirs = made.model.generate(
        input_ids=prompt, attention_mask=mask, do_sample=False, max_new_tokens=4, pad_token_id=END
    )[:, prompt.shape[1] :]
    assert (said.tokens * said.live).tolist() == (theirs * until(theirs, made.stops)).tolist()


def test_nothing_after_the_end_counts() -> None:
    tokens = torch.tensor([[5, END, 7, END], [END, 5, 6, 7], [5, 6, 7, 8]])
    assert until(tokens, torch.tensor([END])).tolist() == [[1, 1, 0, 0], [1, 0, 0, 0], [1, 1, 1, 1]]
    made = policy()
    prompt, mask = forge.prompt_tokens(made, ["cat"] * 3)
    said = Rewrites(prompt, mask, tokens, until(tokens, made.stops))
    assert forge.said(made, said) == [made.words.decode([5]), "", made.words.decode([5, 6, 7, 8])]


def test_what_is_empty_or_too_long_falls_back_to_the_query() -> None:
    assert forge.kept("the query", " ") == Rewritten("the query", "nothing was written")
    assert forge.kept("the query", "word " * 201) == Rewritten("the query", "more than 200 words: 201")
    assert forge.kept("the query", "word " * 200).fell_back is None
    assert forge.kept("the query", "three words here", 2).fell_back == "more than 2 words: 3"


def test_every_query_comes_once_before_any_comes_again() -> None:
    recipe = replace(QUICK, queries=5)
    seen = [lesson.id for step in range(24) for lesson in forge.drawn(lessons(), recipe, step)]
    assert sorted(seen[:24]) == sorted(lesson.id for lesson in lessons()) == sorted(seen[24:48])
    assert seen[:24] != seen[24:48]


def test_a_query_that_is_too_long_loses_its_end() -> None:
    made = replace(policy(), longest=3)
    tokens, mask = forge.prompt_tokens(made, ["cat dog moon rain salt", "cat"])
    assert made.words.decode(tokens[0]) == "search : cat dog moon"
    assert mask.tolist() == [[1] * 5, [0, 0, 1, 1, 1]]


def test_a_group_of_one_and_a_temperature_of_nothing_are_refused() -> None:
    with pytest.raises(BadInput, match="at least 2"):
        ForgeRecipe(group=1)
    with pytest.raises(BadInput, match="above 0"):
        ForgeRecipe(temperature=0)


def test_the_warm_up_teaches_the_targets() -> None:
    made = policy()
    losses: list[float] = []
    warmup.warm_up(replace(QUICK, steps=60), made, lessons(), lambda row: losses.append(row["loss"]))
    assert losses[0] > 2
    assert losses[-1] < 0.5
    found = Trained(made).rewrite([lesson.query for lesson in lessons()])
    assert np.mean([text.text == lesson.target for text, lesson in zip(found, lessons(), strict=True)]) > 0.7
    with pytest.raises(BadInput, match="'q0' has none"):
        warmup.warm_up(QUICK, made, [ForgeLesson("q0", "hi cat")])


def test_a_reward_is_the_measure_of_what_is_found_and_no_text_is_searched_twice() -> None:
    class Counting(Bm25):
        seen: list[str] = []  # noqa: RUF012

        def search(self, texts: Any, k: int = 10) -> Any:
            self.seen += texts
            return super().search(texts, k)

    library = Counting(["a", "b"], ["iron salt", "moon rain"])
    reward = Retrieval(library, {"p": {"a": 1}, "q": {"b": 1}})
    assert reward(["p", "p", "q", "q"], ["iron", "moon iron", "iron", "iron"])[::2] == [1.0, 0.0]
    assert reward(["q", "p"], ["moon", "iron"]) == [1.0, 1.0]
    assert library.seen == ["iron", "moon iron", "moon"]
    with pytest.raises(BadInput, match="'unknown'"):
        reward(["unknown"], ["iron"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tiny model and a set in BEIR's layout: messages, how they should have been asked, and what answers them."""
    made = policy()
    made.model.save_pretrained(tmp_path / "model")
    made.words.save_pretrained(tmp_path / "model")
    data = tmp_path / "data"
    (data / "qrels").mkdir(parents=True)
    queries = [{"_id": each.id, "text": each.query, "rewrite": each.target} for each in lessons()]
    (data / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in queries))
    (data / "corpus.jsonl").write_text("".join(json.dumps({"_id": each, "text": each}) + "\n" for each in THINGS))
    judged = "".join(f"{each.id}\t{each.target}\t1\n" for each in lessons())
    (data / "qrels" / "train.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}")
    return tmp_path


def command(folder: Path, *more: str) -> list[str]:
    paths = ["--data", folder / "data", "--model", folder / "model", "--out", folder / "made"]
    return ["train", "forge", *map(str, paths), "--device", "cpu", "--set", "queries=4", "--set", "group=4", *more]


def test_the_command_warms_up_trains_writes_a_rewriter_and_resumes(folder: Path) -> None:
    given = command(folder, "--warm-up", "3", "--steps", "2")
    done = CliRunner().invoke(app, given, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "warm-up 3 of 3" in done.output
    assert "step 2 of 2: reward" in done.output
    made = folder / "made"
    assert {path.name for path in made.iterdir()} >= {"warm", "model", "log.jsonl", "checkpoint.pt", "curve.png"}
    loaded = rewriter.load(made / "model")
    assert loaded.prompt == prompts.read("forge").text == ForgePolicy(loaded.model, loaded.words).prompt
    (made / "model" / "prompt.txt").write_text("search :")
    assert rewriter.load(made / "model").prompt == "search :"
    assert Trained(loaded).rewrite(["hi cat"])[0].text
    log = (made / "log.jsonl").read_text()
    again = CliRunner().invoke(app, [*given[:-1], "3"], catch_exceptions=False)  # one step more
    assert "warm-up" not in again.output
    assert (made / "log.jsonl").read_text().startswith(log)
    assert [row["step"] for row in values(made)] == [1, 2, 3]


def test_a_rewriter_is_served_with_the_limits_it_was_trained_with(folder: Path) -> None:
    given = command(folder, "--steps", "1", "--tokens", "5", "--words", "4")
    done = CliRunner().invoke(app, given, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    model = folder / "made" / "model"
    assert json.loads((model / "limits.json").read_text()) == {"tokens": 5, "words": 4}
    assert rewriter.load(model).limits == Limits(tokens=5, words=4)
    served = rewrite.load(f"forge:hf:{model}")
    assert isinstance(served, rewrite.Prompted)
    assert (served.words, served.writer.tokens) == (4, 5)  # type: ignore[attr-defined]
    assert "at most 4 words" in served.prompt.text
    text = "hi all my cat is odd thanks"
    drawn = Trained(rewriter.load(model)).rewrite([text])[0]
    assert len(drawn.text.split()) <= 5 or drawn.text == text
    with pytest.raises(BadInput, match="another words"):
        CliRunner().invoke(app, [*given[:-1], "3"], catch_exceptions=False)


def test_wrong_options_of_the_command_are_refused_with_what_to_write(folder: Path) -> None:
    for given, error, said in (
        (["--set", "qeries=4"], UnknownName, "Did you mean 'queries'"),
        (["--set", "queries"], BadInput, "NAME=VALUE"),
        (["--set", "queries=many"], BadInput, "'many'"),
        (["--retriever", "bm52"], UnknownName, "Did you mean 'bm25'"),
        (["--model", str(folder / "nowhere")], BadFile, "There is no folder"),
    ):
        with pytest.raises(error, match=said):
            CliRunner().invoke(app, command(folder, *given), catch_exceptions=False)
    plain = "".join(json.dumps({"_id": each.id, "text": each.query}) + "\n" for each in lessons())
    (folder / "data" / "queries.jsonl").write_text(plain)
    with pytest.raises(BadInput, match="--chats"):
        CliRunner().invoke(app, command(folder, "--warm-up", "1"), catch_exceptions=False)


def test_the_papers_settings_are_one_option_and_each_can_be_changed(folder: Path) -> None:
    assert (bridge_settings.FORGE.rate, bridge_settings.FORGE.group, Limits()) == (1e-6, 8, Limits(256, 200))
    given = command(folder, "--paper", "--negatives", "2", "--tokens", "6")
    done = CliRunner().invoke(app, given, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    steps = math.ceil(3 * len(lessons()) / 4)  # three epochs, four queries a step
    assert f"step {steps} of {steps}: reward" in done.output
    saved = torch.load(folder / "made" / "checkpoint.pt", weights_only=True)["recipe"]
    assert (saved["rate"], saved["group"], saved["queries"]) == (1e-6, 4, 4)
    made = json.loads((folder / "made" / "made.json").read_text())
    assert (made["negatives"], made["tokens"], made["words"]) == (2, [384, 6], 200)
    with pytest.raises(BadInput, match="Give --model"):
        CliRunner().invoke(app, ["train", "forge", "--data", str(folder / "data")], catch_exceptions=False)
    with pytest.raises(BadInput, match="exclude each other"):
        CliRunner().invoke(app, command(folder, "--steps", "1", "--epochs", "1"), catch_exceptions=False)


def test_chats_are_made_of_clean_queries_and_undone(folder: Path) -> None:
    pytest.importorskip("isthmus.evaluate.chat")
    made = rewriter.chatty([ForgeLesson("q", "Iron and salt change the colour of rain.")], noises=2)
    assert [lesson.target for lesson in made] == ["Iron and salt change the colour of rain."] * 2
    assert made[0].query != made[1].query
    assert all("Image Description: " in lesson.query for lesson in made)
    assert made[1].query.split("\n")[0] not in made[0].query  # another style
    done = CliRunner().invoke(app, command(folder, "--chats", "--warm-up", "1", "--steps", "1"), catch_exceptions=False)
    assert done.exit_code == 0, done.output


def test_adapters_alone_are_trained_and_merged_when_written(folder: Path) -> None:
    pytest.importorskip("peft")
    made = rewriter.load(folder / "model", lora=4)
    before = {name: weight.clone() for name, weight in made.model.named_parameters() if not weight.requires_grad}
    forge.train(replace(QUICK, steps=3, every=2), made, lessons(), worth(), folder / "lora")
    trained = dict(made.model.named_parameters())
    assert before
    assert all(torch.equal(trained[name], weight) for name, weight in before.items())
    assert len(torch.load(folder / "lora" / "checkpoint.pt", weights_only=True)["model"]) < len(trained)
    rewriter.write(made, folder / "lora" / "model")
    whole = rewriter.load(folder / "lora" / "model")
    queries = [lesson.query for lesson in lessons()]
    four = Limits(tokens=4)
    assert Trained(replace(whole, limits=four)).rewrite(queries) == Trained(replace(made, limits=four)).rewrite(queries)


def test_what_is_remembered_of_rewards_may_be_forgotten_in_the_middle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isthmus.train.reward.KEPT", 2)
    judge = worth()
    names = [lesson.id for lesson in lessons()][:3]
    first = judge(names[:2], ["a", "b"])
    assert judge([names[0], names[2]], ["a", "c"]) == [first[0], judge([names[2]], ["c"])[0]]


@pytest.mark.parametrize(
    "wrong",
    [
        "steps=0",
        "queries=0",
        "warm=0",
        "inner=0",
        "rows=0",
        "every=0",
        "clip=nan",
        "norm=-1",
        "rate=0",
        "kl=-1",
        "decay=inf",
    ],
)
def test_settings_that_cannot_be_are_refused(wrong: str) -> None:
    with pytest.raises(BadInput, match=wrong.partition("=")[0]):
        changed(ForgeRecipe(), [wrong])


def test_a_folder_is_not_gone_on_with_by_another_run(tmp_path: Path) -> None:
    rewriter._same_run(tmp_path, {"model": "a", "lora": None})
    rewriter._remember(tmp_path, {"model": "a", "lora": None})
    rewriter._same_run(tmp_path, {"model": "a", "lora": None})
    with pytest.raises(BadInput, match="another model"):
        rewriter._same_run(tmp_path, {"model": "b", "lora": None})
