"""``isthmus train forge``: train a language model to rewrite queries, with a retriever as the reward."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from isthmus.cli.options import Quiet
from isthmus.cli.terminal import echo, reporter
from isthmus.errors import BadInput


def train_forge(  # noqa: PLR0913 - one name per option
    data: Annotated[Path, typer.Option(help="folder with corpus.jsonl, queries.jsonl and qrels/train.tsv (BEIR)")],
    model: Annotated[
        str | None, typer.Option(help="a causal language model of transformers: its name or folder")
    ] = None,
    retriever: Annotated[str, typer.Option(help="retriever that the rewrites are for: bm25 or dense:ENCODER")] = "bm25",
    out: Annotated[Path, typer.Option(help="output folder for the rewriter, logs and checkpoints")] = Path("forge"),
    device: Annotated[str, typer.Option(envvar="ISTHMUS_DEVICE", help="cuda, or cpu for a trial run")] = "cuda",
    paper: Annotated[
        bool, typer.Option("--paper", help="settings of BRIDGE: Qwen2.5-7B-Instruct, rate 1e-6, 256 tokens, 3 epochs")
    ] = False,
    steps: Annotated[int | None, typer.Option(min=1, help="steps of reinforcement learning; default: 300")] = None,
    epochs: Annotated[float | None, typer.Option(min=0, help="passes over the queries, instead of --steps")] = None,
    minutes: Annotated[
        float | None, typer.Option(min=0, help="stop after this many minutes; the same command continues")
    ] = None,
    warm_up: Annotated[int, typer.Option(min=0, help="supervised steps first, on the 'rewrite' of each query")] = 0,
    chats: Annotated[bool, typer.Option(help="turn the clean queries into chats, and learn to undo that")] = False,
    negatives: Annotated[
        int, typer.Option(min=0, help="rank the right document among this many hard negatives; 0: among all documents")
    ] = 0,
    tokens: Annotated[
        int | None, typer.Option(min=1, help="maximum tokens of a rewrite; default: those of the model, or 256")
    ] = None,
    words: Annotated[
        int | None, typer.Option(min=1, help="maximum words of a rewrite; default: those of the model, or 200")
    ] = None,
    query_tokens: Annotated[int, typer.Option(min=1, help="maximum tokens of a query")] = 384,
    lora: Annotated[
        int | None, typer.Option(min=1, help="train LoRA adapters of this rank instead of all weights")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="a setting of the recipe: group=8, kl=0.02, clip=0.2, inner=2")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Train a query rewriter by reinforcement: rewrites are rewarded for the documents they find.

    The same command continues an interrupted run.
    """
    from isthmus.align.limits import Limits
    from isthmus.train import bridge_settings
    from isthmus.train.forge import ForgeRecipe
    from isthmus.train.rewriter import WARM, load, make_forge
    from isthmus.train.settings import changed

    if steps and epochs is not None:
        raise BadInput("--steps and --epochs exclude each other. Give one of them.")
    name = model or (bridge_settings.FORGE_MODEL if paper else None)
    if name is None:
        raise BadInput("Give --model, a causal language model, or --paper for that of BRIDGE.")
    start = bridge_settings.FORGE if paper else ForgeRecipe()
    recipe = changed(start, [*(settings or []), *([f"steps={steps}"] if steps else [])])
    limits = Limits.read(Path(name)) or Limits()
    limits = Limits(tokens or limits.tokens, words or limits.words)
    make_forge(
        data,
        out,
        policy=lambda warmed: load(warmed or name, device=device, lora=lora, longest=query_tokens, limits=limits),
        finds=retriever,
        recipe=recipe,
        warm=replace(WARM, steps=warm_up, seed=recipe.seed, rows=recipe.rows) if warm_up else None,
        chats=chats,
        epochs=bridge_settings.FORGE_EPOCHS if paper and not steps and epochs is None else epochs,
        negatives=negatives,
        made={"model": name, "lora": lora, "tokens": [query_tokens, limits.tokens], "words": limits.words},
        minutes=minutes,
        report=reporter(quiet=quiet),
    )
    echo(f"The rewriter is in {out / 'model'}, with its prompt in prompt.txt and its limits in limits.json")
