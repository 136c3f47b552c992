"""Read the matcher back from ``match.onnx``: ONNX Runtime computes no gradients, and maps need them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from isthmus._optional import need
from isthmus.train.mr_right.matcher import ClassMatcher
from isthmus.train.mr_right.recipe import MrRightRecipe

OF = "matcher."  # where the exported module has it


def read_matcher(path: Path) -> ClassMatcher:
    """Return the matcher of an exported model, with its weights as they were exported: 8 bits, or float.

    The exporter names vectors as the module does, equal ones by an identity. It writes the matrices of linear layers
    transposed, under numbers, and names the products that use them.
    """
    onnx: Any = need("onnx", extra="train")
    graph = onnx.load(str(path)).graph
    held = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
    for name in [name.removesuffix(".small") for name in held if name.endswith(".small")]:  # as ``shrink`` writes them
        held[name] = held.pop(f"{name}.small") * held.pop(f"{name}.scale")
    held |= {node.output[0]: held[node.input[0]] for node in graph.node if node.op_type == "Identity"}
    state = {name.removeprefix(OF): value for name, value in held.items() if name.startswith(OF)}
    kinds: dict[str, Any] = {}
    for node in graph.node:
        place = node.name.strip("/").split("/")  # matcher, layers.0, own, ask, MatMul
        given = next((held[name] for name in node.input if name in held and not name.startswith(OF)), None)
        if given is None or place[0] != OF.strip(".") or node.op_type not in ("MatMul", "Add"):
            continue
        if place[1:-1]:
            state[f"{'.'.join(place[1:-1])}.weight".replace("think.think", "think")] = given.T
        else:  # what marks the document's tokens, and the query's
            kinds[node.op_type] = np.atleast_2d(given)
    state["kind"] = np.concatenate([kinds["MatMul"], kinds["Add"]])
    layers = {name.split(".")[1] for name in state if name.startswith("layers.")}
    shape = MrRightRecipe(match=len(layers)).shape(state["first"].shape[2])
    matcher = ClassMatcher(shape)
    matcher.load_state_dict({name: torch.from_numpy(value.astype(np.float32)) for name, value in state.items()})
    return matcher.eval()
