"""A real Milvus for tests, from the wheel ``milvus``, with its data in a temporary folder.

It listens on all addresses, so it only starts where there is no other than loopback, as in ``unshare --net``; elsewhere
tests use Milvus Lite. ``ISTHMUS_TEST_MILVUS`` names a server that is running.
"""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import tempfile
from functools import cache
from importlib.util import find_spec

VARIABLE = "ISTHMUS_TEST_MILVUS"


def is_alone() -> bool:
    """Whether loopback is the only network here."""
    return [name for _, name in socket.if_nameindex()] == ["lo"]


@cache
def address() -> str | None:
    """Return the address of a server, started when it is first needed; None where none may run."""
    if url := os.environ.get(VARIABLE):
        return url
    if not is_alone() or find_spec("milvus") is None:
        return None
    from milvus import MilvusServer, MilvusServerConfig

    folder = tempfile.mkdtemp(prefix="isthmus-milvus-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    server = MilvusServer(MilvusServerConfig(), data_dir=folder)
    server.start()
    atexit.register(server.stop)
    return f"http://127.0.0.1:{server.listen_port}"
