"""`isthmus reencode`: what it says, how it goes on, its exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from isthmus import Collection
from isthmus.cli import app
from isthmus.errors import CannotEncode, UnknownName
from isthmus.storage.sqlite.staging import SqliteStaging
from moving import SPEC
from tiny import write_encoder

pytestmark = pytest.mark.usefixtures("small_batches")

run = CliRunner().invoke


def verb(*arguments: str) -> tuple[int, str, str]:
    done = run(app, ["reencode", *arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout, done.stderr


def test_the_verb_says_what_it_did_and_that_there_is_nothing_to_do(
    thirty: Path, tiny: str, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = verb("--in", str(thirty), "--encoder", other)
    assert (code, out.splitlines()[0]) == (0, f"30 documents re-encoded with {other}.")
    assert f"Calibration: {SPEC}" in out
    assert err.splitlines() == ["re-encoding …", "calibrating …"]
    assert verb("--in", str(thirty), "--encoder", other)[:2] == (
        0,
        f"No changes. {thirty} already has the vectors of {other}.\n",
    )
    monkeypatch.setenv("ISTHMUS_COLLECTION", str(thirty))
    monkeypatch.setenv("ISTHMUS_ENCODER", tiny)
    code, out, err = verb("--json")
    told = {"encoder": tiny, "encoded": 30, "earlier": 0, "skipped": [], "already": False, "kept": []}
    found = json.loads(out)
    assert found.pop("score")["questions"] >= 16
    assert found == {**told, "documents": 30, "calibration": SPEC}
    assert (code, err) == (0, "")


def test_the_verb_can_be_interrupted_and_others_say_how_far_it_came(
    thirty: Path, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = SqliteStaging.keep
    kept: list[int] = []

    def interrupt(self: SqliteStaging, made: Any) -> None:
        if len(kept) == 3:
            raise KeyboardInterrupt
        kept.append(len(made))
        keep(self, made)

    with monkeypatch.context() as patch:
        patch.setattr(SqliteStaging, "keep", interrupt)
        code, out, err = verb("--in", str(thirty), "--encoder", other)
    said = f"15 of 30 documents re-encoded with {other}"
    assert (code, out, err.splitlines()[-1]) == (
        130,
        "",
        f"Interrupted. {said} so far. Run the same command to continue.",
    )
    on = f"{said}; run `isthmus reencode --in {thirty} --encoder {other}` to continue"
    assert f"re-encoding  {on}" in run(app, ["stats", "--in", str(thirty)]).stdout
    told = json.loads(run(app, ["stats", "--in", str(thirty), "--json"]).stdout)
    assert told["reencoding"] == {"encoder": other, "done": 15, "documents": 30}
    examined = run(app, ["doctor", "--in", str(thirty)])
    assert (examined.exit_code, on in examined.stdout) == (0, True)
    assert "(15 in earlier runs)" in verb("--in", str(thirty), "--encoder", other)[1]


def test_the_verbs_exit_codes_tell_what_was_wrong_and_what_was_deleted(
    tmp_path: Path, photos: Path, tiny: str, other: str
) -> None:
    place = str(tmp_path / "c")
    with Collection.open(place, tiny, calibration="none", follow=False) as things:
        things.index(photos)
    (photos / "b.png").unlink()
    with pytest.raises(CannotEncode, match="--drop"):  # one line and exit code 1
        verb("--in", place, "--encoder", other)
    with pytest.raises(UnknownName):  # exit code 2
        verb("--in", place, "--encoder", "onx:there")
    assert verb("--in", place)[0] == 2
    code, out, err = verb("--in", place, "--encoder", other, "--drop")
    assert (code, out.splitlines()[0]) == (3, f"3 documents re-encoded with {other} (3 in earlier runs).")
    assert "1 deleted:\n  b.png: " in err


def test_many_documents_that_cannot_be_encoded_are_counted_by_reason(thirty: Path, tmp_path: Path) -> None:
    done = run(app, ["reencode", "--in", str(thirty), "--encoder", f"onnx:{write_encoder(tmp_path / 'words', 'text')}"])
    assert isinstance(done.exception, CannotEncode)
    assert "20 skipped:" in done.stderr
