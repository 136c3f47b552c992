"""Benchmarks in the layouts they are published in: documents, queries and judgements, read from a folder.

load("flickr8k-mix", Path("data"))           a Benchmark
load("mixbench:MSCOCO", Path("MixBench25"))  the name after the colon selects a subset
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from isthmus.errors import BadInput
from isthmus.evaluate.benchmarks import (
    beir,
    docvqa,
    flickr8k,
    flickr8k_mix,
    karpathy,
    mbeir,
    mixbench,
    mixtures,
    mm_bright,
    mmqa,
    mr_right,
    webqa,
)
from isthmus.evaluate.benchmarks.base import Benchmark, Question
from isthmus.registry import lookup

__all__ = ["BENCHMARKS", "Benchmark", "Loader", "Question", "expand", "load"]

Loader = Callable[[Path, Sequence[str]], Benchmark]

BENCHMARKS: Mapping[str, Loader] = MappingProxyType(
    {
        "beir": beir.load,
        "coco": karpathy.coco,
        "docvqa": docvqa.load,
        "flickr30k": karpathy.flickr30k,
        "flickr8k": flickr8k.load,
        "flickr8k-mix": flickr8k_mix.load,
        "m-beir": mbeir.load,
        "mixbench": mixbench.load,
        "mixtures": mixtures.load,
        "mm-bright": mm_bright.load,
        "mmqa": mmqa.load,
        "mr-right": mr_right.load,
        "webqa": webqa.load,
    }
)


def load(name: str, data: Path) -> Benchmark:
    """Read a benchmark from the folder its files are in; pictures stay where they are.

    Names after a colon, separated by commas, select subsets: ``mixbench:MSCOCO``, ``mm-bright:task2,biology``,
    ``docvqa:apart``. Each benchmark's module documents its own.

    >>> load("mixbensh", Path("."))
    Traceback (most recent call last):
    isthmus.errors.UnknownName: No benchmark is called 'mixbensh'. Did you mean 'mixbench'?
    >>> load("flickr8k", Path("nowhere"))
    Traceback (most recent call last):
    isthmus.errors.BadInput: There is no folder nowhere to read flickr8k from. Check the path.
    """
    chosen, _, words = name.partition(":")
    loader = lookup(BENCHMARKS, chosen, "benchmark")
    data = Path(data)
    if not data.is_dir():
        raise BadInput(f"There is no folder {data} to read {chosen} from. Check the path.")
    return loader(data, [word.strip() for word in words.split(",") if word.strip()])


def expand(name: str, data: Path) -> list[str]:
    """Return the benchmarks that a name stands for: all ``mixtures`` of the folder, the domains of ``mm-bright``.

    Others are themselves.

    >>> expand("beir:scifact", Path("."))
    ['beir:scifact']
    """
    chosen, _, group = name.partition(":")
    if chosen == "mm-bright":
        words = [word.strip() for word in group.split(",") if word.strip()]
        return [f"{chosen}:{each}" for each in mm_bright.names(Path(data), words)]
    if chosen != mixtures.NAME or group not in ("", *mixtures.GROUPS):
        return [name]
    return [f"{mixtures.NAME}:{each}" for each in mixtures.names(Path(data), group or None)]
