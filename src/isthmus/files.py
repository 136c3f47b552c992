"""Open files safely: only regular files, and only up to a size limit.

A path from a document, a row, an option or a description may name a device, a pipe, a socket or a folder. Opening one
of those can block forever, and reading one may never end. Every such path is opened here: without blocking, checked
after it is open (so the file that was checked is the file that is read), and read up to a limit.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from io import BufferedReader, FileIO
from os import PathLike

from isthmus.budget import mebibytes

KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
CHUNK = 1 << 20
# O_NONBLOCK: opening a pipe returns at once. The flags that a platform lacks are 0.
FLAGS = os.O_RDONLY
for _flag in ("O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_BINARY", "O_NOINHERIT"):
    FLAGS |= getattr(os, _flag, 0)


def open_regular(path: str | PathLike[str]) -> BufferedReader:
    """Open a regular file for reading; anything else raises ``OSError`` without waiting."""
    try:
        descriptor = os.open(path, FLAGS)
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.EOPNOTSUPP):  # a socket, or a device without a driver
            raise _not_regular("a socket or a device", path) from None
        raise
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
        if not stat.S_ISREG(mode):
            raise _not_regular(KINDS.get(stat.S_IFMT(mode), "something else"), path)
        return BufferedReader(FileIO(descriptor, "rb"))
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(path: str | PathLike[str], limit: int) -> bytes:
    """Return the bytes of a regular file; more than ``limit`` raise ``OSError`` with ``EFBIG``, and are not read."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        data = file.read(limit + 1) if size <= limit else None
        if data is None or len(data) > limit:  # a file under /proc has no size until it is read
            raise OSError(errno.EFBIG, f"it is larger than {mebibytes(limit)}, the most that is read", os.fspath(path))
        return data


def digest_regular(path: str | PathLike[str], limit: int | None = None) -> bytes:
    """Return the SHA-256 of a regular file, in pieces; more than ``limit`` bytes raise ``OSError`` with ``EFBIG``."""
    found, count = hashlib.sha256(), 0
    with open_regular(path) as file:
        while piece := file.read(CHUNK):
            count += len(piece)
            if limit is not None and (count > limit or os.fstat(file.fileno()).st_size > limit):
                said = f"it is larger than {mebibytes(limit)}, the most that is read"
                raise OSError(errno.EFBIG, said, os.fspath(path))
            found.update(piece)
    return found.digest()


def _not_regular(what: str, path: str | PathLike[str]) -> OSError:
    return OSError(errno.EINVAL, f"it is {what}, not a regular file", os.fspath(path))
