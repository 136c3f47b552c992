"""The projection from CLIP's embedding of a picture to isthmus's space: a few arrays in an ``.npz`` file.

    vector = unit(W c + b + W₂ gelu(W₁ c + b₁))

    weight          W   (dim, embedding)
    bias            b   (dim,)
    hidden_weight   W₁  (hidden, embedding)      these three together, or none of them:
    hidden_bias     b₁  (hidden,)                the second term is optional
    out_weight      W₂  (dim, hidden)

A trained projection becomes the encoder ``base`` by ``ClipProjection.write(EMBEDDED["base"], arrays)``, which also
writes ``encoder.toml``, and ``isthmus.encoders.references.ship("base")``, which encodes the bank.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from isthmus.atomic import replacing
from isthmus.encoders.folder import DESCRIPTION
from isthmus.errors import BadFile

Floats: TypeAlias = NDArray[np.float32]
FILE = "projection.npz"
TABLE = """# The checksum is verified when the encoder is loaded.
name = "{name}"
dim = {dim}

[text]
encoder = "{text}"

[clip]
projection = "{file}"
size = {size}
fit = "squash"
resample = "bicubic"

[files]
"{file}" = "{sha256}"
"""
LINEAR = ("weight", "bias")
HIDDEN = ("hidden_weight", "hidden_bias", "out_weight")


@dataclass(frozen=True, slots=True, eq=False)
class Hidden:
    """The hidden layer."""

    weight: Floats  # (hidden, embedding)
    bias: Floats  # (hidden,)
    out: Floats  # (dim, hidden)


@dataclass(frozen=True, slots=True, eq=False)
class ClipProjection:
    """A linear map, and perhaps a hidden layer that is added to it."""

    weight: Floats  # (dim, embedding)
    bias: Floats  # (dim,)
    hidden: Hidden | None = None

    @property
    def dim(self) -> int:
        """The numbers of a vector."""
        return len(self.bias)

    @property
    def embedding(self) -> int:
        """The numbers of CLIP's embedding."""
        return int(self.weight.shape[1])

    @classmethod
    def from_bytes(cls, content: bytes, name: Path) -> ClipProjection:
        """Read an ``.npz`` file; ``name`` is used in error messages."""
        try:
            with np.load(BytesIO(content), allow_pickle=False) as file:
                arrays = {key: array.astype(np.float32) for key, array in file.items()}
        except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
            raise BadFile(f"{name} cannot be read: {error}. Install isthmus again.") from None
        if set(arrays) not in ({*LINEAR}, {*LINEAR, *HIDDEN}):
            raise BadFile(
                f"{name} holds {', '.join(sorted(arrays))}; it must hold {' and '.join(LINEAR)}, and either all of "
                f"{', '.join(HIDDEN)} or none of them."
            )
        made = cls(
            arrays["weight"], arrays["bias"], Hidden(*(arrays[key] for key in HIDDEN)) if len(arrays) > 2 else None
        )
        made._check(name, arrays)
        return made

    @classmethod
    def write(
        cls,
        folder: Path,
        arrays: Mapping[str, NDArray[Any]],
        *,
        name: str = "base",
        size: int = 224,
        text: str = "mini",
    ) -> ClipProjection:
        """Write an encoder's folder: this projection of CLIP's tower, with the text tower of ``text``; in 16 bits."""
        content = BytesIO()
        np.savez_compressed(content, **{key: np.asarray(array, np.float16) for key, array in arrays.items()})  # type: ignore[arg-type]
        made = cls.from_bytes(content.getvalue(), folder / FILE)
        folder.mkdir(parents=True, exist_ok=True)
        sha256 = hashlib.sha256(content.getvalue()).hexdigest()
        table = TABLE.format(name=name, text=text, dim=made.dim, size=size, file=FILE, sha256=sha256)
        for path, written in ((folder / FILE, content.getvalue()), (folder / DESCRIPTION, table.encode())):
            with replacing(path) as draft:
                draft.write_bytes(written)
        return made

    def _check(self, name: Path, arrays: Mapping[str, Floats]) -> None:
        dim, embedding = len(np.atleast_1d(self.bias)), np.atleast_2d(self.weight).shape[1]
        hidden = len(np.atleast_1d(arrays["hidden_bias"])) if self.hidden else 0
        shapes = [(dim, embedding), (dim,), (hidden, embedding), (hidden,), (dim, hidden)]
        for key, shape in zip((*LINEAR, *HIDDEN), shapes, strict=True):
            if key in arrays and (arrays[key].shape != shape or not np.isfinite(arrays[key]).all()):
                raise BadFile(
                    f"{name}: {key} has the shape {arrays[key].shape}, where {shape} of finite numbers is expected."
                )
