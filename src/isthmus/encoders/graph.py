"""Write an ONNX model node by node.

graph = Graph()
doubled = graph.node("Mul", ["pixels", graph.constant(np.float32(2))])
model = graph.model(Tensor("pixels", np.uint8, ("n", 224, 224, 3)), Tensor("vectors", np.float32, ("n", 384)))
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from isthmus.encoders.wire import write_field, write_fixed, write_head, write_number

OPSET = 17  # the first with LayerNormalization
IR_VERSION = 8
TYPES: Mapping[str, int] = {"float32": 1, "uint8": 2, "int8": 3, "int64": 7}  # ONNX's numbers of types
FLOAT, INT, INTS = 1, 2, 7  # ONNX's numbers of attributes' types
Attribute: TypeAlias = int | float | Sequence[int]


class Tensor(NamedTuple):
    """The name, type and shape of an input or output; a name in the shape is an axis of any length."""

    name: str
    dtype: DTypeLike
    shape: tuple[int | str, ...]


@dataclass(slots=True, eq=False)
class Graph:
    """A graph that grows; every node has one output."""

    parts: list[bytes] = field(default_factory=list)  # its fields in pieces: large arrays are copied once, at the end
    count: int = 0

    def constant(self, array: NDArray[Any] | np.generic) -> str:
        """Add an array, and return its name."""
        name, values = self._name("constant"), np.asarray(array)
        dims = b"".join(write_number(1, size) for size in values.shape)
        head = dims + write_number(2, TYPES[values.dtype.name]) + write_field(8, name.encode())
        head += write_head(9, values.nbytes)
        self.parts += [write_head(5, len(head) + values.nbytes) + head, values.tobytes()]
        return name

    def node(
        self, op: str, inputs: Sequence[str], attributes: Mapping[str, Attribute] | None = None, output: str = ""
    ) -> str:
        """Add a node, and return the name of its output."""
        name = output or self._name(op)
        held = b"".join(write_field(1, each.encode()) for each in inputs)
        held += write_field(2, name.encode()) + write_field(3, name.encode()) + write_field(4, op.encode())
        held += b"".join(write_field(5, _attribute(key, value)) for key, value in (attributes or {}).items())
        self.parts.append(write_field(1, held))
        return name

    def model(self, given: Tensor, made: Tensor) -> bytes:
        """Return the model, with one input and one output."""
        named = [write_field(2, b"graph"), write_field(11, _value(given)), write_field(12, _value(made))]
        length = sum(map(len, [*self.parts, *named]))
        opset = write_field(8, write_field(1, b"") + write_number(2, OPSET))
        return b"".join([write_number(1, IR_VERSION), opset, write_head(7, length), *self.parts, *named])

    def _name(self, kind: str) -> str:
        self.count += 1
        return f"{kind}_{self.count}"


def _attribute(name: str, value: Attribute) -> bytes:
    head = write_field(1, name.encode())
    if isinstance(value, float):
        return head + write_fixed(2, struct.pack("<f", value)) + write_number(20, FLOAT)
    if isinstance(value, int):
        return head + write_number(3, value) + write_number(20, INT)
    return head + b"".join(write_number(8, each) for each in value) + write_number(20, INTS)


def _value(tensor: Tensor) -> bytes:
    dims = [write_number(1, size) if isinstance(size, int) else write_field(2, size.encode()) for size in tensor.shape]
    shape = b"".join(write_field(1, each) for each in dims)
    held = write_number(1, TYPES[np.dtype(tensor.dtype).name]) + write_field(2, shape)
    return write_field(1, tensor.name.encode()) + write_field(2, write_field(1, held))
