"""What an exported tower computes on its way, as a model of its own: one vector per token, or per cell of an image.

An ONNX file is a protobuf message: fields, one after another, each with a number and a length. The graph is field 7 of
the model; its nodes are field 1, in the order in which they run, and its outputs are field 12. Leaving out the nodes
behind a tensor and naming that tensor as the output makes the cut; weights that nothing uses any more are not loaded.
Of several tensors the last one decides where the cut is.
"""

from __future__ import annotations

from collections.abc import Iterator

from isthmus.errors import BadFile

GRAPH, NODE, OUTPUT = 7, 1, 12
NAME_OF_OUTPUT = 1
OUTPUTS_OF_NODE = 2
VARINT, BYTES = 0, 2  # the wire types of numbers and of everything that has a length
FIXED = {1: 8, 5: 4}  # the bytes of those that need not say
CUT_SHORT = "This model's file ends in the middle of a field. It is cut short: get it again."


def cut(model: bytes, *tensors: str) -> bytes:
    """Return the model that ends at these tensors and gives them, in this order.

    >>> cut(b"", "features")
    Traceback (most recent call last):
    isthmus.errors.BadFile: This model has no tensor called 'features'.
    """
    fields = list(_fields(model))
    if not any(field == GRAPH for field, _, _ in fields):
        raise BadFile(f"This model has no tensor called {tensors[0]!r}.")
    return b"".join(_graph(held, tensors) if field == GRAPH else whole for field, held, whole in fields)


def _graph(graph: bytes, tensors: tuple[str, ...]) -> bytes:
    missing = {name.encode() for name in tensors}
    out = []
    for field, held, whole in _fields(graph):
        if field == NODE:
            if missing:
                out.append(whole)
                missing -= {h for f, h, _ in _fields(held) if f == OUTPUTS_OF_NODE}
        elif field != OUTPUT:
            out.append(whole)
    if missing:
        raise BadFile(f"This model has no tensor called {min(missing).decode()!r}.")
    out += [_written(OUTPUT, _written(NAME_OF_OUTPUT, name.encode())) for name in tensors]
    return _written(GRAPH, b"".join(out))


def _fields(message: bytes) -> Iterator[tuple[int, bytes, bytes]]:
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
            raise BadFile("This file is no ONNX model, or a damaged one.")
        if at + length > len(message):
            raise BadFile(CUT_SHORT)
        yield key >> 3, message[at : at + length], message[start : at + length]
        at += length


def _number(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(message):
            raise BadFile(CUT_SHORT)
        byte = message[at]
        value |= (byte & 127) << shift
        shift, at = shift + 7, at + 1
        if byte < 128:
            return value, at


def _written(field: int, held: bytes) -> bytes:
    return _varint(field << 3 | BYTES) + _varint(len(held)) + held


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])
