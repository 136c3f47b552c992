"""The verbs of the command line, and the subcommands of `isthmus train`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from isthmus import __version__
from isthmus.cli.backup import backup, restore
from isthmus.cli.calibrate import calibrate
from isthmus.cli.compact import compact
from isthmus.cli.copy import copy
from isthmus.cli.demo import demo
from isthmus.cli.diagnose import diagnose
from isthmus.cli.doctor import doctor
from isthmus.cli.evaluate import evaluate
from isthmus.cli.export_encoder import export_encoder
from isthmus.cli.index import delete, index
from isthmus.cli.mcp import mcp
from isthmus.cli.options import Quiet
from isthmus.cli.plan import plan
from isthmus.cli.reencode import reencode
from isthmus.cli.search import export, search
from isthmus.cli.serve import keys, serve
from isthmus.cli.shards import shards
from isthmus.cli.stats import stats
from isthmus.cli.terminal import echo, reporter
from isthmus.cli.train_forge import train_forge
from isthmus.cli.train_fusion import train_fusion
from isthmus.cli.train_lens import train_lens
from isthmus.errors import BadInput

app = typer.Typer(
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    context_settings={"auto_envvar_prefix": "ISTHMUS"},
    help="One search over text, images and documents with both. Options can be set in the environment: "
    "ISTHMUS_COLLECTION names the collection, ISTHMUS_SEARCH_K=5 is `search -k 5`.",
)
VERBS = {
    index: "read files into a collection",
    search: "find documents by words, a picture or both",
    serve: "serve collections over HTTP",
    mcp: "offer a collection to agents (MCP)",
    calibrate: "calibrate a collection again, or a store",
    reencode: "switch a collection to another encoder",
    stats: "show what a collection holds",
    diagnose: "check a collection or a store for bias towards a modality",
    evaluate: "compare calibrations on a benchmark",
    export: "write documents, vectors or calibration to a file",
    export_encoder: "write an encoder as a folder that runs without torch",
    delete: "delete documents",
    backup: "copy a collection while it is in use",
    restore: "make a collection from a backup",
    copy: "copy a collection to another engine",
    compact: "free the disk space of deleted documents",
    shards: "put the vectors of a collection on several servers",
    plan: "estimate what many documents will take",
    doctor: "show what is installed and what is missing",
    demo: "try it on a sample folder",
}
for verb, what in VERBS.items():
    app.command(short_help=what)(verb)  # type: ignore[type-var]  # each is a function
app.add_typer(keys, name="keys", short_help="make, list and revoke API keys")
train = typer.Typer(no_args_is_help=True, help="Train encoders and query rewriters.")
app.add_typer(train, name="train", short_help="train encoders and query rewriters")
train.command("fusion", short_help="train one vector for documents with text and image")(train_fusion)
train.command("forge", short_help="train a query rewriter by reinforcement")(train_forge)
train.command("lens", short_help="fine-tune a sentence encoder with hard negatives")(train_lens)


def _version(wanted: bool) -> None:
    if wanted:
        echo(__version__)
        raise typer.Exit


def _offline(context: typer.Context, wanted: bool) -> None:
    """Forbid downloads while the verb runs, to isthmus and to the libraries that read their own variable."""
    if wanted:
        before = {variable: os.environ.get(variable) for variable in ("ISTHMUS_OFFLINE", "HF_HUB_OFFLINE")}
        os.environ.update(dict.fromkeys(before, "1"))
        context.call_on_close(lambda: _restore(before))


def _restore(environment: Mapping[str, str | None]) -> None:
    for variable, value in environment.items():
        os.environ.pop(variable, None)
        if value is not None:
            os.environ[variable] = value


@app.callback()
def isthmus(
    offline: Annotated[
        bool,
        typer.Option(
            "--offline",
            callback=_offline,
            is_eager=True,
            allow_from_autoenv=False,
            show_envvar=False,
            help="make no network calls: models come from folders or from what was downloaded before",
        ),
    ] = False,
    _: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_version,
            is_eager=True,
            allow_from_autoenv=False,
            show_envvar=False,
            help="show the version and exit",
        ),
    ] = False,
) -> None:
    """Show help, or the version."""


@train.command("mini", short_help="train the built-in encoders mini and base")
def train_mini(  # noqa: PLR0913 - one name per option
    data: Annotated[Path, typer.Option(envvar="ISTHMUS_PACKS", help="folder of packed sets; see docs/mini.md")],
    out: Annotated[Path, typer.Option(help="output folder for the encoders, logs and checkpoints")] = Path("mini"),
    device: Annotated[str, typer.Option(envvar="ISTHMUS_DEVICE", help="cuda, or cpu for a trial run")] = "cuda",
    text_weights: Annotated[
        Path | None, typer.Option(help="folder of a sentence encoder; default: the installed MiniLM")
    ] = None,
    image_weights: Annotated[
        Path | None, typer.Option(help="EfficientNet-lite weights; default: the installed ones")
    ] = None,
    base_steps: Annotated[int | None, typer.Option(min=1, help="steps of base; default: the recipe's")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="steps of mini; default: the recipe's")] = None,
    batch: Annotated[int | None, typer.Option(min=8, help="batch size of both; default: the recipes'")] = None,
    size: Annotated[int | None, typer.Option(min=32, help="image side in pixels; default: the recipe's")] = None,
    backbone: Annotated[str, typer.Option(help="lite0, lite1 or lite2")] = "lite2",
    limit: Annotated[
        int | None, typer.Option(min=2, help="read at most this many pictures of each set, for a trial run")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Train the built-in encoders: the text tower of both, then the image tower of mini.

    The frozen image tower of base must be installed (`isthmus doctor`). The same command continues an interrupted run.
    """
    weights = (text_weights, image_weights)
    if weights.count(None) == 1:
        raise BadInput("Give both --text-weights and --image-weights, or neither.")
    from isthmus.train.base import BaseRecipe
    from isthmus.train.make import make_mini
    from isthmus.train.mini import MiniRecipe

    for_base, for_mini = BaseRecipe(), MiniRecipe(backbone=backbone)
    for_base = replace(for_base, steps=base_steps or for_base.steps, batch=batch or for_base.batch)
    for_mini = replace(for_mini, steps=steps or for_mini.steps, batch=batch or for_mini.batch)
    recipes = (for_base, replace(for_mini, size=size or for_mini.size))
    make_mini(data, out, device=device, weights=weights, limit=limit, recipes=recipes, report=reporter(quiet=quiet))
    echo(f"The encoders are in {out}: isthmus.encoders.load('onnx:{out}/mini') and 'onnx:{out}/base'")


@train.command("forge-mini", short_help="train the built-in query rewriter")
def train_forge_mini(  # noqa: PLR0913 - one name per option
    data: Annotated[Path, typer.Option(envvar="ISTHMUS_DATA", help="folder with scifact/ and flickr8k/")],
    out: Annotated[Path, typer.Option(help="output file; the learning curve is written next to it")] = Path(
        "forge-mini.onnx"
    ),
    device: Annotated[str, typer.Option(envvar="ISTHMUS_DEVICE", help="cpu or cuda")] = "cpu",
    supervised_steps: Annotated[
        int, typer.Option(min=1, help="supervised steps, on a teacher's choice of words")
    ] = 900,
    keep: Annotated[
        float, typer.Option(min=0.001, max=0.999, help="probability from which the supervised model keeps a word")
    ] = 0.1,
    steps: Annotated[int, typer.Option(min=1, help="steps of reinforcement learning")] = 160,
    rate: Annotated[float, typer.Option(min=0, help="learning rate of reinforcement learning")] = 3e-4,
    length_cost: Annotated[float, typer.Option(min=0, help="penalty for keeping all words, in nDCG@10")] = 0.3,
    batch: Annotated[int, typer.Option(min=1, help="queries per step")] = 32,
    seed: Annotated[int, typer.Option(help="random seed")] = 0,
    held_out: Annotated[int, typer.Option(min=0, help="number of claims held out for validation")] = 109,
    supervised_only: Annotated[bool, typer.Option("--supervised-only", help="skip reinforcement learning")] = False,
    no_supervised: Annotated[bool, typer.Option("--no-supervised", help="skip the supervised steps")] = False,
    quiet: Quiet = False,
) -> None:
    """Train the built-in query rewriter: which words of a chatty query to keep.

    Choices are rewarded for the documents that two retrievers then find.
    """
    if supervised_only and no_supervised:
        raise BadInput("--supervised-only and --no-supervised exclude each other. Give one of them.")
    from isthmus.train.forge_make import make_forge_mini
    from isthmus.train.forge_mini import ForgeMiniRecipe

    recipe = ForgeMiniRecipe(
        sft_steps=0 if no_supervised else supervised_steps,
        rl_steps=0 if supervised_only else steps,
        rl_rate=rate,
        length_cost=length_cost,
        keep=keep,
        batch=batch,
        seed=seed,
    )
    make_forge_mini(data, out, recipe=recipe, device=device, held_out=held_out, report=reporter(quiet=quiet))
    echo(f"The rewriter is in {out}: isthmus.align.mini.load({str(out)!r})")
