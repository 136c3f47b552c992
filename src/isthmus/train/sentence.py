"""A trainable sentence encoder: any sentence-transformers model, with gradients and export.

sentence = SentenceModel.load("all-MiniLM-L6-v2", device="cuda")
sentence.vectors(sentence.tokens(["a cat"], "query", length=64))        (1, d), unit
save(sentence, out, name="mine")                                        out/st loads as st:, out/onnx as onnx:
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from isthmus.align.base import Found
from isthmus.align.retrievers import best
from isthmus.encoders.base import Role
from isthmus.encoders.st import load_model, prompt_of
from isthmus.errors import BadInput
from isthmus.train import export

LONGEST = 512  # tokens, if a model states no length


class SentenceModel(nn.Module):
    """A sentence-transformers model as a module: tokens and mask in, unit vectors out.

    With ``half``, ``vectors`` computes in bfloat16 where possible; weights and vectors stay float32.
    """

    def __init__(self, model: Any, *, half: bool = False) -> None:
        super().__init__()
        self.model, self.coarse = model, half

    @classmethod
    def load(cls, name: str, device: str = "cpu", *, half: bool = False) -> SentenceModel:
        """Load a folder or a name."""
        model = load_model(name, device)
        if not hasattr(model.tokenizer, "backend_tokenizer"):
            raise BadInput(f"{name} has no tokenizer.json (a 'fast' tokenizer), which the exported encoder needs.")
        return cls(model.float(), half=half)

    @property
    def length(self) -> int:
        """The maximum number of tokens."""
        return int(self.model.max_seq_length or LONGEST)

    def tokens(self, texts: Sequence[str], role: Role, length: int) -> list[list[int]]:
        """Return the tokens of each text, cut to ``length``, after the model's prompt."""
        front = prompt_of(self.model, role)
        cut = self.model.tokenizer(
            [front + text for text in texts], truncation=True, max_length=min(length, self.length), padding=False
        )
        found: list[list[int]] = cut["input_ids"]
        return found

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Encode ``(n, length)`` token ids to ``(n, d)`` unit vectors."""
        states = self.model({"input_ids": tokens, "attention_mask": mask})
        return F.normalize(states["sentence_embedding"].float(), dim=1)

    def vectors(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Encode tokens, padded to the longest, on the model's device."""
        device = next(self.parameters()).device
        longest = max(map(len, rows))
        pad = self.model.tokenizer.pad_token_id or 0
        tokens = torch.tensor([[*row, *[pad] * (longest - len(row))] for row in rows], device=device)
        mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows], device=device)
        with torch.autocast(device.type, torch.bfloat16, enabled=self.coarse):
            found: Tensor = self(tokens, mask)
        return found

    @torch.no_grad()
    def encoded(self, rows: Sequence[Sequence[int]], batch: int = 64) -> Tensor:
        """Encode without gradients or dropout, texts of similar length together."""
        training, order = self.training, sorted(range(len(rows)), key=lambda row: len(rows[row]))
        self.eval()
        parts = [self.vectors([rows[at] for at in order[i : i + batch]]) for i in range(0, len(order), batch)]
        self.train(training)
        back = torch.empty(len(order), dtype=torch.long)
        back[torch.tensor(order, dtype=torch.long)] = torch.arange(len(order))
        return torch.cat(parts)[back.to(parts[0].device)]


@dataclass(frozen=True, slots=True, eq=False)
class Nearest:
    """Dense retrieval with an encoder in training: documents cut to ``length``, one vector each."""

    sentence: SentenceModel
    ids: Sequence[str]
    documents: Tensor  # (n, d)
    length: int
    name: str = "start"

    @classmethod
    def of(cls, sentence: SentenceModel, ids: Sequence[str], texts: Sequence[str], length: int) -> Nearest:
        """Encode the documents."""
        return cls(sentence, ids, sentence.encoded(sentence.tokens(texts, "document", length)), length)

    def search(self, texts: Sequence[str], k: int = 10) -> list[Found]:
        """Return the best ``k`` documents of each query."""
        queries = self.sentence.encoded(self.sentence.tokens(texts, "query", self.length))
        scores = (queries @ self.documents.T).cpu().numpy()  # (n_queries, n_documents)
        return [[(self.ids[at], float(row[at])) for at in best(row, k)] for row in scores]


def save(sentence: SentenceModel, out: Path, *, name: str, small: bool = False) -> None:
    """Write ``out/st`` for sentence-transformers and ``out/onnx`` for onnxruntime; ``small``: with 8-bit weights."""
    sentence = sentence.cpu().eval()
    with warnings.catch_warnings():  # the library warns about its own files
        warnings.simplefilter("ignore")
        sentence.model.save_pretrained(str(out / "st"), create_model_card=False)
    folder = out / "onnx"
    folder.mkdir(parents=True, exist_ok=True)
    export.text_onnx(sentence, folder / "text.onnx")
    if small:
        export.shrink(folder / "text.onnx")
    sentence.model.tokenizer.backend_tokenizer.save(str(folder / "tokenizer.json"))
    dim = int(sentence.encoded(sentence.tokens(["a"], "document", 8)).shape[1])
    fronts = [f"{role} = {json.dumps(prompt_of(sentence.model, role))}" for role in ("query", "document")]
    own = [f"pad = {sentence.model.tokenizer.pad_token_id or 0}", *fronts]
    table = export.TEXT_TABLE.format(length=sentence.length) + "\n".join(own) + "\n"
    export.describe(folder, name, dim, table)
