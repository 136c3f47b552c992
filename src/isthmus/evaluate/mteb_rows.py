"""Rows of mteb's datasets as texts and pictures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from isthmus._optional import need
from isthmus.documents import ImageLike

AT_ONCE = 1000  # rows read from a dataset at a time


@dataclass(frozen=True, slots=True, eq=False)
class MtebRow:
    """One row of an mteb dataset; false if it is empty."""

    id: str
    text: str | None
    image: ImageLike | None

    def __bool__(self) -> bool:
        return self.image is not None or bool(self.text and self.text.strip())


def rows_of(batch: Mapping[str, Sequence[Any]], kinds: Sequence[str]) -> list[MtebRow]:
    """Read a batch of documents or queries: its columns of these modalities.

    A title is put before its text, an instruction after its query; the turns of a conversation are joined.

    >>> rows_of({"id": ["a"], "title": ["Cats"], "text": ["They purr."]}, ["text"])
    [MtebRow(id='a', text='Cats They purr.', image=None)]
    """
    count = len(next(iter(batch.values())))
    none = [None] * count
    columns = [batch.get(name, none) for name in ("id", "title", "text", "instruction", "image")]
    return [
        MtebRow(
            id=str(name),
            text=_text(title, text, instruction) if "text" in kinds else None,
            image=_image(image) if "image" in kinds else None,
        )
        for name, title, text, instruction, image in zip(*columns, strict=True)
    ]


def _text(title: str | None, text: Any, instruction: str | None) -> str:
    if isinstance(text, list):
        said = [turn if isinstance(turn, str) else f"{turn['role']}: {turn['content']}" for turn in text]
        return " ".join(each for each in (instruction, "; ".join(said)) if each)
    return " ".join(each for each in (title, text, instruction) if each)


def _image(image: Any) -> ImageLike | None:
    """Return a picture as its file, if the dataset has it."""
    if isinstance(image, Mapping):
        found: ImageLike | None = image["bytes"] or image["path"]
        return found
    return None if image is None else image


def blocks(dataset: Any) -> Iterator[Mapping[str, Sequence[Any]]]:
    """Yield a dataset in blocks, with pictures as files: a thousand decoded photos would fill the memory."""
    picture = need("datasets", extra="mteb").Image
    if isinstance(dataset.features.get("image"), picture):
        dataset = dataset.cast_column("image", picture(decode=False))
    yield from dataset.iter(batch_size=AT_ONCE)
