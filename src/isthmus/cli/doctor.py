"""``isthmus doctor``: what is installed, which devices there are, what is missing and how to install it."""

from __future__ import annotations

import os
import platform
import sqlite3
import sys
import tomllib
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from typing import Annotated

import numpy as np
import typer

from isthmus import __version__, encoders
from isthmus._optional import offline
from isthmus.cli import show
from isthmus.cli.extras import EXTRAS, install
from isthmus.cli.options import Json
from isthmus.cli.terminal import echo, echo_json, line
from isthmus.devices import list_devices
from isthmus.documents import Query
from isthmus.encoders.clip_source import find_clip
from isthmus.encoders.families import EncoderFamily, full_name, installed
from isthmus.encoders.http_usage import PRICES, prices
from isthmus.encoders.locations import COMPLETE, EMBEDDED, user_cache
from isthmus.encoders.wire_formats import FORMATS
from isthmus.errors import IsthmusError, counted
from isthmus.kinds import KINDS, atoms, joined
from isthmus.ocr import engine
from isthmus.ocr.cache import FOLDER
from isthmus.search import Collection
from isthmus.storage.postgres.address import PostgresAddress, is_address
from isthmus.storage.servers import FOLDER as IN_FOLDER


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    name: str
    good: bool
    said: str  # the name in `doctor --json`


def doctor(
    into: Annotated[
        str | None,
        typer.Option("--in", metavar="<path>", envvar="ISTHMUS_COLLECTION", help="a collection to check as well"),
    ] = None,
    json: Json = False,
) -> None:
    """Show what is installed, which devices encoders can use, what is missing and how to install it."""
    sections = {
        "This machine": [*_machine(), *_core()],
        "Encoders: isthmus index --encoder NAME": [*map(_embedded, EMBEDDED), *_families(), *_plug_ins()],
        "Extras": [*_extras(), _ocr()],
    }
    if into is not None:
        sections[f"The collection {_without_password(into)}"] = _collection(into)
    found = [one for several in sections.values() for one in several]
    if json:
        echo_json([asdict(one) for one in found])
    else:
        for title, several in sections.items():
            echo(line(title))
            for one in several:
                echo(f"{'✓' if one.good else '–'} {one.name:<22} {line(one.said)}")
    if any(not one.good and one.name in ("core", *COMPLETE, "collection", "its encoder", "sqlite") for one in found):
        raise typer.Exit(1)


def _machine() -> list[Finding]:
    import onnxruntime

    devices = [name.removesuffix("ExecutionProvider") for name in onnxruntime.get_available_providers()]
    with sqlite3.connect(":memory:") as connection:
        words = any(row[0] == "ENABLE_FTS5" for row in connection.execute("PRAGMA compile_options"))
    return [
        Finding("isthmus", True, f"{__version__} on Python {platform.python_version()}, {sys.platform}"),
        Finding("machine", True, f"{os.cpu_count()} cores, {platform.machine()}{_memory()}"),
        Finding("devices", True, f"{', '.join(devices)} (onnxruntime {onnxruntime.__version__})"),
        _torch(),
        Finding(
            "sqlite", words, f"{sqlite3.sqlite_version}{'' if words else ': built without FTS5; use another Python'}"
        ),
        Finding("cache", True, str(user_cache())),
    ]


def _torch() -> Finding:
    """List the devices of torch, for `--device`, and which of them take `--precision half`."""
    if find_spec("torch") is None:
        return Finding("torch", False, f"not installed; encoders on it need it ({install('hf')})")
    try:
        found = list_devices("hf")
    except (ImportError, OSError, RuntimeError) as error:  # of a build for another system
        return Finding("torch", False, f"cannot be imported: {error}. Install it again")
    return Finding(
        "torch", True, f"{'; '.join(f'{name} ({what})' for name, what in found.items())} (torch {version('torch')})"
    )


def _memory() -> str:
    try:
        return f", {os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB memory"
    except (AttributeError, ValueError, OSError):  # not available on every system
        return ""


def _core() -> list[Finding]:
    missing: list[str] = []
    have: list[str] = []
    for requirement in requires("isthmus") or []:
        if "extra ==" in requirement:
            continue
        name = requirement.split(">")[0].split("<")[0].split("=")[0].split("[")[0].split(";")[0].strip()
        try:
            have.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    if missing:
        return [Finding("core", False, f"missing: {', '.join(missing)}. pip install isthmus")]
    return [Finding("core", True, ", ".join(have))]


def _extras() -> list[Finding]:
    return [
        Finding(f"extra {name}", there, extra.what if there else f"{extra.what} ({install(name)})")
        for name, extra in EXTRAS.items()
        for there in [all(find_spec(module) is not None for module in extra.modules)]
    ]


def _ocr() -> Finding:
    """Say whether the text in pictures can be read: the engine is imported, which finds a broken installation."""
    if not engine.is_installed():
        return Finding("ocr", False, f"text in pictures is not read (pip install 'isthmus[{engine.EXTRA}]')")
    try:
        name = engine.engine_version()
    except (ImportError, OSError) as error:
        return Finding("ocr", False, f"text in pictures cannot be read: {error}. Install {engine.MODULE} again")
    return Finding("ocr", True, f"{name} reads the text in pictures; texts are kept in {FOLDER} in the cache")


def _embedded(name: str) -> Finding:
    try:
        encoder = encoders.load(name)
        encoder.encode_queries(["a cat on a red sofa", Query(image=np.zeros((8, 8), np.uint8))])
        source = "" if name in COMPLETE else f", CLIP's image tower from {find_clip()}"
    except (IsthmusError, OSError, tomllib.TOMLDecodeError) as error:
        return Finding(name, False, str(error) if name in COMPLETE else f"optional. {error}")
    kinds = ", ".join(map(_readable, atoms(joined(encoder.modalities))))
    return Finding(
        name, True, f"loads and runs: {kinds}; {encoder.dim} dimensions, checksum {encoder.identity[:12]}{source}"
    )


def _readable(name: str) -> str:
    """Return a kind that an encoder reads, with what its files need before they can be read here."""
    module = KINDS[name].needs
    if module is None or find_spec(module) is not None:
        return name
    extra = next(extra for extra, one in EXTRAS.items() if module in one.modules)
    return f"{name} (needs {install(extra)})"


def _families() -> list[Finding]:
    return [_family(word, family) for word, family in encoders.KINDS.items() if word not in EMBEDDED]


def _family(word: str, family: EncoderFamily, package: str = "") -> Finding:
    what = f"{full_name(word, family)}: {family.summary or 'no description'}{package}"
    if not family.missing:
        return Finding(f"encoder {word}", True, what + _needs_more(word, family))
    how = family.install or "install the modules"
    return Finding(f"encoder {word}", False, f"{what}. Cannot run here without {', '.join(family.missing)} ({how})")


def _needs_more(word: str, family: EncoderFamily) -> str:
    """Say what else a family needs: a key, or weights."""
    if word == "http":
        keys = {name: any(map(os.environ.get, form.keys)) for name, form in FORMATS.items()}
        there = [name for name, has in keys.items() if has]
        keyed = f"; keys are set for {', '.join(there)}" if there else "; no key is set, which vendors ask for"
        try:
            priced = f"; {PRICES} has {', '.join(prices())}" if prices() else ""
        except IsthmusError as error:
            priced = f"; {error}"
        return keyed + priced
    if family.needs:
        return f"; models come from folders{' (offline is set)' if offline() else ' or the Hugging Face hub'}"
    return ""


def _plug_ins() -> list[Finding]:
    return [
        Finding(f"encoder {word}", False, str(family))
        if isinstance(family, IsthmusError)
        else _family(word, family, f", from the package {package}")
        for word, package, family in installed(encoders.KINDS)
    ]


def _own_encoder(things: Collection) -> Finding:
    name = things.stats().encoder["encoder"]
    try:
        encoder = things.encoder
    except (IsthmusError, OSError) as error:
        return Finding("its encoder", False, f"{name} cannot be loaded, so the collection cannot be searched: {error}")
    said = "none: it holds vectors of your own" if encoder is None else f"{name} loads: {encoder.dim} dimensions"
    return Finding("its encoder", True, said)


def _without_password(place: str) -> str:
    try:
        return str(PostgresAddress.of(place)) if is_address(place) else place
    except IsthmusError:  # `_collection` says why it cannot be read
        return "on a PostgreSQL server"


def _collection(place: str) -> list[Finding]:
    try:
        with Collection.open(place, create=False, follow=False) as things:
            problems, facts = things.verify(), things.stats()
            begun, elsewhere = facts.reencoding, facts.vectors != IN_FOLDER
            vectors = [Finding("its vectors", True, f"live at {facts.vectors}")] if elsewhere else []
            detail = "; ".join(problems) or f"{counted(len(things), 'document')}, no damage found"
            unfinished = [Finding("re-encoding", True, show.unfinished(things.path, begun))] if begun else []
            return [Finding("collection", not problems, detail), *vectors, *unfinished, _own_encoder(things)]
    except IsthmusError as error:
        return [Finding("collection", False, str(error))]
