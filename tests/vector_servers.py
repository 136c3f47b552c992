"""Places for vectors: names, and a real Milvus from the wheel ``milvus``, which can be killed and started again.

It listens on all addresses, so it only starts where there is no other than loopback: ``make test-all`` runs these tests
in a network namespace of their own. ``ISTHMUS_TEST_MILVUS`` names a server that is running.
"""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import cache
from http.client import HTTPException
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import TypeAlias
from urllib.request import urlopen

RUNNING = "ISTHMUS_TEST_MILVUS"
NAMES = (f"t{number}" for number in count())
PATIENCE = (240, 480, 720)  # seconds that each start may take: its parts start in any order, and some orders never end
POLL = 0.2  # seconds
TAIL = 4000  # characters of its log that an error shows
Places: TypeAlias = Callable[[], str]  # gives an address that nothing uses yet


def is_alone() -> bool:
    """Whether loopback is the only network here."""
    return [name for _, name in socket.if_nameindex()] == ["lo"]


def milvus_may_run() -> bool:
    """Whether one is running, or may be started here."""
    return RUNNING in os.environ or is_alone()


@cache
def programs() -> Path:
    """Unpack the programs of the wheel, once for all servers of this process; return their folder."""
    from milvus import _initialize_data_files

    folder = tempfile.mkdtemp(prefix="isthmus-milvus-programs-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    _initialize_data_files(folder)
    return Path(folder, "bin")


class Milvus:
    """One server, with its data in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process: subprocess.Popen[bytes] | None = None
        self.port = self.health_port = 0

    def start(self) -> None:
        """Start it, and again from an empty folder when it ends or does not get ready."""
        for seconds in PATIENCE:
            self._configure()
            self._run()
            if self._is_ready_within(seconds):
                return
            said = self._log()
            self.kill()
            shutil.rmtree(self.folder)
        raise TimeoutError(f"Milvus did not start, {len(PATIENCE)} times. The end of its log:\n{said}")

    def kill(self) -> None:
        """End it with SIGKILL: it can write nothing more."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def start_again(self) -> None:
        """Start it with the same settings, ports and data."""
        self._run()
        if not self._is_ready_within(max(PATIENCE)):
            raise TimeoutError(f"Milvus did not start again. The end of its log:\n{self._log()}")

    def _configure(self) -> None:
        """Choose free ports and write the settings, with the launcher of the wheel."""
        from milvus import MilvusServerConfig

        config = MilvusServerConfig(data_dir=str(self.folder))
        config.set("proxy.timeTickInterval", 20)  # milliseconds; a consistent read waits for the next
        config.resolve()
        self.port = int(config.get("proxy_port"))
        self.health_port, taken = config.resolve_port(9091)
        taken.close()

    def _run(self) -> None:
        values = {"DEPLOY_MODE": "STANDALONE", "METRICS_PORT": str(self.health_port)}
        values |= {"MILVUS_RUN_DIR": str(self.folder / "run"), "LD_LIBRARY_PATH": str(programs())}
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                [programs() / "milvus", "run", "standalone"],
                cwd=self.folder,
                env={**os.environ, **values},
                stdout=log,
                stderr=log,
            )

    def _is_ready_within(self, seconds: float) -> bool:
        """Wait until it answers; False if it ends first, or takes longer."""
        assert self.process is not None
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self._is_healthy():
                return True
            try:
                self.process.wait(POLL)
            except subprocess.TimeoutExpired:
                continue
            return False
        return False

    def _is_healthy(self) -> bool:
        try:
            with urlopen(f"http://127.0.0.1:{self.health_port}/healthz", timeout=10) as answer:
                return b"OK" in answer.read()
        except (OSError, HTTPException):
            return False

    def _log(self) -> str:
        return (self.folder / "server.log").read_text(errors="replace")[-TAIL:]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def address(self, name: str, timeout: int = 60) -> str:
        """Return the address of a place for vectors; ``timeout``: seconds that each call of it may take."""
        return f"{self.url.replace('http', 'milvus')}/{name}?exact=true&timeout={timeout}"


@cache
def milvus() -> Milvus:
    """Return the server of this process, started when it is first needed and ended with the process."""
    server = Milvus(Path(tempfile.mkdtemp(prefix="isthmus-milvus-")))
    atexit.register(shutil.rmtree, server.folder, ignore_errors=True)
    atexit.register(server.kill)  # before its folder goes
    server.start()
    return server


@cache
def milvus_address() -> str | None:
    """Return the address of a Milvus, started when it is first needed; None where none may run."""
    if url := os.environ.get(RUNNING):
        return url
    return milvus().url if milvus_may_run() and find_spec("milvus") is not None else None
