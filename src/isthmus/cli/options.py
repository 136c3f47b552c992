"""Options that several verbs share, and how their values are read."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from isthmus.budget import QUERY_FILE_BYTES
from isthmus.documents import Query
from isthmus.encoders import KINDS, NAMED
from isthmus.encoders.locations import EMBEDDED
from isthmus.errors import CannotWrite, shown
from isthmus.files import read_regular
from isthmus.kinds import IMAGE, TEXT
from isthmus.registry import suggestion

In: TypeAlias = Annotated[
    str,
    typer.Option(
        "--in",
        metavar="<path>",
        envvar="ISTHMUS_COLLECTION",
        help="the collection: a folder made by `isthmus index`, or postgresql://…",
    ),
]
MaybeIn: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--in",
        metavar="<path>",
        envvar="ISTHMUS_COLLECTION",
        help="the collection: a folder made by `isthmus index`, or postgresql://…",
    ),
]
QueryModality: TypeAlias = Annotated[str, typer.Option(help="of a store: the kind of queries")]
ENCODERS = f"{', '.join(EMBEDDED)}, {', '.join(NAMED)}"  # how encoders are named, for help texts
HALVES = ", ".join(word for word, family in KINDS.items() if family.halves)
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="print JSON")]
Device: TypeAlias = Annotated[
    str, typer.Option(envvar="ISTHMUS_DEVICE", help="device of the encoder: auto, cpu, cuda or mps")
]
CalibrationDevice: TypeAlias = Annotated[
    str,
    typer.Option(
        envvar="ISTHMUS_DEVICE",
        help="device of the encoder, and (cuda, by torch) of the biases: auto, cpu, cuda or mps",
    ),
]
Precision: TypeAlias = Annotated[
    str,
    typer.Option(
        envvar="ISTHMUS_PRECISION",
        help=f"how the encoder computes: full, half (16 bits; {HALVES}) or auto (half on a GPU)",
    ),
]
TrustRemoteCode: TypeAlias = Annotated[
    bool, typer.Option("--trust-remote-code", help="run code that comes with a model, with your rights; read it first")
]
Threads: TypeAlias = Annotated[
    int | None, typer.Option(envvar="ISTHMUS_THREADS", min=1, help="CPU cores for the encoder; default: all")
]
Quiet: TypeAlias = Annotated[bool, typer.Option("--quiet", "-q", help="show no progress")]

CONDITION = re.compile(r"^(?P<name>[^=<>!~]+?)\s*(?P<sign>!=|>=|<=|=|>|<)\s*(?P<value>.*)$", re.DOTALL)
FIELDS = ("query", TEXT, IMAGE, "id")  # of a line in a file of queries
SIGNS = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}


def needed(collection: str | None) -> str:
    """Return the value of ``--in``, which only a store can replace."""
    if collection is None:
        raise typer.BadParameter("Missing option '--in', the collection. A store is KIND:PLACE, see docs/stores.md.")
    return collection


def writable(file: Path | None) -> None:
    """Reject a file in a folder that does not exist, before the work whose result it is for."""
    if file is not None and not file.parent.is_dir():
        raise CannotWrite(f"{file} cannot be written: there is no folder {file.parent}. Make it first.")


def conditions(several: list[str]) -> dict[str, Any] | None:
    """Read ``--where`` options: ``lang=en``, ``year>=2000``, ``lang!=de``, ``lang=en,de``, or a JSON object.

    >>> conditions(["lang=en", "year>=2000"])
    {'and': [{'lang': {'in': ['en']}}, {'year': {'gte': 2000}}]}
    """
    return {"and": [_condition(text) for text in several]} if several else None


def names_in(several: Sequence[str]) -> list[str]:
    """Return the names in ``--where`` options, except those in JSON.

    >>> names_in(["lang=en", "year>=2000"])
    ['lang', 'year']
    """
    return [found["name"].strip() for text in several if (found := CONDITION.match(text)) and text[:1] != "{"]


def _condition(text: str) -> dict[str, Any]:
    if text.lstrip().startswith("{"):
        try:
            read = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise typer.BadParameter(f"--where {text[:80]!r} is not JSON: {error}.") from None
        return dict(read)
    found = CONDITION.match(text)
    if found is None:
        raise typer.BadParameter(
            f"--where {text!r} cannot be read. Write NAME=VALUE, NAME!=VALUE, NAME>=VALUE, NAME=A,B or a JSON object."
        )
    name, sign, value = found["name"].strip(), found["sign"], found["value"].strip()
    if sign in SIGNS:
        return {name: {SIGNS[sign]: _value(value)}}
    several = [one for part in value.split(",") for one in _either(part.strip())]
    return {name: {"in" if sign == "=" else "not": several}}


def _value(text: str) -> Any:
    try:
        read = json.loads(text, parse_constant=lambda _: text)  # a title may be "Infinity"
    except (ValueError, RecursionError):
        return text
    return read if isinstance(read, str | int | float) else text


def _either(text: str) -> list[Any]:
    """Return the possible values: ``2000`` may be a number or a string in the metadata."""
    value = _value(text)
    return [value] if value == text else [value, text]


def weights(text: str | None) -> dict[str, float] | None:
    """Read ``--weights text=2,image=1``.

    >>> weights("text=2,image=1")
    {'text': 2.0, 'image': 1.0}
    """
    if text is None:
        return None
    try:
        return {name.strip(): float(value) for name, value in (pair.split("=") for pair in text.split(","))}
    except ValueError:
        raise typer.BadParameter(f"--weights {text!r} cannot be read. Write text=2,image=1.") from None


def references(path: Path | None) -> list[Query | tuple[Query, str]] | None:
    """Read a file of reference queries: a query per line, or JSON lines with ``query`` and, if known, ``id``."""
    if path is None:
        return None
    try:
        text = read_regular(path, QUERY_FILE_BYTES).decode("utf-8-sig")
    except OSError as error:
        raise typer.BadParameter(f"{path} cannot be read: {error.strerror or error}.") from None
    except UnicodeDecodeError as error:
        raise typer.BadParameter(f"{path} cannot be read: {error}.") from None
    lines = [line.strip() for line in text.split("\n") if line.strip()]  # JSON may hold other line ends
    if not lines:
        raise typer.BadParameter(
            f"{path} has no queries. Write one query per line, or JSON lines such as "
            '{"query": "a red sofa", "id": "sofa.jpg"}; the id of the right document is optional.'
        )
    return [_reference(line, path, number) for number, line in enumerate(lines, 1)]


def _reference(line: str, path: Path, number: int) -> Query | tuple[Query, str]:
    """Read one query of a file; a field that means nothing here is refused, since it may be a misspelt one."""
    if not line.startswith("{"):
        return Query(text=line)
    try:
        read = json.loads(line)
        query = Query(text=read.get("query", read.get(TEXT)), image=read.get(IMAGE))
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(f"{path}: {line[:80]!r} cannot be read: {error}") from None
    unknown = sorted(set(read) - set(FIELDS))
    if unknown:
        raise typer.BadParameter(
            f"{path}: query {number} has the field {shown(unknown[0])}. {suggestion(unknown[0], FIELDS)} Rename it or "
            "leave it out."
        )
    return query if read.get("id") is None else (query, str(read["id"]))
