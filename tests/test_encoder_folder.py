"""An encoder's folder: every file is inside it, listed and verified, and what was verified is what is loaded."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import numpy as np
import onnx
import pytest

from isthmus import encoders
from isthmus.encoders.folder import describe
from isthmus.encoders.tower import external_files
from isthmus.errors import BadFile
from tiny import write_encoder


def listed(folder: Path) -> None:
    """Write the checksums anew."""
    path = folder / "encoder.toml"
    files = sorted(file for file in folder.iterdir() if file != path)
    sums = [f'"{file.name}" = "{sha256(file.read_bytes()).hexdigest()}"' for file in files]
    path.write_text("\n".join([path.read_text().partition("[files]")[0], "[files]", *sums, ""]))


def outside(folder: Path, name: str, to: str) -> None:
    """Move a file of the folder, and have the description name it there."""
    path = folder / "encoder.toml"
    path.write_text(path.read_text().replace(f'"{name}"', f'"{to}"'))
    (folder / name).rename(folder / to)


@pytest.mark.parametrize("name", ["text.onnx", "tokenizer.json"])
@pytest.mark.parametrize("way", ["../{}", "{}/elsewhere/{}", "../encoder/../{}"])
def test_a_file_outside_the_folder_is_refused_though_its_checksum_is_right(name: str, way: str, tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "encoder")
    (tmp_path / "elsewhere").mkdir()
    outside(folder, name, way.format(tmp_path, name) if way.startswith("{") else way.format(name))
    with pytest.raises(BadFile, match="not inside its folder"):
        encoders.load(f"onnx:{folder}")


def test_a_link_that_leads_out_is_refused_and_one_that_stays_inside_is_not(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "encoder")
    (folder / "text.onnx").rename(folder / "other.onnx")
    (folder / "text.onnx").symlink_to("other.onnx")
    listed(folder)
    encoders.load(f"onnx:{folder}")
    (folder / "other.onnx").rename(tmp_path / "other.onnx")
    (folder / "text.onnx").unlink()
    (folder / "text.onnx").symlink_to(tmp_path / "other.onnx")
    listed(folder)
    with pytest.raises(BadFile, match="not inside its folder"):
        encoders.load(f"onnx:{folder}")


def with_external(folder: Path, location: str = "weights.bin") -> None:
    """Move the weights of the text tower into a file of their own."""
    model = onnx.load(folder / "text.onnx")
    onnx.save(model, folder / "text.onnx", save_as_external_data=True, location="weights.bin", size_threshold=64)
    if location != "weights.bin":
        model = onnx.load(folder / "text.onnx", load_external_data=False)
        for weight in model.graph.initializer:
            for entry in weight.external_data:
                entry.value = location if entry.key == "location" else entry.value
        (folder / "text.onnx").write_bytes(model.SerializeToString())


def test_weights_in_another_file_are_loaded_when_they_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_encoder(tmp_path / "encoder")
    before = encoders.load(f"onnx:{folder}").encode_queries(["a cat"]).parts["text"]
    with_external(folder)
    listed(folder)
    monkeypatch.chdir(tmp_path)  # not where the weights are
    after = encoders.load(f"onnx:{folder}").encode_queries(["a cat"]).parts["text"]
    np.testing.assert_allclose(after, before, rtol=1e-6)


def test_weights_in_another_file_that_has_no_checksum_are_refused(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "encoder")
    with_external(folder)
    listed(folder)
    path = folder / "encoder.toml"
    path.write_text("\n".join(line for line in path.read_text().splitlines() if "weights.bin" not in line))
    with pytest.raises(BadFile, match=r"keeps weights in 'weights.bin', and .* has no checksum"):
        encoders.load(f"onnx:{folder}")


def test_weights_whose_checksum_is_wrong_are_refused(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "encoder")
    with_external(folder)
    listed(folder)
    (folder / "weights.bin").write_bytes(bytes((folder / "weights.bin").stat().st_size))
    with pytest.raises(BadFile, match=r"weights.bin is damaged"):
        encoders.load(f"onnx:{folder}")


@pytest.mark.parametrize("location", ["../weights.bin", "/etc/hostname", "sub/../../weights.bin"])
def test_weights_outside_the_folder_are_refused(location: str, tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "encoder")
    with_external(folder, location)
    listed(folder)
    with pytest.raises(BadFile, match="not inside its folder"):
        encoders.load(f"onnx:{folder}")


def test_weights_are_found_wherever_a_model_can_hold_them() -> None:
    def tensor(name: str) -> onnx.TensorProto:
        made = onnx.TensorProto(name=name, data_location=onnx.TensorProto.EXTERNAL)
        made.external_data.add(key="offset", value="0")
        made.external_data.add(key="location", value=name)
        return made

    inner = onnx.helper.make_graph([], "inner", [], [], [tensor("in a graph inside a node")])
    nodes = [
        onnx.NodeProto(attribute=[onnx.AttributeProto(name="then_branch", g=inner)]),
        onnx.NodeProto(attribute=[onnx.AttributeProto(name="value", t=tensor("in an attribute"))]),
    ]
    model = onnx.ModelProto(graph=onnx.helper.make_graph(nodes, "outer", [], [], [tensor("in the graph")]))
    sparse = onnx.SparseTensorProto(values=tensor("in a sparse tensor"))
    model.graph.sparse_initializer.append(sparse)
    function = onnx.FunctionProto(node=[onnx.NodeProto(attribute=[onnx.AttributeProto(t=tensor("in a function"))])])
    model.functions.append(function)
    assert set(external_files(model.SerializeToString())) == {
        "in the graph",
        "in an attribute",
        "in a graph inside a node",
        "in a sparse tensor",
        "in a function",
    }


def test_what_was_verified_is_what_is_loaded(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "encoder")
    described = describe(folder)
    whole = (folder / "text.onnx").read_bytes()
    (folder / "text.onnx").write_bytes(b"another")
    assert described.read("text.onnx") == whole
    with pytest.raises(BadFile, match="is damaged"):
        described.read("text.onnx")  # read anew, and verified anew


def test_a_description_without_end_is_refused(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "encoder")
    with (folder / "encoder.toml").open("ab") as file:
        file.truncate(2**33)
    with pytest.raises(BadFile, match="larger than 1 MiB"):
        describe(folder)


def test_onnxruntime_writes_nothing_into_the_home_directory(tmp_path: Path) -> None:
    import os
    import subprocess
    import sys

    folder = write_encoder(tmp_path / "encoder")
    home = tmp_path / "home"
    home.mkdir()
    code = f"from isthmus import encoders; encoders.load('onnx:{folder}').encode_queries(['a cat'])"
    unset = {"ORT_DISABLE_TELEMETRY", "CI", "XDG_CACHE_HOME"}
    env = {name: value for name, value in os.environ.items() if name not in unset} | {"HOME": str(home)}
    subprocess.run([sys.executable, "-c", code], env=env, check=True, timeout=120)
    assert list(home.rglob("*")) == []
