"""FORGE: train a language model to rewrite queries, with a retriever as the reward. The loop is ``train``.

    r_i   = nDCG@10 of the documents found for rewrite i           if empty or over 200 words: for the query itself
    A_i   = r_i − mean(r)                                          over the G rewrites of one query
    loss  = −1/(nL) Σ_i Σ_t [ min(ρA_i, clip(ρ, 1−ε, 1+ε)A_i) − β(eᵈ − d − 1) ]
                                                                   ρ = π/π_before, d = log π_start − log π

By default there is one update per batch (``inner=1``), no ``clip`` and no ``kl``: ρ is 1, and this is the plain policy
gradient Σ A_i ∇log π(rewrite i). L, the longest rewrite, is a constant, so a token has the same weight in long and
short rewrites. References: BRIDGE (arXiv 2604.07201), GRPO (DeepSeekMath, arXiv 2402.03300), Dr. GRPO on the effect
of the divisions (arXiv 2503.20783).

Differences from GRPO (DeepSeekMath):
1. the advantage is not divided by the group's deviation (BRIDGE): easy and hopeless queries are not amplified;
2. a rewrite's tokens are summed and divided by a constant, not by the rewrite's own length (log π of a whole rewrite);
3. the penalty for the distance from the start (k3 estimate of KL) and clipping are options, off by default.
Differences from BRIDGE: any causal model and any retriever (BRIDGE trains Qwen2.5-7B-Instruct with its own); a
supervised warm-up (``warmup.py``) for models too small to sample good rewrites; an unusable rewrite is rewarded as the
query itself (BRIDGE does not say). Its printed settings are in ``bridge_settings.py``.
Differences from TRL's GRPOTrainer (``scale_rewards=False, loss_type="dr_grpo"`` is the nearest): the model samples
with its own forward passes, without an inference server and the correction for one; the learning rate is constant
after its warm-up; one device; groups with equal rewards are left out of the backward pass, because they add exactly
nothing.
"""

from __future__ import annotations

import copy
import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor

from isthmus.align.base import Rewritten
from isthmus.align.limits import Limits
from isthmus.align.prompts import read
from isthmus.errors import BadInput
from isthmus.train import checkpoint
from isthmus.train.rewrites import Rewrites, padded, positions, until

PAPER = Limits()  # of a rewrite, as BRIDGE prints them

# The reward: a number for each query id and the rewrite of that query.
Reward: TypeAlias = Callable[[Sequence[str], Sequence[str]], Sequence[float]]


FREE = ("steps", "every", "rows")  # settings that do not affect the result


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgeRecipe:
    """How a rewriter is trained."""

    steps: int = 300
    queries: int = 32  # a step
    group: int = 8  # rewrites of each: G
    rate: float = 1e-5
    warm: int = 10  # steps until the rate is reached
    decay: float = 0.0
    temperature: float = 1.0
    inner: int = 1  # updates from one batch of rewrites
    clip: float | None = None  # ε
    kl: float = 0.0  # β
    norm: float = 1.0  # the longest gradient
    rows: int = 64  # rewrites in one backward pass: memory, not mathematics
    every: int = 25  # steps between checkpoints
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "queries", "warm", "inner", "rows", "every"):
            if getattr(self, name) < 1:
                raise BadInput(f"{name} must be at least 1, not {getattr(self, name)}.")
        for name in ("rate", "norm", *(["clip"] if self.clip is not None else [])):
            if not 0 < getattr(self, name) < float("inf"):
                raise BadInput(f"{name} must be above 0, not {getattr(self, name)}.")
        for name in ("kl", "decay"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise BadInput(f"{name} must be at least 0, not {getattr(self, name)}.")
        if self.group < 2:
            raise BadInput(f"A rewrite is compared with its group, so group must be at least 2, not {self.group}.")
        if self.temperature <= 0:
            raise BadInput("Rewrites are sampled, so temperature must be above 0.")


@dataclass(frozen=True, slots=True)
class ForgeLesson:
    """A query and, for the supervised warm-up, its ideal rewrite."""

    id: str
    query: str
    target: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ForgePolicy:
    """A causal language model of ``transformers``, its tokenizer, and its prompt."""

    model: Any
    words: Any
    prompt: str = field(default_factory=lambda: read("forge").text)  # the prompt of an untrained rewriter
    longest: int = 384  # maximum tokens of a query
    limits: Limits = PAPER  # of a rewrite; its tokens are L
    adapted: bool = False  # LoRA: only the adapters are trained

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return next(self.model.parameters()).device  # type: ignore[no-any-return]

    @property
    def stops(self) -> Tensor:
        """The tokens that end a rewrite."""
        said = self.model.generation_config.eos_token_id
        ends = {self.words.eos_token_id, *(said if isinstance(said, list) else [said])} - {None}
        return torch.tensor(sorted(ends), device=self.device)

    def precise(self) -> AbstractContextManager[Any]:
        """On a GPU the arithmetic is bfloat16; the weights stay float32."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda")


def train(
    recipe: ForgeRecipe,
    policy: ForgePolicy,
    lessons: Sequence[ForgeLesson],
    reward: Reward,
    out: Path,
    *,
    minutes: float | None = None,
    progress: Callable[[dict[str, float]], object] = dict,
) -> int:
    """Train the policy's model in place; write ``log.jsonl`` and a checkpoint to ``out``. Return the steps done.

    A second call resumes from the checkpoint, with the same result. ``minutes`` ends it early, with a checkpoint.
    """
    if not lessons:
        raise BadInput("There are no queries to train on.")
    late = time.monotonic() + 60 * (math.inf if minutes is None else minutes)
    model = policy.model.eval()  # no dropout: ρ must compare equal policies
    start = copy.deepcopy(model).requires_grad_(False) if recipe.kl else None
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    optimiser = torch.optim.AdamW(weights, lr=recipe.rate, betas=(0.9, 0.99), weight_decay=recipe.decay)
    step, over = _resume(out, recipe, model, optimiser), False
    while step < recipe.steps and not over:
        began, rng = time.monotonic(), torch.Generator(policy.device).manual_seed(_seed(recipe.seed, step))
        batch = [lesson for lesson in drawn(lessons, recipe, step) for _ in range(recipe.group)]
        rewrites = sample(policy, [lesson.query for lesson in batch], recipe.temperature, rng)
        texts = usable(policy, [lesson.query for lesson in batch], rewrites)
        rewards = torch.tensor(reward([lesson.id for lesson in batch], [text.text for text in texts]))
        advantage = advantages(rewards.view(-1, recipe.group)).view(-1).to(policy.device)  # (n,)
        optimiser.param_groups[0]["lr"] = recipe.rate * min(1.0, (step + 1) / recipe.warm)
        row = update(recipe, policy, start, optimiser, rewrites, advantage)
        step += 1
        row |= {"step": step, "reward": rewards.mean().item(), **facts(recipe, rewards, rewrites, texts)}
        row["seconds"] = time.monotonic() - began
        _log(out, row)
        progress(row)
        over = time.monotonic() >= late
        if over or step % recipe.every == 0 or step == recipe.steps:
            _save(out, recipe, step, model, optimiser)
    return step


def update(
    recipe: ForgeRecipe, policy: ForgePolicy, start: Any, optimiser: Any, rewrites: Rewrites, advantage: Tensor
) -> dict[str, float]:
    """Move the weights ``inner`` times along the gradient of the loss; return values for the log."""
    useful = torch.arange(len(advantage), device=policy.device) if recipe.kl else advantage.nonzero()[:, 0]
    chunks = rewrites.chunks(useful, recipe.rows)
    with torch.no_grad():
        before = [
            _said_by(policy.model if recipe.inner > 1 else None, policy, rewrites[rows], recipe) for rows in chunks
        ]
        first = [_said_by(start, policy, rewrites[rows], recipe) for rows in chunks]
    loss = norm = far = torch.zeros(())
    for _ in range(recipe.inner if len(useful) else 0):
        optimiser.zero_grad(set_to_none=True)
        loss, far = torch.zeros((), device=policy.device), torch.zeros((), device=policy.device)
        for rows, old, reference in zip(chunks, before, first, strict=True):
            some = rewrites[rows]
            new = log_probs(policy, policy.model, some, recipe.temperature)  # (rows, t)
            gain = surrogate(new, new.detach() if old is None else old, advantage[rows, None], recipe.clip)
            if reference is not None:
                left = k3(new, reference)
                gain = gain - recipe.kl * left
                far += (left.detach() * some.live).sum() / rewrites.live.sum()
            part = -(gain * some.live).sum() / (len(advantage) * policy.limits.tokens)
            part.backward()  # type: ignore[no-untyped-call]
            loss += part.detach()
        norm = torch.nn.utils.clip_grad_norm_(optimiser.param_groups[0]["params"], recipe.norm)
        optimiser.step()
    return {"loss": loss.item(), "norm": norm.item(), **({"kl": far.item()} if recipe.kl else {})}


def advantages(rewards: Tensor) -> Tensor:
    """The advantage of each rewrite over its group, ``(queries, G)``: r − mean, not divided by the deviation.

    >>> advantages(torch.tensor([[1.0, 0.0, 0.5], [0.3, 0.3, 0.3]])).tolist()
    [[0.5, -0.5, 0.0], [0.0, 0.0, 0.0]]
    """
    centred = rewards - rewards.mean(dim=1, keepdim=True)
    return torch.where((rewards == rewards[:, :1]).all(dim=1, keepdim=True), 0.0, centred)  # remove rounding errors


def surrogate(new: Tensor, old: Tensor, advantage: Tensor, clip: float | None) -> Tensor:
    """The gain of a token: ρA, and with ``clip`` limited where ρ leaves 1 ± ε (PPO, arXiv 1707.06347)."""
    ratio = (new - old).exp()
    if clip is None:
        return ratio * advantage
    return torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)


def k3(new: Tensor, start: Tensor) -> Tensor:
    """How far a token's probability is from the start: eᵈ − d − 1, d = log π_start − log π; unbiased, never below 0.

    >>> k3(torch.tensor([-1.0]), torch.tensor([-1.0])).tolist()
    [0.0]
    """
    d = start - new
    return d.exp() - d - 1


def drawn(lessons: Sequence[ForgeLesson], recipe: ForgeRecipe, step: int) -> Iterator[ForgeLesson]:
    """Return the queries of a step: every query once, in random order, before any repeats."""
    for place in range(step * recipe.queries, (step + 1) * recipe.queries):
        times, i = divmod(place, len(lessons))
        order = torch.randperm(len(lessons), generator=torch.Generator().manual_seed(_seed(recipe.seed, -1 - times)))
        yield lessons[int(order[i])]


def prompt_tokens(policy: ForgePolicy, queries: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Return prompts and their mask, ``(n, p)`` each, padded on the left; a long query is cut at its end."""
    words, prompts = policy.words, []
    for query in queries:
        tokens = words(query, add_special_tokens=False)["input_ids"]
        read = query if len(tokens) <= policy.longest else words.decode(tokens[: policy.longest])
        prompt = f"{policy.prompt}\n\n{read}\n\n"
        if words.chat_template:
            messages = [{"role": "system", "content": policy.prompt}, {"role": "user", "content": read}]
            prompt = words.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        prompts.append(words(prompt, add_special_tokens=not words.chat_template)["input_ids"])
    return padded(prompts, left=True, device=policy.device)


@torch.no_grad()
def sample(policy: ForgePolicy, queries: Sequence[str], temperature: float, rng: torch.Generator | None) -> Rewrites:
    """Draw one rewrite of each query, a token at a time; at temperature 0 the likeliest token each time."""
    prompt, mask = prompt_tokens(policy, queries)
    tokens, there, cache, stops = prompt, mask, None, policy.stops
    made: list[Tensor] = []
    alive = torch.ones(len(prompt), dtype=torch.bool, device=prompt.device)
    while len(made) < policy.limits.tokens and alive.any():
        with policy.precise():
            answer = policy.model(
                input_ids=tokens,
                attention_mask=there,
                position_ids=positions(there)[:, -tokens.shape[1] :],
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=1,
            )
        cache, logits = answer.past_key_values, answer.logits[:, -1].float()  # (n, vocabulary)
        if temperature:
            tokens = torch.multinomial((logits / temperature).softmax(1), 1, generator=rng)
        else:
            tokens = logits.argmax(1, keepdim=True)
        tokens = torch.where(alive[:, None], tokens, stops[0])
        made.append(tokens)
        alive = alive & ~torch.isin(tokens[:, 0], stops)
        there = torch.cat([there, torch.ones_like(tokens)], dim=1)
    rewritten = torch.cat(made, dim=1)
    return Rewrites(prompt, mask, rewritten, until(rewritten, stops))


def log_probs(policy: ForgePolicy, model: Any, rewrites: Rewrites, temperature: float) -> Tensor:
    """Return log π of every token of the rewrites, at the sampling temperature, ``(n, t)``: one forward pass."""
    mask = torch.cat([rewrites.prompt_mask, rewrites.live], dim=1)
    with policy.precise():
        logits = model(
            input_ids=torch.cat([rewrites.prompt, rewrites.tokens], dim=1),
            attention_mask=mask,
            position_ids=positions(mask),
            use_cache=False,
            logits_to_keep=rewrites.tokens.shape[1] + 1,
        ).logits[:, :-1]  # each position predicts the next token
    chosen = rewrites.tokens[..., None]
    return (logits.float() / temperature).log_softmax(2).gather(2, chosen)[..., 0]  # type: ignore[no-any-return]


def said(policy: ForgePolicy, rewrites: Rewrites) -> list[str]:
    """Return rewrites as words, on one line each."""
    lengths = rewrites.live.sum(1).tolist()
    rows = [row[:length] for row, length in zip(rewrites.tokens.tolist(), lengths, strict=True)]
    return [" ".join(policy.words.decode(row, skip_special_tokens=True).split()) for row in rows]


def usable(policy: ForgePolicy, queries: Sequence[str], rewrites: Rewrites) -> list[Rewritten]:
    """Return rewrites as words, and the query itself where one is not usable."""
    return [kept(*pair, policy.limits.words) for pair in zip(queries, said(policy, rewrites), strict=True)]


def kept(query: str, text: str, words: int = PAPER.words) -> Rewritten:
    """Return the rewrite, or the query itself if the rewrite is not usable.

    >>> kept("what does this mean", "")
    Rewritten(text='what does this mean', fell_back='nothing was written')
    """
    if not text.strip():
        return Rewritten(query, "nothing was written")
    if len(text.split()) > words:
        return Rewritten(query, f"more than {words} words: {len(text.split())}")
    return Rewritten(text)


def facts(recipe: ForgeRecipe, rewards: Tensor, rewrites: Rewrites, texts: Sequence[Rewritten]) -> dict[str, float]:
    """Values for the log: the best of each group, groups with equal rewards, lengths of rewrites, fallbacks."""
    groups = rewards.view(-1, recipe.group)
    return {
        "best": groups.amax(1).mean().item(),
        "alike": (groups == groups[:, :1]).all(1).float().mean().item(),
        "tokens": rewrites.live.sum(1).float().mean().item(),
        "fell_back": sum(text.fell_back is not None for text in texts) / len(texts),
    }


def _said_by(model: Any, policy: ForgePolicy, rewrites: Rewrites, recipe: ForgeRecipe) -> Tensor | None:
    return None if model is None else log_probs(policy, model, rewrites, recipe.temperature)


def _seed(seed: int, step: int) -> int:
    """Each step has its own generator, so that no state has to be saved."""
    return (seed * 1_000_003 + step * 7919) % 2**62


def _log(out: Path, row: dict[str, float]) -> None:
    checkpoint.log(out, {name: round(value, 5) for name, value in row.items()})


def _save(out: Path, recipe: ForgeRecipe, step: int, model: Any, optimiser: torch.optim.Optimizer) -> None:
    """Save the trained weights only."""
    learned = {name: weight.detach() for name, weight in model.named_parameters() if weight.requires_grad}
    state = {"step": step, "recipe": asdict(recipe), "model": learned, "optimiser": optimiser.state_dict()}
    checkpoint.save(out, state)


def _resume(out: Path, recipe: ForgeRecipe, model: Any, optimiser: torch.optim.Optimizer) -> int:
    out.mkdir(parents=True, exist_ok=True)
    saved, log = checkpoint.load(out, next(model.parameters()).device), out / checkpoint.LOG
    step = 0
    if saved is not None:
        step = int(saved["step"])
        changed = checkpoint.changed(saved["recipe"], asdict(recipe), free=FREE)
        if changed:
            raise BadInput(
                f"{out} has a run with another {' and '.join(changed)}. Continue with those settings, or choose "
                "another folder."
            )
        model.load_state_dict(saved["model"], strict=False)
        optimiser.load_state_dict(saved["optimiser"])
    if log.exists():  # steps after the checkpoint are repeated
        lines = log.read_text().splitlines(keepends=True)
        log.write_text("".join(line for line in lines if json.loads(line)["step"] <= step))
    return step
