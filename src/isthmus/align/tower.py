"""The lower layers of an exported text tower, as a model of their own: one vector per token.

An ONNX file is a protobuf message: fields, one after another, each with a number and a length. The graph is field 7 of
the model; its nodes are field 1, in the order in which they run, and its outputs are field 12. Leaving out the nodes
behind a tensor and naming that tensor as the output makes the cut; weights that nothing uses any more are not loaded.
"""

from __future__ import annotations

from collections.abc import Iterator

from isthmus.errors import BadFile

GRAPH, NODE, OUTPUT = 7, 1, 12
NAME_OF_OUTPUT = 1
OUTPUTS_OF_NODE = 2
BYTES = 2  # the wire type of everything that has a length


def cut(model: bytes, tensor: str) -> bytes:
    """Return the model that ends at a tensor and gives that tensor.

    >>> cut(b"", "features")
    Traceback (most recent call last):
    isthmus.errors.BadFile: This model has no tensor called 'features'.
    """
    out = [_graph(held, tensor) if field == GRAPH else whole for field, held, whole in _fields(model)]
    if not any(field == GRAPH for field, _, _ in _fields(model)):
        raise BadFile(f"This model has no tensor called {tensor!r}.")
    return b"".join(out)


def _graph(graph: bytes, tensor: str) -> bytes:
    name = tensor.encode()
    out, made = [], False
    for field, held, whole in _fields(graph):
        if field == NODE:
            if not made:
                out.append(whole)
            made = made or any(f == OUTPUTS_OF_NODE and h == name for f, h, _ in _fields(held))
        elif field != OUTPUT:
            out.append(whole)
    if not made:
        raise BadFile(f"This model has no tensor called {tensor!r}.")
    out.append(_written(OUTPUT, _written(NAME_OF_OUTPUT, name)))
    return _written(GRAPH, b"".join(out))


def _fields(message: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield each field: its number, what it holds, and all of its bytes."""
    at = 0
    while at < len(message):
        start = at
        key, at = _number(message, at)
        if key & 7 == BYTES:
            length, at = _number(message, at)
        else:
            length = {1: 8, 5: 4}.get(key & 7, 0)
            if not length:
                _, end = _number(message, at)
                length = end - at
        yield key >> 3, message[at : at + length], message[start : at + length]
        at += length


def _number(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(message):
            raise BadFile("This model's file ends in the middle of a field.")
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
