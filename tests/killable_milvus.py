"""A real Milvus on loopback, from the wheel ``milvus``, which can be killed and started again.

It listens on all addresses, so it only starts where there is no other than loopback: ``make test-all`` runs these tests
in a network namespace of their own.
"""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any


def is_alone() -> bool:
    """Whether loopback is the only network here."""
    return [name for _, name in socket.if_nameindex()] == ["lo"]


class Milvus:
    """One server, with its data in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.server: Any = None

    def start(self) -> None:
        from milvus import MilvusServer, MilvusServerConfig

        config = MilvusServerConfig()
        config.set("proxy.timeTickInterval", 20)  # milliseconds; a consistent read waits for the next
        self.server = MilvusServer(config, data_dir=str(self.folder))
        self.server.start()

    def kill(self) -> None:
        """End it with SIGKILL: it can write nothing more."""
        self.server.server_proc.kill()
        self.server.server_proc.wait()
        self.server.server_proc = None

    def stop(self) -> None:
        self.server.stop()

    def address(self, name: str) -> str:
        return f"milvus://127.0.0.1:{self.server.listen_port}/{name}?exact=true&timeout=30"
