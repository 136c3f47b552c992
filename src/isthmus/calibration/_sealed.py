"""Tensors and a JSON header as one safetensors blob with a checksum. Never pickle.

The header holds the SHA-256 of the whole blob, computed with zeros in its place. It is checked before anything else is
read, so any truncation or changed byte raises a clear error and never loads a slightly wrong calibration.

>>> data = sealed("calibration", {"dim": 2}, {"mean": np.zeros(2)})
>>> unsealed("calibration", data, "it")
({'dim': 2}, {'mean': array([0., 0.])})
>>> unsealed("calibration", data[:-1], "it")
Traceback (most recent call last):
isthmus.errors.BadFile: it is damaged or contains no isthmus calibration. Make it again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isthmus.errors import BadFile

VERSION = 1
BLANK = "0" * 64
SEAL = re.compile(rb'"seal":"([0-9a-f]{64})"')  # no text inside the header can look like it: its quotes are escaped


def sealed(kind: str, header: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> bytes:
    """Write a header and tensors as a blob of this kind."""
    from safetensors.numpy import save

    data = save(
        {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()},
        metadata={f"isthmus-{kind}": json.dumps({"version": VERSION, "header": header}), "seal": BLANK},
    )
    digest = sha256(data).hexdigest()
    return data.replace(f'"seal":"{BLANK}"'.encode(), f'"seal":"{digest}"'.encode(), 1)


def unsealed(kind: str, data: bytes, name: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read the header and tensors of a blob of this kind; error messages call the blob ``name``."""
    from safetensors.numpy import load

    length = int.from_bytes(data[:8], "little")
    head = data[8 : 8 + length]
    metadata = json.loads(head)["__metadata__"] if _is_whole(data, head) else {}
    if f"isthmus-{kind}" not in metadata:
        raise BadFile(f"{name} is damaged or contains no isthmus {kind}. Make it again.")
    written = json.loads(metadata[f"isthmus-{kind}"])
    if written["version"] != VERSION:
        raise BadFile(
            f"{name} was written in version {written['version']} of the format and this isthmus reads {VERSION}. "
            "Use the isthmus that wrote it, or make it again."
        )
    return written["header"], dict(sorted(load(data).items()))  # safetensors gives them in any order


def _is_whole(data: bytes, head: bytes) -> bool:
    seal = SEAL.search(head)
    if seal is None:
        return False
    start, end = (8 + place for place in seal.span(1))
    digest = sha256(data[:start])
    digest.update(BLANK.encode())
    digest.update(memoryview(data)[end:])
    return digest.hexdigest().encode() == seal[1]
