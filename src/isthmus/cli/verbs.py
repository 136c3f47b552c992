"""The verbs of the command line, and what `isthmus train` trains."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from isthmus.cli.compact import compact
from isthmus.cli.demo import demo
from isthmus.cli.diagnose import diagnose
from isthmus.cli.doctor import doctor
from isthmus.cli.evaluate import evaluate
from isthmus.cli.index import calibrate, delete, index
from isthmus.cli.reencode import reencode
from isthmus.cli.search import export, search, stats
from isthmus.cli.terminal import echo
from isthmus.cli.train_fusion import train_fusion
from isthmus.cli.train_lens import train_lens
from isthmus.errors import BadInput

app = typer.Typer(
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    context_settings={"auto_envvar_prefix": "ISTHMUS"},
    help="One search over text, images and both, ranked fairly. Every option can come from the environment: "
    "ISTHMUS_COLLECTION names the collection, ISTHMUS_SEARCH_K=5 is `search -k 5`.",
)
VERBS = {
    index: "read files into a collection",
    search: "find documents by words, a picture or both",
    calibrate: "calibrate a collection again",
    reencode: "move a collection to another encoder",
    stats: "what a collection holds",
    diagnose: "whether a search is unfair, and why",
    evaluate: "compare calibrations on a benchmark",
    export: "documents, vectors or calibration as a file",
    delete: "delete documents",
    compact: "make a collection's file smaller",
    doctor: "what is installed, and what is missing",
    demo: "try it on a sample folder",
}
for verb, what in VERBS.items():
    app.command(short_help=what)(verb)  # type: ignore[type-var]  # each is a function
train = typer.Typer(no_args_is_help=True, help="Train what isthmus ships.")
app.add_typer(train, name="train")
train.command("fusion")(train_fusion)
train.command("lens")(train_lens)


def _version(wanted: bool) -> None:
    if wanted:
        echo(version("isthmus"))
        raise typer.Exit


@app.callback()
def isthmus(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="show the version and exit")
    ] = False,
) -> None:
    """Hold the verbs together."""


@train.command("mini")
def train_mini(
    data: Annotated[Path, typer.Option(envvar="ISTHMUS_DATA", help="folder with flickr8k/ and, if there, docvqa/")],
    out: Annotated[Path, typer.Option(help="where the encoder's files, logs and checkpoints go")] = Path("mini"),
    device: Annotated[str, typer.Option(envvar="ISTHMUS_DEVICE", help="cuda, or cpu for a try")] = "cuda",
    text_weights: Annotated[
        Path | None, typer.Option(help="a sentence encoder's folder; else the installed MiniLM")
    ] = None,
    image_weights: Annotated[
        Path | None, typer.Option(help="an EfficientNet-lite file; else the installed one")
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="fewer steps than the recipe, for a try")] = None,
    batch: Annotated[int | None, typer.Option(min=2, help="another batch size")] = None,
    size: Annotated[int | None, typer.Option(min=32, help="pixels a side")] = None,
    backbone: Annotated[str, typer.Option(help="lite0, lite1 or lite2")] = "lite2",
    limit: Annotated[int | None, typer.Option(min=2, help="read only so many photos and sentences, for a try")] = None,
) -> None:
    """Train the embedded encoder and write it as a folder that `onnx:FOLDER` loads. Run again, it resumes."""
    from isthmus.train.make import make_mini

    changes = {"steps": steps, "batch": batch, "size": size, "backbone": backbone}
    weights = (text_weights, image_weights)
    if weights.count(None) == 1:
        raise BadInput("Give both --text-weights and --image-weights, or neither.")
    make_mini(
        data,
        out,
        device=device,
        weights=weights,
        limit=limit,
        changes={name: value for name, value in changes.items() if value},
        report=lambda line: echo(line, err=True),
    )
    echo(f"The encoder is in {out}: isthmus.encoders.load('onnx:{out}')")


@train.command("forge")
def train_forge(  # noqa: PLR0913 - one name per option
    data: Annotated[Path, typer.Option(help="a folder in BEIR's layout: corpus.jsonl, queries.jsonl, qrels/train.tsv")],
    model: Annotated[str, typer.Option(help="a causal language model of transformers: name or folder")],
    retriever: Annotated[str, typer.Option(help="what the rewrites are for: bm25, or dense:ENCODER")] = "bm25",
    out: Annotated[Path, typer.Option(help="where the rewriter, logs and checkpoints go")] = Path("forge"),
    device: Annotated[str, typer.Option(envvar="ISTHMUS_DEVICE", help="cuda, or cpu for a try")] = "cuda",
    steps: Annotated[int | None, typer.Option(min=1, help="of reinforcement; 300 when not said")] = None,
    minutes: Annotated[float | None, typer.Option(min=0, help="stop after so long; run again, it goes on")] = None,
    warm_up: Annotated[
        int, typer.Option(min=0, help="supervised steps before, towards the 'rewrite' of each query")
    ] = 0,
    chats: Annotated[
        bool, typer.Option(help="make chats of the queries, which are clean, and learn to undo that")
    ] = False,
    lora: Annotated[int | None, typer.Option(min=1, help="train adapters of this rank instead of all weights")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="a setting of the recipe, as group=8, kl=0.02, clip=0.2, inner=2")
    ] = None,
) -> None:
    """Train a rewriter of queries by what its rewrites find. Run again, it goes on where it stopped."""
    from isthmus.train.rewriter import WARM, changed, load, make_forge

    recipe = changed([*(settings or []), *([f"steps={steps}"] if steps else [])])
    make_forge(
        data,
        out,
        policy=lambda warmed: load(warmed or model, device=device, lora=lora),
        finds=retriever,
        recipe=recipe,
        warm=replace(WARM, steps=warm_up, seed=recipe.seed, rows=recipe.rows) if warm_up else None,
        chats=chats,
        made={"model": model, "lora": lora},
        minutes=minutes,
        report=lambda line: echo(line, err=True),
    )
    echo(f"The rewriter is in {out / 'model'}, what it was asked with in {out / 'model' / 'prompt.txt'}")


@train.command("forge-mini")
def train_forge_mini(  # noqa: PLR0913 - one name per option
    data: Annotated[Path, typer.Option(envvar="ISTHMUS_DATA", help="folder with scifact/ and flickr8k/")],
    out: Annotated[Path, typer.Option(help="the file it is written to; the curve goes beside it")] = Path(
        "forge-mini.onnx"
    ),
    device: Annotated[str, typer.Option(envvar="ISTHMUS_DEVICE", help="cpu or cuda")] = "cpu",
    supervised_steps: Annotated[int, typer.Option(min=1, help="towards a teacher's choice of words")] = 500,
    steps: Annotated[int, typer.Option(min=1, help="of reinforcement")] = 160,
    rate: Annotated[float, typer.Option(min=0, help="of reinforcement")] = 3e-4,
    length_cost: Annotated[float, typer.Option(min=0, help="what keeping all words costs, in nDCG@10")] = 0.3,
    batch: Annotated[int, typer.Option(min=1, help="queries a step")] = 64,
    seed: Annotated[int, typer.Option(help="of everything that is drawn")] = 0,
    held_out: Annotated[int, typer.Option(min=0, help="claims at the end that are not learned from")] = 109,
    supervised_only: Annotated[bool, typer.Option("--supervised-only", help="no reinforcement")] = False,
    no_supervised: Annotated[bool, typer.Option("--no-supervised", help="reinforcement from nothing")] = False,
) -> None:
    """Train the embedded rewriter: which words of a chatty query to keep, by what two retrievers then find."""
    from isthmus.train.forge_make import make_forge_mini
    from isthmus.train.forge_mini import ForgeMiniRecipe

    if supervised_only and no_supervised:
        raise BadInput("--supervised-only and --no-supervised together leave nothing to do. Give one of them.")
    recipe = ForgeMiniRecipe(
        sft_steps=0 if no_supervised else supervised_steps,
        rl_steps=0 if supervised_only else steps,
        rl_rate=rate,
        length_cost=length_cost,
        batch=batch,
        seed=seed,
    )
    tell = partial(echo, err=True)
    make_forge_mini(data, out, recipe=recipe, device=device, held_out=held_out, report=tell)
    echo(f"The rewriter is in {out}: isthmus.align.mini.load({str(out)!r})")
