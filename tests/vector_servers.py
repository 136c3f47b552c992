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
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

RUNNING = "ISTHMUS_TEST_MILVUS"
NAMES = (f"t{number}" for number in count())
Places: TypeAlias = Callable[[], str]  # gives an address that nothing uses yet


def is_alone() -> bool:
    """Whether loopback is the only network here."""
    return [name for _, name in socket.if_nameindex()] == ["lo"]


def milvus_may_run() -> bool:
    """Whether one is running, or may be started here."""
    return RUNNING in os.environ or is_alone()


class Milvus:
    """One server, with its data in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.server: Any = None

    def start(self) -> None:
        """Start it; its own launcher chooses free ports and writes the settings."""
        from milvus import MilvusServer, MilvusServerConfig

        for folder in (self.folder, self.folder / "again"):
            config = MilvusServerConfig()
            config.set("proxy.timeTickInterval", 20)  # milliseconds; a consistent read waits for the next
            folder.mkdir(exist_ok=True)
            self.server = MilvusServer(config, data_dir=str(folder))
            try:
                self.server.start()
            except (TimeoutError, RuntimeError):  # its parts start in any order, and some orders never end
                self.server.stop()
                continue
            self.folder = folder
            return
        raise TimeoutError("Milvus did not start, twice")

    def kill(self) -> None:
        """End it with SIGKILL: it can write nothing more."""
        self.server.server_proc.kill()
        self.server.server_proc.wait()

    def start_again(self) -> None:
        """Start it with the same settings and ports, which its launcher would think are still in use."""
        program = self.folder / "bin" / "milvus"
        values = {"DEPLOY_MODE": "STANDALONE", "METRICS_PORT": str(self.server.webservice_port)}
        values |= {"MILVUS_RUN_DIR": str(self.folder / "run"), "LD_LIBRARY_PATH": str(program.parent)}
        log = (self.folder / "again.log").open("wb")
        self.server.server_proc = subprocess.Popen(
            [program, "run", "standalone"], cwd=self.folder, env={**os.environ, **values}, stdout=log, stderr=log
        )
        self.server.wait_started()

    def stop(self) -> None:
        self.server.stop()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.listen_port}"

    def address(self, name: str) -> str:
        return f"{self.url.replace('http', 'milvus')}/{name}?exact=true&timeout=15"


@cache
def milvus_address() -> str | None:
    """Return the address of a Milvus, started when it is first needed; None where none may run."""
    if url := os.environ.get(RUNNING):
        return url
    if not milvus_may_run() or find_spec("milvus") is None:
        return None
    folder = tempfile.mkdtemp(prefix="isthmus-milvus-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    milvus = Milvus(Path(folder))
    milvus.start()
    atexit.register(milvus.stop)
    return milvus.url
