"""What deploy/ and the Containerfile name exists: files, options of the command, settings of systemd."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.main import get_command

import needed
from isthmus.cli import app
from serving import address_of, fill

HERE = Path(__file__).parent.parent
UNIT = HERE / "deploy/isthmus.service"
CONTAINER = HERE / "Containerfile"
OFFLINE_SINCE = 250  # systemd-analyze reads a unit that is not installed


def logical(path: Path) -> list[str]:
    """Return the lines of a file, with those that go on joined, and without comments."""
    text = re.sub(r"\\\n\s*", "", path.read_text(encoding="utf-8"))
    return [line for line in text.splitlines() if line.strip() and not line.startswith("#")]


def instructions(name: str) -> list[str]:
    return [line.partition(" ")[2].strip() for line in logical(CONTAINER) if line.startswith(f"{name} ")]


def check_command(words: list[str]) -> None:
    """Read a command line as the command does, without running it."""
    root = get_command(app)
    at = next(at for at, word in enumerate(words) if not word.startswith("-"))
    root.make_context("isthmus", words[:at], resilient_parsing=True)
    root.commands[words[at]].make_context(words[at], words[at + 1 :])  # type: ignore[attr-defined]  # it is a group


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit, with a program that is installed here."""
    text = UNIT.read_text(encoding="utf-8")
    assert text.count("/opt/isthmus/bin/isthmus --offline") == 1
    (tmp_path / UNIT.name).write_text(
        text.replace("ExecStart=/opt/isthmus/bin/isthmus", f"ExecStart={shutil.which('true')}")
    )
    return tmp_path / UNIT.name


def analysed(*words: str | Path) -> subprocess.CompletedProcess[str]:
    program = needed.program("systemd-analyze")
    said = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
    found = re.match(r"systemd (\d+)", said)
    if found is None or int(found[1]) < OFFLINE_SINCE:
        pytest.skip(f"systemd-analyze is too old: {said.partition(chr(10))[0]}")
    return subprocess.run([program, *words], capture_output=True, text=True)


def test_systemd_finds_nothing_wrong_with_the_unit(unit: Path) -> None:
    checked = analysed("verify", "--man=no", "--recursive-errors=no", unit)
    assert (checked.returncode, [line for line in checked.stderr.splitlines() if UNIT.name in line]) == (0, [])
    unit.write_text(unit.read_text().replace("Type=exec", "Type=exce"))
    assert "service type" in analysed("verify", "--man=no", "--recursive-errors=no", unit).stderr  # it looks


def test_the_unit_has_few_rights(unit: Path) -> None:
    checked = analysed("security", "--offline=true", "--no-pager", "--threshold=20", unit)  # tenths
    assert checked.returncode == 0, checked.stdout[-500:]
    unit.write_text(unit.read_text().replace("ProtectSystem=strict", "").replace("CapabilityBoundingSet=\n", ""))
    assert analysed("security", "--offline=true", "--no-pager", "--threshold=20", unit).returncode != 0


def test_the_options_of_the_unit_and_of_the_container_are_those_of_the_command() -> None:
    (start,) = (line.partition("=")[2] for line in logical(UNIT) if line.startswith("ExecStart="))
    check_command(shlex.split(start)[1:])
    assert json.loads(instructions("ENTRYPOINT")[0]) == ["isthmus"]
    command = json.loads(instructions("CMD")[-1])
    check_command(command)
    assert instructions("EXPOSE") == [command[command.index("--port") + 1]]
    with pytest.raises(Exception, match="No such option"):
        check_command(["serve", "--no-such-option"])


def test_the_container_copies_files_that_exist_and_all_that_its_package_is_made_of() -> None:
    copied = [words.split() for words in instructions("COPY") if not words.startswith("--from")]
    sources = {name for *names, _ in copied for name in names}
    assert [name for name in sources if not (HERE / name).exists()] == []
    project = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {"pyproject.toml", "src", project["readme"]} <= sources
    stages = instructions("COPY")[-1]
    assert stages == "--from=build /opt/isthmus /opt/isthmus"
    (extras,) = re.findall(r"'\.\[(\w+)\]'", instructions("RUN")[0])
    assert extras in project["optional-dependencies"]


def test_the_container_knows_whether_its_server_is_healthy(tmp_path: Path, tiny: str) -> None:
    words = json.loads(instructions("HEALTHCHECK")[0].partition("CMD ")[2])
    assert words[:2] == ["python", "-c"]

    def checked(address: str) -> int:
        code = words[2].replace("http://127.0.0.1:8080", address)
        assert code != words[2]
        return subprocess.run([sys.executable, "-c", code], capture_output=True).returncode

    fill(tmp_path, tiny, count=3)
    with address_of(tmp_path) as address:
        assert checked(address) == 0
    assert checked(address) != 0


@pytest.mark.install
def test_the_package_of_the_container_is_built_from_what_is_copied(tmp_path: Path) -> None:
    for words in instructions("COPY"):
        *names, _ = words.split()
        for name in [] if words.startswith("--from") else names:
            copy = shutil.copytree if (HERE / name).is_dir() else shutil.copy
            copy(HERE / name, tmp_path / name)
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        str(tmp_path / "out"),
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [path.suffix for path in (tmp_path / "out").iterdir()] == [".whl"]


def test_the_workers_of_citus_search_graphs_as_shards_do() -> None:
    pytest.importorskip("psycopg")
    from isthmus.storage.postgres.shard_servers import SETTINGS

    given = dict(
        re.findall(r"ALTER DATABASE postgres SET (hnsw\.\w+) = (\w+)'", (HERE / "deploy/citus.yaml").read_text())
    )
    assert given == dict(re.findall(r"-c (hnsw\.\w+)=(\w+)", SETTINGS))
    assert given["hnsw.ef_search"] == "400"
