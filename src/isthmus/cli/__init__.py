"""The command line: thin. A verb parses its options, calls one library function and prints."""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from isthmus.cli.demo import demo
from isthmus.cli.diagnose import diagnose
from isthmus.cli.doctor import doctor
from isthmus.cli.evaluate import evaluate
from isthmus.cli.index import calibrate, delete, index
from isthmus.cli.search import export, search, stats
from isthmus.cli.train_lens import train_lens
from isthmus.errors import BadInput, BadSpec, IsthmusError, UnknownName

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
    stats: "what a collection holds",
    diagnose: "whether a search is unfair, and why",
    evaluate: "compare calibrations on a benchmark",
    export: "documents, vectors or calibration as a file",
    delete: "delete documents",
    doctor: "what is installed, and what is missing",
    demo: "try it on a sample folder",
}
for verb, what in VERBS.items():
    app.command(short_help=what)(verb)  # type: ignore[type-var]  # each is a function
train = typer.Typer(no_args_is_help=True, help="Train what isthmus ships.")
app.add_typer(train, name="train")
train.command("lens")(train_lens)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(version("isthmus"))
        raise typer.Exit


@app.callback()
def isthmus(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="say the version and end")
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
        report=lambda line: typer.echo(line, err=True),
    )
    typer.echo(f"The encoder is in {out}: isthmus.encoders.load('onnx:{out}')")


def main() -> None:
    """Run the command line; an error of ours is one line and exit code 1, or 2 where the command was wrong."""
    try:
        app()
    except IsthmusError as error:
        typer.echo(f"isthmus: {error}", err=True)
        sys.exit(2 if isinstance(error, UnknownName | BadSpec) else 1)
