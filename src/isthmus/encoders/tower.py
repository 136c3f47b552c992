"""Cut an exported tower at a tensor: a model that returns one vector per token, or per cell of an image.

An ONNX file is a protobuf message: fields, one after another, each with a number and a length. The graph is field 7 of
the model; its nodes are field 1, in the order in which they run, and its outputs are field 12. The cut removes
the nodes after a tensor and makes that tensor the output; unused weights are not loaded. With several tensors, the last
one decides where the cut is. ``tail`` is the other half: the nodes after a tensor, with the tensor as input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from isthmus.errors import BadFile

Buffer = TypeVar("Buffer", bytes, memoryview)

LONGEST = 63  # bits of a number
GRAPH, NODE, WEIGHT, INPUT, OUTPUT = 7, 1, 5, 11, 12
NAME, NAME_OF_WEIGHT = 1, 8
INPUTS_OF_NODE, OUTPUTS_OF_NODE = 1, 2
FLOATS = b"\x0a\x02\x08\x01"  # a type: a tensor (1) whose elements (1) are float32 (1), of any shape
TYPE = 2
VARINT, BYTES = 0, 2  # the wire types of numbers and of everything that has a length
FIXED = {1: 8, 5: 4}  # the sizes of the fixed-length types, in bytes
ORT_FORMAT = b"ORTM"
EXTERNAL_DATA, KEY, VALUE = 13, 1, 2  # of a tensor: pairs of a key and a value, one of them the file's name
LOCATION = b"location"  # the key of the file's name
CONTAINS: Mapping[str, Mapping[int, str]] = {  # which messages hold which, on the way to tensors
    "model": {GRAPH: "graph", 20: "training", 25: "function"},
    "graph": {NODE: "node", WEIGHT: "tensor", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "function": {7: "node", 11: "attribute"},
    "training": {1: "graph", 2: "graph"},
    "sparse": {1: "tensor", 2: "tensor"},
}
CUT_SHORT = "This model's file ends in the middle of a field. It is truncated: download it again."


def cut(model: bytes, *tensors: str) -> bytes:
    """Return the model that ends at these tensors and outputs them, in this order.

    >>> cut(b"", "features")
    Traceback (most recent call last):
    isthmus.errors.BadFile: This model has no tensor called 'features'.
    """
    return _with_graph(model, tensors[0], lambda graph: _head(graph, tensors))


def tail(model: bytes, tensor: str) -> bytes:
    """Return the model that begins at this tensor, float32, and has the outputs of the whole.

    It visits the nodes from last to first and keeps those that an output depends on, up to the tensor. It does not
    visit graphs inside a node (a loop, a condition).

    >>> tail(b"", "features")
    Traceback (most recent call last):
    isthmus.errors.BadFile: This model has no tensor called 'features'.
    """
    return _with_graph(model, tensor, lambda graph: _tail(graph, tensor.encode()))


def external_files(model: bytes) -> list[str]:
    """Return the names of external files that hold some of a model's weights.

    It looks in the graph, in the attributes of nodes, in graphs inside those, and in functions.

    >>> external_files(b"")
    []
    """
    if model[4:8] == ORT_FORMAT:  # onnxruntime's own format, without external weights
        return []
    if LOCATION not in model:  # most models: a search of the bytes is many times faster than reading every field
        return []
    try:
        found = list(_locations(memoryview(model), "model"))
    except RecursionError:
        raise BadFile("This model nests graphs too deeply. It is malformed.") from None
    return list(dict.fromkeys(found))


def _locations(message: memoryview, kind: str) -> Iterator[str]:
    for field, held, _ in _fields(message):
        if kind == "tensor" and field == EXTERNAL_DATA:
            entry = [(each, bytes(value)) for each, value, _ in _fields(held)]
            if (KEY, LOCATION) in entry:
                yield from (value.decode("utf-8", "replace") for each, value in entry if each == VALUE)
        elif field in CONTAINS.get(kind, {}):
            yield from _locations(held, CONTAINS[kind][field])


def _with_graph(model: bytes, tensor: str, change: Callable[[bytes], bytes]) -> bytes:
    fields = list(_fields(model))
    if not any(field == GRAPH for field, _, _ in fields):
        raise _no_tensor(tensor)
    return b"".join(_written(GRAPH, change(held)) if field == GRAPH else whole for field, held, whole in fields)


def _head(graph: bytes, tensors: tuple[str, ...]) -> bytes:
    missing = {name.encode() for name in tensors}
    out = []
    for field, held, whole in _fields(graph):
        if field == NODE:
            if missing:
                out.append(whole)
                missing -= set(_held(held, OUTPUTS_OF_NODE))
        elif field != OUTPUT:
            out.append(whole)
    if missing:
        raise _no_tensor(min(missing).decode())
    out += [_written(OUTPUT, _written(NAME, name.encode())) for name in tensors]
    return b"".join(out)


def _tail(graph: bytes, tensor: bytes) -> bytes:
    fields = list(_fields(graph))
    weights = {name for weight in _held(graph, WEIGHT) for name in _held(weight, NAME_OF_WEIGHT)}
    wanted = {name for output in _held(graph, OUTPUT) for name in _held(output, NAME)}
    kept: list[bytes] = []
    known = False
    for field, held, whole in reversed(fields):
        gives = set(_held(held, OUTPUTS_OF_NODE)) if field == NODE else set()
        known |= tensor in gives
        if field not in (NODE, INPUT) or (wanted & gives and tensor not in gives):
            kept.append(whole)
            wanted |= set(_held(held, INPUTS_OF_NODE)) if field == NODE else set()
    if not known:
        raise _no_tensor(tensor.decode())
    entries = {name for entry in _held(graph, INPUT) for name in _held(entry, NAME)} - weights
    if entries & wanted:
        other = min(entries & wanted).decode()
        raise BadFile(f"The output of this model depends on {other!r} too, not only {tensor.decode()!r}. Cut later.")
    entry = _written(INPUT, _written(NAME, tensor) + _written(TYPE, FLOATS))
    return b"".join([*reversed(kept), entry])


def _no_tensor(name: str) -> BadFile:
    return BadFile(f"This model has no tensor called {name!r}.")


def _held(message: bytes, wanted: int) -> list[bytes]:
    return [held for field, held, _ in _fields(message) if field == wanted]


def _fields(message: Buffer) -> Iterator[tuple[int, Buffer, Buffer]]:
    """Yield each field: its number, what it holds, and all of its bytes."""
    at = 0
    while at < len(message):
        start = at
        key, at = _number(message, at)
        kind = key & 7
        if kind == BYTES:
            length, at = _number(message, at)
        elif kind == VARINT:
            length = _number(message, at)[1] - at
        elif kind in FIXED:
            length = FIXED[kind]
        else:
            raise BadFile("This file is not an ONNX model, or is damaged.")
        if at + length > len(message):
            raise BadFile(CUT_SHORT)
        yield key >> 3, message[at : at + length], message[start : at + length]
        at += length


def _number(message: bytes | memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(message):
            raise BadFile(CUT_SHORT)
        byte = message[at]
        value |= (byte & 127) << shift
        shift, at = shift + 7, at + 1
        if byte < 128:
            return value, at
        if shift > LONGEST:
            raise BadFile("This file is not an ONNX model, or is damaged.")


def _written(field: int, held: bytes) -> bytes:
    return _varint(field << 3 | BYTES) + _varint(len(held)) + held


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])
