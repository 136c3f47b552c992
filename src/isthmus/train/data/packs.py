"""Pictures packed for training, in ``index.json`` and ``pack0.bin``, ``pack1.bin`` and so on.

The index is {"packs": [[bytes of each picture, …], …], "names": […], "captions": [[…], …]}; a pack holds encoded
pictures, one after another. A few large files travel and open faster than a hundred thousand small ones.
"""

from __future__ import annotations

import io
import json
import mmap
import multiprocessing
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isthmus._optional import need
from isthmus.errors import BadFile

INDEX = "index.json"
PACK_BYTES = 45_000_000
QUALITY = 50
MANY = 1000  # pictures that are worth a process


@dataclass(frozen=True, slots=True)
class PackedPicture:
    """A picture before it is packed: its name, its encoded bytes, and texts that describe it."""

    name: str
    data: bytes
    captions: Sequence[str]


@dataclass(frozen=True, slots=True)
class PackedPictures:
    """The names, texts and places of the pictures of a folder."""

    folder: Path
    names: list[str]
    captions: list[list[str]]
    places: list[tuple[int, int, int]]  # the pack, and where the picture starts and ends in it

    @classmethod
    def open(cls, folder: Path) -> PackedPictures:
        """Read the index."""
        try:
            index = json.loads((folder / INDEX).read_text("utf-8"))
            ends = [list(accumulate(sizes, initial=0)) for sizes in index["packs"]]
            places = [(pack, start, end) for pack, at in enumerate(ends) for start, end in pairwise(at)]
            names, captions = index["names"], index["captions"]
        except FileNotFoundError:
            raise BadFile(
                f"{folder} has no {INDEX}, so it holds no packed pictures. Make it with: python -m isthmus.train.data"
            ) from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BadFile(f"{folder / INDEX} cannot be read: {error}. Pack the pictures again.") from None
        if not len(names) == len(captions) == len(places):
            raise BadFile(
                f"{folder / INDEX} names {len(names)} pictures, texts of {len(captions)} and places of {len(places)}. "
                "Pack the pictures again."
            )
        return cls(folder, names, captions, places)

    def __len__(self) -> int:
        """Return the number of pictures."""
        return len(self.names)

    def select(self, keep: Callable[[str], bool], limit: int | None = None) -> PackedPictures:
        """Return the pictures whose name is kept, at most ``limit``."""
        rows = [row for row, name in enumerate(self.names) if keep(name)][:limit]
        picked = ([each[row] for row in rows] for each in (self.names, self.captions, self.places))
        return PackedPictures(self.folder, *picked)  # type: ignore[arg-type]

    def files(self) -> Iterator[bytes]:
        """Yield the encoded pictures, in order."""
        packs = {
            n: np.memmap(self.folder / f"pack{n}.bin", np.uint8, "r") for n in {pack for pack, _, _ in self.places}
        }
        return (packs[pack][start:end].tobytes() for pack, start, end in self.places)

    def pixels(self, size: int, processes: int | None = None) -> NDArray[np.uint8]:
        """Decode all pictures, each resized to a square: ``(n, size, size, 3)``.

        Threads would not help: the decoder of WebP holds the interpreter's lock. Default: a process per core, if there
        are enough pictures.
        """
        count = len(self) * size * size * 3
        shared = mmap.mmap(-1, max(1, count))  # what forked processes write, the parent reads
        out = np.frombuffer(shared, np.uint8, count).reshape(len(self), size, size, 3)
        workers = min(os.cpu_count() or 1, len(self) // MANY) if processes is None else processes

        def decode(first: int, step: int) -> None:
            for row, data in islice(enumerate(self.files()), first, None, step):
                out[row] = decoded(data, size)

        if workers < 2 or not _in_processes(decode, workers):
            decode(0, 1)
        return out


def _in_processes(work: Callable[[int, int], None], count: int) -> bool:
    """Run ``work(i, count)`` in forked processes; return whether all of them succeeded."""
    if "fork" not in multiprocessing.get_all_start_methods():
        return False
    context = multiprocessing.get_context("fork")
    started = [context.Process(target=work, args=(number, count), daemon=True) for number in range(count)]
    with warnings.catch_warnings():  # Python warns of threads in the parent; the children only decode
        warnings.simplefilter("ignore", DeprecationWarning)
        for process in started:
            process.start()
    for process in started:
        process.join()
    return all(process.exitcode == 0 for process in started)


def write(folder: Path, pictures: Iterable[PackedPicture], pack_bytes: int = PACK_BYTES) -> int:
    """Pack pictures into a folder; return their number."""
    folder.mkdir(parents=True, exist_ok=True)
    index: dict[str, list[Any]] = {"packs": [], "names": [], "captions": []}
    for number, pack in enumerate(_filled(pictures, pack_bytes)):
        (folder / f"pack{number}.bin").write_bytes(b"".join(each.data for each in pack))
        index["packs"].append([len(each.data) for each in pack])
        index["names"] += [each.name for each in pack]
        index["captions"] += [list(each.captions) for each in pack]
    (folder / INDEX).write_text(json.dumps(index), "utf-8")
    return len(index["names"])


def _filled(pictures: Iterable[PackedPicture], pack_bytes: int) -> Iterator[list[PackedPicture]]:
    pack: list[PackedPicture] = []
    held = 0
    for each in pictures:
        if pack and held + len(each.data) > pack_bytes:
            yield pack
            pack, held = [], 0
        pack.append(each)
        held += len(each.data)
    if pack:
        yield pack


def decoded(data: bytes, size: int) -> NDArray[np.uint8]:
    """Return an encoded picture as a square of RGB bytes."""
    image = need("PIL.Image", extra="train")
    with image.open(io.BytesIO(data)) as opened:
        rgb = opened.convert("RGB")
    return np.asarray(rgb if rgb.size == (size, size) else rgb.resize((size, size), image.Resampling.BICUBIC))


def encoded(path: Path, size: int, quality: int = QUALITY) -> bytes:
    """Return a picture file as a small WebP square, transparent pixels white."""
    image = need("PIL.Image", extra="train")
    with image.open(path) as opened:
        rgba = opened.convert("RGBA")
    white = image.new("RGBA", rgba.size, "white")
    square = image.alpha_composite(white, rgba).convert("RGB").resize((size, size), image.Resampling.LANCZOS)
    out = io.BytesIO()
    square.save(out, "WEBP", quality=quality, method=2)
    return out.getvalue()
