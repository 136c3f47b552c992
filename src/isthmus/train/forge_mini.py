"""``isthmus train forge-mini``: learn which words of a chatty query to keep, with a retriever as the reward.

    SFT     cross-entropy: a content word of the claim is kept, any other word is not; then the logits are shifted so
            that a word is kept from P = .1 on: a lost word costs more than one too many
    RL      G = 8 samples of kept words per query; reward = nDCG@10, mean over the retrievers, minus a small cost of
            length; advantage = r − mean of the group, not divided by the deviation (BRIDGE); loss = −A · log P(sample)

The policy is a Bernoulli per word, so log P is a sum over words and its gradient needs no second model. Reinforcement
starts from the supervised weights, or from random ones (every word kept with probability ¾).
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from isthmus.align.base import Retriever
from isthmus.align.reading import SIGNS, Window, padded
from isthmus.train.forge import advantages
from isthmus.train.onnx import write

DIM = 384
LAST = "leave.1.bias"  # of the last layer: what is added to every logit


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgeMiniRecipe:
    """How it is trained."""

    width: int = 128
    layers: int = 1
    heads: int = 4
    dropout: float = 0.3
    batch: int = 32
    group: int = 8
    length_cost: float = 0.3
    sft_steps: int = 900
    keep: float = 0.1  # P above which the supervised model keeps a word: losing one costs more than one too many
    sft_rate: float = 1e-3
    rl_steps: int = 160
    rl_rate: float = 3e-4
    seed: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Example:
    """A query to align: the model's input, the words that the teacher keeps, and the right documents."""

    window: Window
    teacher: Any  # (w,) bool
    right: frozenset[str]
    corpus: int = 0  # the corpus that is searched


@dataclass(slots=True)
class TrainingCurve:
    """The log of a training."""

    rows: list[dict[str, float]] = field(default_factory=list)


class PolicyBlock(nn.Module):
    """One layer: attention, then two linear maps, each after a norm. Written out so that it exports for any length."""

    def __init__(self, recipe: ForgeMiniRecipe) -> None:
        super().__init__()
        self.heads = recipe.heads
        self.before, self.between = nn.LayerNorm(recipe.width), nn.LayerNorm(recipe.width)
        self.look, self.join = nn.Linear(recipe.width, 3 * recipe.width), nn.Linear(recipe.width, recipe.width)
        self.think = nn.Sequential(
            nn.Linear(recipe.width, 2 * recipe.width),
            nn.GELU(),
            nn.Dropout(recipe.dropout),
            nn.Linear(2 * recipe.width, recipe.width),
        )
        self.drop = nn.Dropout(recipe.dropout)

    def forward(self, seen: Tensor, mask: Tensor) -> Tensor:
        """Return the tokens after attention to the unmasked ones."""
        query, key, value = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.look(self.before(seen)).chunk(3, dim=-1)
        )  # (n, heads, t, d)
        scores = query @ key.transpose(2, 3) / query.shape[-1] ** 0.5
        share = self.drop(scores.masked_fill(~mask[:, None, None], -1e9).softmax(dim=-1))
        seen = seen + self.drop(self.join((share @ value).transpose(1, 2).flatten(2)))
        thought: Tensor = self.drop(self.think(self.between(seen)))
        return seen + thought


class ForgeMiniPolicy(nn.Module):
    """From token inputs to a logit each; the logit of a word is that of its first token."""

    def __init__(self, recipe: ForgeMiniRecipe) -> None:
        super().__init__()
        self.enter = nn.Linear(DIM + SIGNS, recipe.width)
        self.layers = nn.ModuleList(PolicyBlock(recipe) for _ in range(recipe.layers))
        last = nn.Linear(recipe.width, 1)
        nn.init.zeros_(last.weight)
        nn.init.constant_(last.bias, float(np.log(3)))  # ¾
        self.leave = nn.Sequential(nn.LayerNorm(recipe.width), last)

    def lean(self, keep: float) -> None:
        """Shift all logits so that a word with a probability of ``keep`` gets ½."""
        for name, weight in self.named_parameters():
            if name == LAST:
                weight.data += float(np.log((1 - keep) / keep))

    def forward(self, inputs: Tensor, mask: Tensor) -> Tensor:
        """Return the logit of every token, ``(n, t)``."""
        seen = self.enter(inputs)
        for layer in self.layers:
            seen = layer(seen, mask)
        logits: Tensor = self.leave(seen)[..., 0]
        return logits


def log_probability(logits: Tensor, kept: Tensor, there: Tensor) -> Tensor:
    """Return log P of each sample: ``logits`` (n, w), ``kept`` (n, g, w), ``there`` (n, w) → (n, g)."""
    each = -nn.functional.softplus(torch.where(kept, -logits[:, None], logits[:, None]))
    return (each * there[:, None]).sum(dim=2)


def ndcg(found: Sequence[tuple[str, float]], right: frozenset[str], k: int = 10) -> float:
    """Return nDCG@k of one list with equal gains."""
    gain = sum(1 / np.log2(place + 2) for place, (name, _) in enumerate(found[:k]) if name in right)
    ideal = sum(1 / np.log2(place + 2) for place in range(min(k, len(right))))
    return float(gain / ideal)


def rewards(
    examples: Sequence[Example], texts: Sequence[Sequence[str]], retrievers: Sequence[Sequence[Retriever]]
) -> Tensor:
    """Return the mean nDCG@10 of each text over the retrievers of its corpus, ``(queries, samples)``."""
    out = torch.zeros(len(examples), len(texts[0]))
    for corpus, several in enumerate(retrievers):
        rows = [row for row, example in enumerate(examples) if example.corpus == corpus]
        flat = [text for row in rows for text in texts[row]]
        for retriever in several:
            found = iter(retriever.search(flat, 10))
            for row in rows:
                for sample in range(out.shape[1]):
                    out[row, sample] += ndcg(next(found), examples[row].right) / len(several)
    return out


def supervised(
    policy: ForgeMiniPolicy,
    examples: Sequence[Example],
    recipe: ForgeMiniRecipe,
    device: str,
    report: Callable[[str], object] = str,
) -> TrainingCurve:
    """Train on the teacher's choice of words."""
    rng = np.random.default_rng(recipe.seed)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=recipe.sft_rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, recipe.sft_rate, total_steps=recipe.sft_steps)
    curve = TrainingCurve()
    order = sorted(range(len(examples)), key=lambda row: len(examples[row].window.inputs))
    policy.train()
    for step in range(recipe.sft_steps):
        first = int(rng.integers(max(1, len(order) - recipe.batch + 1)))
        chosen = [examples[row] for row in order[first : first + recipe.batch]]  # of similar length: little padding
        logits, there = word_logits(policy, chosen, device)
        wanted = torch.zeros_like(logits)
        for row, example in enumerate(chosen):
            wanted[row, : len(example.teacher)] = torch.as_tensor(example.teacher, dtype=wanted.dtype)
        each = nn.functional.binary_cross_entropy_with_logits(logits, wanted, reduction="none")
        loss = (each * there).sum() / there.sum()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        curve.rows.append({"step": step, "loss": loss.item()})
        if step % 50 == 0:
            report(f"sft {step} of {recipe.sft_steps}: loss {loss.item():.4f}")
    return curve


def reinforced(
    policy: ForgeMiniPolicy,
    examples: Sequence[Example],
    retrievers: Sequence[Sequence[Retriever]],
    recipe: ForgeMiniRecipe,
    device: str,
    *,
    seconds: float = float("inf"),
    report: Callable[[str], object] = str,
) -> TrainingCurve:
    """Train by reinforcement; ``retrievers`` are those of each corpus."""
    rng = np.random.default_rng(recipe.seed + 1)
    draws = torch.Generator(device).manual_seed(recipe.seed + 1)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=recipe.rl_rate, weight_decay=0.0)
    curve = TrainingCurve()
    policy.eval()  # no dropout: samples and gradients must come from one policy
    start = time.monotonic()
    for step in range(recipe.rl_steps):
        if time.monotonic() - start > seconds:
            break
        chosen = [examples[row] for row in rng.integers(len(examples), size=recipe.batch)]
        logits, there = word_logits(policy, chosen, device)
        chance = torch.sigmoid(logits.detach())
        size = (len(chosen), recipe.group, logits.shape[1])
        kept = torch.rand(size, device=device, generator=draws) < chance[:, None]
        kept &= there[:, None] > 0
        texts = [_texts(example, kept[row].cpu().numpy()) for row, example in enumerate(chosen)]
        found = rewards(chosen, texts, retrievers).to(device)
        share = kept.sum(dim=2) / there.sum(dim=1, keepdim=True)
        advantage = advantages(found - recipe.length_cost * share)
        loss = -(advantage * log_probability(logits, kept, there)).mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
        curve.rows.append({"step": step, "reward": float(found.mean()), "kept": float(share.mean())})
        if step % 20 == 0:
            last = curve.rows[-20:]
            means = [float(np.mean([row[name] for row in last])) for name in ("reward", "kept")]
            report(f"rl {step} of {recipe.rl_steps}: reward {means[0]:.4f}, kept {means[1]:.3f}")
    return curve


def word_logits(policy: ForgeMiniPolicy, examples: Sequence[Example], device: str) -> tuple[Tensor, Tensor]:
    """Return the logit of every word and the mask, ``(n, w)`` both."""
    inputs, mask = padded([example.window for example in examples])
    logits = policy(torch.as_tensor(inputs, device=device), torch.as_tensor(mask, device=device))
    most = max(len(example.window.words) for example in examples)
    first = torch.zeros(len(examples), most, dtype=torch.long)
    there = torch.zeros(len(examples), most)
    for row, example in enumerate(examples):
        count = len(example.window.words)
        first[row, :count] = torch.as_tensor(example.window.first)
        there[row, :count] = 1
    return logits.gather(1, first.to(device)), there.to(device)


def _texts(example: Example, kept: Any) -> list[str]:
    words = example.window.words
    return [" ".join(word for place, word in enumerate(words) if sample[place]) for sample in kept]


def export(policy: ForgeMiniPolicy, path: Path) -> None:
    """Write the policy as ONNX, for any number of windows of any length."""
    inputs, mask = torch.zeros(1, 8, DIM + SIGNS), torch.ones(1, 8, dtype=torch.bool)
    free = {0: "n", 1: "t"}
    whole = copy.deepcopy(policy).cpu()
    write(whole, (inputs, mask), path, {"inputs": free, "mask": free}, {"logits": free})
