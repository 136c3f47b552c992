"""The lower layers of a tower: what is left of a model that is cut."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnxruntime import InferenceSession, SessionOptions

from isthmus import encoders
from isthmus.align.reading import FEATURES
from isthmus.encoders.tower import cut
from isthmus.errors import BadFile
from tiny import text_model

TOWER = Path(encoders.__file__).parent / "mini" / "text.onnx"


def session(model: bytes) -> InferenceSession:
    options = SessionOptions()
    options.log_severity_level = 3
    return InferenceSession(model, options)


def test_a_tower_that_is_cut_gives_what_the_whole_one_has_at_that_place() -> None:
    whole = onnx.load_model_from_string(TOWER.read_bytes())
    whole.graph.output.append(onnx.ValueInfoProto(name=FEATURES))
    asked = {"tokens": np.array([[101, 1037, 4937, 2006, 1037, 102]]), "mask": np.ones((1, 6), dtype=np.int64)}
    (expected,) = session(whole.SerializeToString()).run([FEATURES], asked)
    lower = session(cut(TOWER.read_bytes(), FEATURES))
    (found,) = lower.run(None, asked)
    assert [each.name for each in lower.get_outputs()] == [FEATURES]
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_what_a_cut_leaves_is_a_model_and_shorter() -> None:
    model = text_model(20)
    model.ir_version = 8
    inner = model.graph.node[0].output[0]
    lower = onnx.load_model_from_string(cut(model.SerializeToString(), inner))
    assert [node.output[0] for node in lower.graph.node] == [inner]
    assert [each.name for each in lower.graph.output] == [inner]
    assert (lower.ir_version, lower.opset_import) == (8, model.opset_import)


def test_a_tensor_that_is_not_there_is_said_and_so_is_a_damaged_file() -> None:
    model = text_model(20).SerializeToString()
    inner = text_model(20).graph.node[0].output[0]
    for tensor in ("nowhere", "tokens"):  # an input is nothing that can be cut behind
        with pytest.raises(BadFile, match=f"no tensor called '{tensor}'"):
            cut(model, tensor)
    with pytest.raises(BadFile, match="no tensor"):
        cut(b"", inner)
    for length in range(20, len(model) - 20, 37):
        with pytest.raises(BadFile, match="truncated"):
            cut(model[:length], inner)


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_bytes_that_are_no_model_are_refused(junk: bytes) -> None:
    with pytest.raises(BadFile):
        cut(junk, "features")
