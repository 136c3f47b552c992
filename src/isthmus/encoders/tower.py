"""Cut an exported tower at a tensor: a model that returns one vector per token, or per cell of an image.

An ONNX file is a protobuf message (``wire.py``). The graph is field 7 of the model; its nodes are field 1, in the order
in which they run, and its outputs are field 12. The cut removes the nodes after a tensor and makes that tensor the
output; unused weights are not loaded. With several tensors, the last one decides where the cut is. ``tail`` is the
other half: the nodes after a tensor, with the tensor as input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from isthmus.encoders.wire import fields, values, write_field
from isthmus.errors import BadFile

GRAPH, NODE, WEIGHT, INPUT, OUTPUT = 7, 1, 5, 11, 12
NAME, NAME_OF_WEIGHT = 1, 8
INPUTS_OF_NODE, OUTPUTS_OF_NODE = 1, 2
FLOATS = b"\x0a\x02\x08\x01"  # a type: a tensor (1) whose elements (1) are float32 (1), of any shape
TYPE = 2
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
    for field, held, _ in fields(message):
        if kind == "tensor" and field == EXTERNAL_DATA:
            entry = [(each, bytes(value)) for each, value, _ in fields(held)]
            if (KEY, LOCATION) in entry:
                yield from (value.decode("utf-8", "replace") for each, value in entry if each == VALUE)
        elif field in CONTAINS.get(kind, {}):
            yield from _locations(held, CONTAINS[kind][field])


def _with_graph(model: bytes, tensor: str, change: Callable[[bytes], bytes]) -> bytes:
    found = list(fields(model))
    if not any(field == GRAPH for field, _, _ in found):
        raise _no_tensor(tensor)
    return b"".join(write_field(GRAPH, change(held)) if field == GRAPH else whole for field, held, whole in found)


def _head(graph: bytes, tensors: tuple[str, ...]) -> bytes:
    missing = {name.encode() for name in tensors}
    out = []
    for field, held, whole in fields(graph):
        if field == NODE:
            if missing:
                out.append(whole)
                missing -= set(values(held, OUTPUTS_OF_NODE))
        elif field != OUTPUT:
            out.append(whole)
    if missing:
        raise _no_tensor(min(missing).decode())
    out += [write_field(OUTPUT, write_field(NAME, name.encode())) for name in tensors]
    return b"".join(out)


def _tail(graph: bytes, tensor: bytes) -> bytes:
    found = list(fields(graph))
    weights = {name for weight in values(graph, WEIGHT) for name in values(weight, NAME_OF_WEIGHT)}
    wanted = {name for output in values(graph, OUTPUT) for name in values(output, NAME)}
    kept: list[bytes] = []
    known = False
    for field, held, whole in reversed(found):
        gives = set(values(held, OUTPUTS_OF_NODE)) if field == NODE else set()
        known |= tensor in gives
        if field not in (NODE, INPUT) or (wanted & gives and tensor not in gives):
            kept.append(whole)
            wanted |= set(values(held, INPUTS_OF_NODE)) if field == NODE else set()
    if not known:
        raise _no_tensor(tensor.decode())
    entries = {name for entry in values(graph, INPUT) for name in values(entry, NAME)} - weights
    if entries & wanted:
        other = min(entries & wanted).decode()
        raise BadFile(f"The output of this model depends on {other!r} too, not only {tensor.decode()!r}. Cut later.")
    entry = write_field(INPUT, write_field(NAME, tensor) + write_field(TYPE, FLOATS))
    return b"".join([*reversed(kept), entry])


def _no_tensor(name: str) -> BadFile:
    return BadFile(f"This model has no tensor called {name!r}.")
