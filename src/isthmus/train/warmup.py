"""The supervised warm-up of a rewriter (FORGE-SFT), on ideal rewrites of queries.

    loss = −mean log π(target and its end | query)          over the tokens of the targets

A small model may never sample a rewrite that finds more than the others of its group; then it cannot learn. After a few
hundred examples it samples useful ones, and ``forge`` continues from there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from isthmus.errors import BadInput
from isthmus.train.forge import ForgeLesson, ForgePolicy, ForgeRecipe, drawn, log_probs, prompt_tokens
from isthmus.train.rewrites import Rewrites, padded


def warm_up(
    recipe: ForgeRecipe,
    policy: ForgePolicy,
    lessons: Sequence[ForgeLesson],
    progress: Callable[[dict[str, float]], object] = dict,
) -> None:
    """Train the policy's model in place: ``steps`` of ``queries`` targets at ``rate``, falling to 0."""
    if lost := [lesson.id for lesson in lessons if not lesson.target]:
        raise BadInput(f"The supervised warm-up needs a target for every query; {lost[0]!r} has none.")
    model = policy.model.eval()
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    optimiser = torch.optim.AdamW(weights, lr=recipe.rate, betas=(0.9, 0.99), weight_decay=recipe.decay)
    for step in range(recipe.steps):
        optimiser.param_groups[0]["lr"] = recipe.rate * min(1.0, (step + 1) / recipe.warm) * (1 - step / recipe.steps)
        optimiser.zero_grad(set_to_none=True)
        batch = shown(policy, list(drawn(lessons, recipe, step)))
        loss = torch.zeros((), device=policy.device)
        for rows in batch.chunks(torch.arange(len(batch.tokens), device=policy.device), recipe.rows):
            part = lost_on(policy, batch[rows]) / batch.live.sum()
            part.backward()  # type: ignore[no-untyped-call]
            loss += part.detach()
        torch.nn.utils.clip_grad_norm_(weights, recipe.norm)
        optimiser.step()
        progress({"step": step + 1, "loss": loss.item()})


def lost_on(policy: ForgePolicy, batch: Rewrites) -> Tensor:
    """Return −log π of the targets, summed over their tokens."""
    return -(log_probs(policy, policy.model, batch, 1.0) * batch.live).sum()


def shown(policy: ForgePolicy, lessons: Sequence[ForgeLesson]) -> Rewrites:
    """Return targets as rewrites of the policy, each with its end token."""
    end = int(policy.words.eos_token_id)
    targets = [policy.words(lesson.target, add_special_tokens=False)["input_ids"] for lesson in lessons]
    tokens, live = padded(
        [[*row[: policy.limits.tokens - 1], end] for row in targets], left=False, device=policy.device
    )
    return Rewrites(*prompt_tokens(policy, [lesson.query for lesson in lessons]), tokens, live)
