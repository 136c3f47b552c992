"""Every message of the command line, in one file that a person can read through: ``tests/data/messages.txt``.

After a change, write it again, and read what changed:

    ISTHMUS_WRITE_MESSAGES=1 python -m pytest tests/test_messages.py
"""

from __future__ import annotations

import math
import os
import re
import shlex
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import pytest
from PIL import Image
from typer.main import get_command

from isthmus import Collection, Document, samples
from isthmus.cli import app, doctor, main, progress, running
from isthmus.encoders import clip_source, families
from isthmus.encoders.wire_formats import FORMATS
from isthmus.search import Indexed, references
from stock import pixels
from tiny import write_encoder

COMMAND = get_command(app)
GOLDEN = Path(__file__).parent / "data" / "messages.txt"
TEXTS = {
    "cat.txt": "a cat sits on the red sofa",
    "dog.md": "the dog runs",
    "tree.txt": "a tree",
    "house.txt": "a house",
}
SAMPLES = [
    samples.SampleQuery("a cat on a sofa", ("cat.txt",), "text"),
    samples.SampleQuery("a red house", ("b.png",), "image+text"),
]
HIDDEN = [  # what differs from run to run, and from machine to machine
    (r"\d{4}-\d\d-\d\dT[\d:+]+", "TIME"),
    (r"checksum [0-9a-f]{12}", "checksum …"),
    (r"SHA-256 [0-9a-f]{64}", "SHA-256 …"),
    (r"[█▏▎▍▌▋▊▉]+ *", "▇▇▇ "),
    (r"[+-]?\d+\.\d+", "0.00"),
    (r"\b\d+%", "0%"),
    (r"\(\d+ in earlier runs\)", "(N in earlier runs)"),
    (r"\) in \d+ s\.", ") in N s."),
    (r"(pip download --no-deps \S+ -d )[^`]+", r"\1CACHE"),
    (r"(✓ (?:isthmus|machine|devices|sqlite|cache|core) +).*", r"\1…"),  # of the doctor: what differs is listed there
    (r" +$", ""),
]

# A heading and its commands, run one after another in one folder. CHANGE lines change the folder before the next.
SCENES = """
# index
isthmus index nowhere --into things
isthmus index files --into things --encoder onx:tiny
isthmus index files --into things --encoder onnx:tiny --calibration centre
isthmus index files --into things --encoder onnx:tiny --kind jsnl
isthmus index files --into things --encoder onnx:tiny --calibration center
isthmus index files --into things
CHANGE files
isthmus index files --into things
isthmus index files --into things --quiet --json
isthmus index one --into single --encoder onnx:tiny
isthmus index gone --into things
CHANGE watched
isthmus index notes --into watched --encoder onnx:tiny --calibration none --watch
CHANGE unwatched
isthmus index notes --into watched --watch
# search
isthmus search cat sofa --in things -k 3
isthmus search cat sofa --in things -k 2 --explain
isthmus search cat --in things --group -k 2
isthmus search cat --in things --calibration none -k 1
isthmus search --in things
isthmus search cat --in nowhere
isthmus search cat --in files
isthmus search cat --in empty
isthmus search cat --in things --where type=png --where "bytes<0"
isthmus search cat --in things --where tpye=png
isthmus search cat --in single --modality image
isthmus search cat --in things --modality txt
isthmus search cat --in things --offset 100
isthmus search cat --in things --where nonsense
isthmus search cat --in things --where "{nonsense"
isthmus search cat --in things --where '{"year": {"about": 2000}}'
isthmus search cat --in things --weights text
isthmus search cat --in things --weights image=1
isthmus search cat --in things --calibration center
isthmus search cat --in things --hybrid
isthmus search cat --in single --min-probability 0.9
isthmus search cat --in things --align captoin
isthmus search cat --in things --rerank onnx:tiny
isthmus search --image files/a.png --in things --rerank onnx:tiny
isthmus search --image files/broken.png --in things
isthmus search --image nowhere.png --in things
isthmus search cat --in things --explain-maps nowhere/maps.html
# calibrate
isthmus calibrate center --in things
isthmus calibrate --in things
isthmus calibrate centre --in things
isthmus calibrate minmax --in things
isthmus calibrate --in empty
isthmus calibrate --queries empty.txt --in things
isthmus calibrate --queries nowhere.txt --in things
isthmus calibrate --queries bad.txt --in things
isthmus calibrate --queries unknown.txt --in things
isthmus calibrate --log-queries --in things
isthmus calibrate --no-log-queries --in things
isthmus index many --into lines --encoder onnx:tiny
isthmus calibrate --queries known.txt --in lines
# reencode
isthmus reencode --in things --encoder none
isthmus reencode --in things --encoder onnx:nowhere
isthmus reencode --in things --encoder onnx:words
isthmus reencode --in things --encoder onnx:other
isthmus reencode --in things --encoder onnx:other
CHANGE picture
isthmus reencode --in things --encoder onnx:tiny
isthmus reencode --in things --encoder onnx:tiny --drop
# stats
isthmus stats --in things
isthmus stats --in empty
isthmus stats --in single --verify
isthmus stats --in nowhere
CHANGE damage
isthmus stats --in single --verify
# diagnose
isthmus diagnose --in things --report report.html
isthmus diagnose --in empty
isthmus diagnose --in things --report nowhere/report.html
# evaluate
isthmus evaluate beir:small --data data --encoder onnx:tiny --calibration none,center
isthmus evaluate flicker8k --data data
isthmus evaluate beir:nowhere --data data
isthmus evaluate beir:small --data data --encoder onnx:tiny --measure nDGC@10
# export
isthmus export --in things --to all.jsonl
isthmus export --in things --to all.npz
isthmus export --in things --to all.calibration
isthmus export --in things --to all.xyz
isthmus export --in things --to nowhere/all.jsonl
# delete
isthmus delete --in things
isthmus delete tree.txt nobody --in things
isthmus delete --where type=txt --in things
# compact
isthmus compact --in things
# backup
isthmus backup nowhere copy
isthmus backup things copy
isthmus backup things copy
isthmus backup things many/../bad.txt/copy
isthmus restore copy things
isthmus restore copy again
isthmus restore files anew
CHANGE backup
isthmus restore copy anew
# copy
isthmus copy nowhere twin
isthmus copy things twin
isthmus copy things twin
isthmus copy things things
isthmus copy things files
isthmus copy empty twin
isthmus copy things :memory:
isthmus copy things anew --vectors qdrant:here
CHANGE things
isthmus copy things twin
CHANGE unfinished
isthmus search cat --in begun
isthmus copy empty begun
isthmus copy things begun
CHANGE twin
isthmus copy things begun
# doctor
isthmus doctor --in things
CHANGE requirements
isthmus doctor --in nowhere
# serve
isthmus serve nowhere
isthmus serve things --host 0.0.0.0
isthmus serve things --keys nowhere.json
isthmus keys create --keys keys.json --name me --scope reed
isthmus keys list --keys nowhere.json
isthmus keys revoke 12345678 --keys bad.txt
# demo
isthmus demo
# train
isthmus train mini --data data --text-weights x
isthmus train forge-mini --data data --supervised-only --no-supervised
# interrupted
INTERRUPT index
isthmus index files --into things
INTERRUPT reencode
isthmus reencode --in things --encoder onnx:other
INTERRUPT copy_to
isthmus copy things later
"""


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with files, encoders, an empty collection, and files of queries; a small demo; few extras."""
    monkeypatch.chdir(tmp_path)
    for name in ("ENOUGH", "SHIPPED_QUERIES"):
        monkeypatch.setattr(references, name, 40)  # calibrations take no time
    monkeypatch.setattr(running, "app", COMMAND)  # made once, which takes as long as many verbs
    monkeypatch.setattr(samples, "folder", lambda: tmp_path / "files")
    monkeypatch.setattr(samples, "queries", lambda: SAMPLES)
    monkeypatch.delenv("ISTHMUS_CLIP", raising=False)
    monkeypatch.setattr(clip_source, "_installed", lambda: None)
    for module in (doctor, families):
        monkeypatch.setattr(module, "find_spec", lambda name: name in ("pypdfium2", "selectolax") or None)
    for folder in ("files", "one", "gone", "many", "notes", "data/small/qrels"):
        Path(folder).mkdir(parents=True)
    for name, text in TEXTS.items():
        Path("files", name).write_text(text)
    for seed, name in enumerate("abc"):
        Image.fromarray(pixels(seed)).save(f"files/{name}.png")
    Path("files/b.txt").write_text("a red house")
    Path("files/broken.png").write_bytes(b"\x89PNG\r\n\x1a\nnothing")
    Path("files/film.swf").write_bytes(b"film")
    Path("one/cat.txt").write_text("a cat")
    Path("notes/cat.txt").write_text("a cat")
    for name, text in {"empty": "\n", "bad": '{"query": \n', "unknown": '{"query": "cat", "id": "dog.txt"}\n'}.items():
        Path(f"{name}.txt").write_text(text)
    words = ("cat", "dog", "tree", "sofa", "house"), ("red", "on", "a", "sits", "runs", "dog")
    known = [" ".join(pair) for pair in product(*words)]
    for number, text in enumerate(known):
        Path(f"many/{number}.txt").write_text(text)
    Path("known.txt").write_text("".join(f'{{"query": "{text}", "id": "{n}.txt"}}\n' for n, text in enumerate(known)))
    rows = [("corpus", "d", '"title": "", "text": "the cat sits"'), ("queries", "q", '"text": "cat"')]
    for file, name, fields in rows:
        Path(f"data/small/{file}.jsonl").write_text(f'{{"_id": "{name}1", {fields}}}\n{{"_id": "{name}2", {fields}}}\n')
    Path("data/small/qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td2\t1\n")
    for encoder, parts, dim in (("tiny", "image+text", 8), ("other", "image+text", 12), ("words", "text", 8)):
        write_encoder(Path(encoder), parts, dim=dim)
    Collection.open("empty", "onnx:tiny").close()
    return tmp_path


def change(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Change the folder, or what is installed."""
    if what == "files":
        Path("files/tree.txt").unlink()
        Path("files/dog.md").write_text("the dog sits")
        Path("files/cat2.txt").write_text(TEXTS["cat.txt"])
        with Collection.open("things", follow=False) as things:
            things.add([Document("tree.txt", "a tree")])
    elif what == "picture":
        Path("files/c.png").unlink()
    elif what == "watched":
        monkeypatch.setitem(sys.modules, "watchfiles", ModuleType("watchfiles"))
        monkeypatch.setattr(Collection, "watch", watched)
    elif what == "unwatched":
        monkeypatch.setitem(sys.modules, "watchfiles", None)
    elif what == "requirements":
        monkeypatch.setattr(doctor, "requires", lambda _: ["no-such-package>=1"])
    elif what == "things":
        with Collection.open("things", follow=False) as things:
            things.add([Document("new.txt", "a new house")])
    elif what == "unfinished":
        with Collection.open("things", follow=False) as things, pytest.raises(KeyboardInterrupt):
            things.copy_to("begun", progress=lambda _: interrupted)
    elif what == "twin":
        with closing(sqlite3.connect("begun/collection.sqlite")) as connection, connection:
            connection.execute("UPDATE segments SET vector = zeroblob(32) WHERE document = 1")
    elif what == "backup":
        with Path("copy/collection.sqlite").open("ab") as copy:
            copy.write(b"0")
    else:
        file = next(Path("single/index").glob("*/0.vectors"))
        file.write_bytes(file.read_bytes()[::-1])


def watched(things: Collection, *paths: Path, **_: Any) -> Iterator[Indexed]:
    """Watch as a user does who adds a file, and another that cannot be read, and then presses Ctrl-C."""
    Path("notes/dog.txt").write_text("a dog")
    yield things.index(*paths)
    Path("notes/film.swf").write_bytes(b"film")
    yield things.index(*paths)
    raise KeyboardInterrupt


def described(command: Any, name: str) -> Iterator[str]:
    """Yield the help of a command and of those below it, as far as we write it: not as a terminal shows it."""
    yield f"\n$ {name} --help"
    yield (command.help or "").strip()
    for one in command.params:
        if one.name == "help":
            continue
        flags = ", ".join([*one.opts, *one.secondary_opts])
        named = flags if flags.startswith("-") else one.name.upper()
        yield f"  {named:<24} {getattr(one, 'help', None) or ''}".rstrip()
    below = getattr(command, "commands", {})
    for inner in below.values():
        yield f"  {inner.name:<24} {inner.get_short_help_str(200)}"
    for inner in below.values():
        yield from described(inner, f"{name} {inner.name}")


def shown(text: str, place: Path) -> str:
    """Hide what differs from run to run; of a usage error, keep the error."""
    text = re.sub(r"(?s)^Usage: .*?\n\n(?=Error: )", "", text).replace(str(place.resolve()), "TMP")
    for pattern, put in HIDDEN:
        text = re.sub(pattern, put, text, flags=re.MULTILINE)
    return text


def played(place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for line in SCENES.strip().splitlines():
        verb, *rest = shlex.split(line)
        if verb == "CHANGE":
            change(rest[0], monkeypatch)
        elif verb == "INTERRUPT":
            monkeypatch.setattr(Collection, rest[0], interrupted)
        elif verb == "#":
            yield f"\n{line}"
        else:
            yield f"\n$ {line}"
            monkeypatch.setattr(sys, "argv", ["isthmus", *rest])
            with monkeypatch.context() as patch, pytest.raises(SystemExit) as ended:
                patch.setattr(sys, "stderr", sys.stdout)  # so that lines stand in their order
                main()
            yield shown(capsys.readouterr().out, place).rstrip()
            if ended.value.code:
                yield f"[exit code {ended.value.code}]"


def interrupted(*_: Any, **__: Any) -> NoReturn:
    raise KeyboardInterrupt


@pytest.mark.skipif(sys.platform == "win32", reason="the file has the paths and messages of other systems")
def test_every_message_stands_in_the_golden_file(
    world: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in [*(key for form in FORMATS.values() for key in form.keys), "ISTHMUS_OFFLINE", "HF_HUB_OFFLINE"]:
        monkeypatch.delenv(variable, raising=False)  # of the doctor
    monkeypatch.setattr(progress, "EVERY", math.inf)  # a line of progress would depend on the speed of the machine
    lines = [*described(COMMAND, "isthmus"), *played(world, capsys, monkeypatch)]
    text = "\n".join(lines).strip() + "\n"
    if os.environ.get("ISTHMUS_WRITE_MESSAGES"):
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8"), "read what changed, then write the file again: see above"
