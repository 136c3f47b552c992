"""Hostile values for every argument of every public method and every verb: an error of ours, or an answer."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

from isthmus import Collection, Document, Query, Vectors
from isthmus.cli import main
from isthmus.errors import BadInput, IsthmusError
from stock import mixed


def deep(levels: int, kind: str) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = {"list": [value], "not": {"not": value}, "and": {"and": [value]}}[kind]
    return value


HOSTILE: dict[str, Any] = {
    "None": None,
    "True": True,
    "zero": 0,
    "five": 5,
    "minus one": -1,
    "2.5": 2.5,
    "2.0": 2.0,
    "nan": float("nan"),
    "infinity": float("inf"),
    "beyond 64 bits": 10**30,
    "numpy int": np.int64(3),
    "numpy float": np.float64(2.5),
    "numpy string": np.str_("cat"),
    "bytes": b"bytes",
    "empty": "",
    "blank": " \t\n",
    "nul": "a\0b",
    "surrogate": "\ud800",
    "escape": "\x1b[2J",
    "onnx nul": "onnx:\0",
    "onnx surrogate": "onnx:\ud800",
    "minus": "-",
    "plus": "+",
    "quotes": "'\"; DROP TABLE documents; --",
    "long": "x" * 100_000,
    "list": [],
    "list of five": [5],
    "list of None": [None],
    "list of lists": [[]],
    "ragged": [[1.0, 2.0], [3.0]],
    "strings": ["a", "\0", "\ud800"],
    "dict": {},
    "dict of five": {5: 1},
    "dict of dicts": {"a": {"b": {}}},
    "operators": {"a": {"gt": object()}},
    "set": {1, "a"},
    "tuple": ("a", 5),
    "object": object(),
    "class": dict,
    "function": len,
    "array": np.zeros((2, 3)),
    "empty array": np.zeros(0),
    "objects": np.array([object()]),
    "deep list": deep(2000, "list"),
    "deep not": deep(2000, "not"),
    "deep and": deep(2000, "and"),
    "generator": (one for one in [5]),
    "query": Query(text="a cat"),
    "document": Document("hostile", "a cat"),
    "zero dimensions": np.array(3.0),
    "iterator": iter(["a", 5]),
    "path of nul": Path("a\0b"),
    "nowhere": Path("/dev/null/at/all"),
}

STOPPED = Event()
STOPPED.set()


def uncallable(value: Any) -> Any:
    """Leave functions out: an error of the caller's own function is the caller's."""
    return None if callable(value) else value


def named(value: Any) -> dict[Any, Any]:
    return {value if isinstance(value, Hashable) else None: np.ones(8)}


def open_new(things: Collection, value: Any) -> None:
    with tempfile.TemporaryDirectory(dir=things.path.parent) as place, contextlib.chdir(place):
        Collection.open(value, "none").close()


CALLS: dict[str, Callable[[Collection, Any], object]] = {
    "get": lambda things, value: things.get(value),
    "contains": lambda things, value: value in things,
    "delete": lambda things, value: things.delete(value),
    "delete [x]": lambda things, value: things.delete([value]),
    "update": lambda things, value: things.update(value),
    "update metadata": lambda things, value: things.update("d0-3", metadata=value),
    "update {x}": lambda things, value: things.update("d0-3", metadata={"m": value}),
    "add": lambda things, value: things.add(value),
    "add progress": lambda things, value: things.add([Document("x", "a cat")], progress=uncallable(value)),
    "add [x]": lambda things, value: things.add([value]),
    "ids": lambda things, value: things.ids(value),
    "search": lambda things, value: things.search(value),
    "k": lambda things, value: things.search("a cat", k=value),
    "offset": lambda things, value: things.search("a cat", offset=value),
    "where": lambda things, value: things.search("a cat", where=value),
    "where {x}": lambda things, value: things.search("a cat", where={"number": value}),
    "where in": lambda things, value: things.search("a cat", where={"number": {"in": value}}),
    "where gt": lambda things, value: things.search("a cat", where={"number": {"gt": value}}),
    "where or": lambda things, value: things.search("a cat", where={"or": value}),
    "where exists": lambda things, value: things.search("a cat", where={"number": {"exists": value}}),
    "modalities": lambda things, value: things.search("a cat", modalities=value),
    "modalities [x]": lambda things, value: things.search("a cat", modalities=[value]),
    "hybrid": lambda things, value: things.search("a cat", hybrid=value),
    "explain": lambda things, value: things.search("a cat", explain=value),
    "group": lambda things, value: things.search("a cat", group=value),
    "partial": lambda things, value: things.search("a cat", partial=value),
    "align query": lambda things, value: things.align(value, "none"),
    "align": lambda things, value: things.search("a cat", align=value),
    "min_probability": lambda things, value: things.search("a cat", min_probability=value),
    "calibration": lambda things, value: things.search("a cat", calibration=value),
    "rerank": lambda things, value: things.search("a cat", rerank=value),
    "search_many": lambda things, value: things.search_many(value),
    "search_many [x]": lambda things, value: things.search_many([value]),
    "maps": lambda things, value: things.maps(value, []),
    "maps hits": lambda things, value: things.maps("a cat", value),
    "maps [x]": lambda things, value: things.maps("a cat", [value]),
    "maps progress": lambda things, value: things.maps("a cat", [], progress=uncallable(value)),
    "references": lambda things, value: things.references(value),
    "references [x]": lambda things, value: things.references([value]),
    "references (_, x)": lambda things, value: things.references([(Query("a cat"), value)]),
    "log_queries": lambda things, value: things.log_queries(value),
    "calibrate": lambda things, value: things.calibrate(value),
    "calibrate progress": lambda things, value: things.calibrate("none", progress=uncallable(value)),
    "queries": lambda things, value: things.calibrate("none", queries=value),
    "queries [x]": lambda things, value: things.calibrate("none", queries=[value]),
    "queries (_, x)": lambda things, value: things.calibrate("none", queries=[("a cat", value)]),
    "index": lambda things, value: things.index(value),
    "index kind": lambda things, value: things.index(things.path.parent / "files", kind=value),
    "index prune": lambda things, value: things.index(things.path.parent / "files", prune=value),
    "index progress": lambda things, value: things.index(things.path.parent / "files", progress=uncallable(value)),
    "watch": lambda things, value: next(things.watch(value, stop=STOPPED), None),
    "watch kind": lambda things, value: next(things.watch(".", kind=value, stop=STOPPED), None),
    "watch prune": lambda things, value: next(things.watch(".", prune=value, stop=STOPPED), None),
    "watch stop": lambda things, value: value is None or next(things.watch(".", stop=value), None),
    "reencode drop": lambda things, value: things.reencode(things.encoder or "none", drop=value),
    "reencode force": lambda things, value: things.reencode(things.encoder or "none", force=value),
    "reencode progress": lambda things, value: things.reencode("nobody", progress=uncallable(value)),
    "reencode": lambda things, value: things.reencode(value),
    "export": lambda things, value: things.export_vectors(value),
    "export layout": lambda things, value: things.export_vectors(things.path.parent / "x.npz", layout=value),
    "export queries": lambda things, value: things.export_vectors(
        things.path.parent / "x.npz", layout="one", queries=value
    ),
    "open": lambda things, value: Collection.open(value, create=False).close(),
    "open new": lambda things, value: open_new(things, value),
    "open create": lambda things, value: Collection.open(things.path, create=value).close(),
    "open follow": lambda things, value: Collection.open(things.path, follow=value).close(),
    "open device": lambda things, value: Collection.open(things.path, device=value).close(),
    "open threads": lambda things, value: Collection.open(things.path, threads=value).close(),
    "open encoder": lambda things, value: Collection.open(things.path, value).close(),
    "open new encoder": lambda things, value: Collection.open(things.path.parent / "new", value).close(),
    "open calibration": lambda things, value: Collection.open(things.path, calibration=value).close(),
    "document id": lambda things, value: things.add([Document(value, "a cat")]),
    "document text": lambda things, value: things.add([Document("x", value)]),
    "document image": lambda things, value: things.add([Document("x", image=value)]),
    "document metadata": lambda things, value: things.add([Document("x", "a cat", metadata=value)]),
    "document {x}": lambda things, value: things.add([Document("x", "a cat", metadata={"m": value})]),
    "document vectors": lambda things, value: things.add([Document("x", vectors=value)]),
    "document vector": lambda things, value: things.add([Document("x", vectors={"text": value})]),
    "query image": lambda things, value: things.search(Query(image=value)),
    "query weights": lambda things, value: things.search(Query("a cat", weights=value)),
    "query weight": lambda things, value: things.search(Query("a cat", weights={"text": value})),
    "query vector": lambda things, value: things.search(Query(vectors={"text": value})),
    "query part": lambda things, value: things.search(Query(vectors=named(value))),
    "query images": lambda things, value: things.search(Query(parts=value)),
    "vectors": lambda _, value: Vectors(value),
    "vectors {x}": lambda _, value: Vectors({"text": value}),
    "vectors present": lambda _, value: Vectors({"text": np.eye(3)}, present=value),
    "vectors weights": lambda _, value: Vectors({"text": np.eye(3)}, weights=value),
    "vectors of": lambda _, value: Vectors.of(value, "text"),
    "vectors modality": lambda _, value: Vectors.of(np.eye(3), value),
}


@pytest.fixture(scope="module")
def things(tmp_path_factory: pytest.TempPathFactory, tiny: str) -> Iterator[Collection]:
    place = tmp_path_factory.mktemp("fuzz")
    (place / "files").mkdir()
    with (
        pytest.MonkeyPatch.context() as patch,
        Collection.open(place / "things", tiny, calibration="none", follow=False) as opened,
    ):
        patch.chdir(place / "files")
        opened.add(mixed(12, long=False))
        yield opened


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("name", CALLS)
def test_a_hostile_argument_gets_an_answer_or_an_error_of_ours(things: Collection, name: str) -> None:
    wrong: list[str] = []
    for said, value in HOSTILE.items():
        try:
            CALLS[name](things, value)
        except IsthmusError as error:
            if len(str(error)) < 20 or "Error" in str(error):
                wrong.append(f"{said}: {error}")
        except Exception as error:  # noqa: BLE001 - what is looked for
            wrong.append(f"{said}: {type(error).__name__}: {str(error)[:200]}")
    assert wrong == []
    assert things.verify() == []
    assert things.search("a cat")


VERBS: dict[str, list[str]] = {
    "search": ["search", "X", "--in", "THINGS"],
    "search k": ["search", "a cat", "--in", "THINGS", "-k", "X"],
    "search offset": ["search", "a cat", "--in", "THINGS", "--offset", "X"],
    "search where": ["search", "a cat", "--in", "THINGS", "--where", "X"],
    "search where x": ["search", "a cat", "--in", "THINGS", "--where", "number>=X"],
    "search modality": ["search", "a cat", "--in", "THINGS", "--modality=X"],
    "search weights": ["search", "a cat", "--in", "THINGS", "--weights", "X"],
    "search image": ["search", "--in", "THINGS", "--image", "X"],
    "search maps": ["search", "a cat", "--in", "THINGS", "--explain-maps", "X/page.html"],
    "search elsewhere": ["search", "a cat", "--in", "X"],
    "calibrate": ["calibrate", "--in", "THINGS", "X"],
    "calibrate queries": ["calibrate", "none", "--in", "THINGS", "--queries", "X"],
    "delete": ["delete", "--in", "THINGS", "--", "X"],
    "delete where": ["delete", "--in", "THINGS", "--where", "X=1"],
    "export": ["export", "--in", "THINGS", "--to", "X/a.jsonl"],
    "index": ["index", "X", "--into", "THINGS"],
    "index kind": ["index", ".", "--into", "THINGS", "--kind", "X"],
    "index encoder": ["index", ".", "--into", "THINGS", "--encoder", "X"],
    "reencode": ["reencode", "--in", "THINGS", "--encoder", "X"],
    "stats": ["stats", "--in", "X"],
    "evaluate": ["evaluate", "X", "--data", "."],
    "diagnose": ["diagnose", "--in", "THINGS", "--queries", "X"],
}
WORDS = [
    "",
    " ",
    "\ud800",
    "\x1b[2J",
    str(10**30),
    "-1",
    "1e400",
    "nan",
    "[" * 5000,
    '{"a": ' * 5000,
    "{}",
    '{"a": []}',
]
WORDS += [
    '{"not": ' * 200 + '{"a": 1}' + "}" * 200,
    "'; DROP TABLE documents; --",
    "x" * 5000,
    "onnx:",
    "a=",
    "=",
    "+",
    "-",
]


@pytest.mark.parametrize("name", VERBS)
def test_a_hostile_option_ends_in_a_stated_exit_code(
    things: Collection, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    wrong: list[str] = []
    for word in WORDS:
        given = [one.replace("THINGS", str(things.path)).replace("X", word) for one in VERBS[name]]
        monkeypatch.setattr(sys, "argv", ["isthmus", *given])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        failed = ended.value.code not in (0, 3)
        if ended.value.code not in (0, 1, 2, 3) or "Traceback" in out + err or (failed and not err):
            wrong.append(f"{word[:40]!r}: {ended.value.code} {err[-300:]}")
    assert wrong == []


WRONG: dict[str, tuple[Any, ...]] = {
    "open new": ("a\0b", "\ud800", Path("a\0b")),
    "open device": (5, None, ""),
    "open threads": ("x", 0, 2.5, True),
    "open create": ("x", None),
    "log_queries": ("x", None),
    "references": (5, "a cat"),
    "add progress": (5,),
    "index progress": (5,),
    "maps hits": (5, [5]),
    "watch": (5, "/dev/null/at/all"),
    "watch stop": (5,),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_argument_is_not_accepted_in_silence(things: Collection, name: str) -> None:
    for value in WRONG[name]:
        with pytest.raises(BadInput):
            CALLS[name](things, value)


def test_a_watch_takes_the_home_folder(things: Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "texts").mkdir()
    assert list(things.watch("~/texts", stop=STOPPED)) == []
