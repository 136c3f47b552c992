"""BRIDGE's ladder with small models: text, + caption, + supervised FORGE, + reinforced FORGE, each also with LENS.

    python reproduce/ladder.py --data DIR --out DIR [--lens]   (needs scifact/, flickr8k/; extra train; an hour or two)

FORGE is forge-mini, three times each: supervised, and reinforced after it with BM25 as the reward; searched with BM25
and mini. With ``--lens``, LENS is MiniLM, three times fine-tuned, each time on one supervised FORGE's rewrites of the
training claims, one chat each; that FORGE is reinforced once more with this LENS as its reward, and all are searched
with MiniLM and with the LENS of their seed. 300 test claims over 1,000 abstracts, as chats of the seen style and of
unseen styles (``chat_sets.py``). nDCG@10 is the mean over seeds, the interval is over claims, *seeds* the deviation
between seeds. What ``--out`` holds is not made again. FORGE as a language model (``isthmus train forge --paper``) and
LENS at the paper's size need a GPU.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from chat_sets import ChatSet, Documents, plain, scifact, written
from kept import Kept
from tables import Row, arguments, compared

from isthmus import encoders
from isthmus.align import Retriever, joined, mini
from isthmus.align.reading import WindowReader
from isthmus.align.retrievers import Bm25, Cached, Dense
from isthmus.evaluate import interval, values
from isthmus.evaluate.chat import styled, styles
from isthmus.train import forge_data
from isthmus.train.forge_mini import Example, ForgeMiniPolicy, ForgeMiniRecipe, export, reinforced, supervised
from isthmus.train.lens import LensRecipe
from isthmus.train.make import make_lens
from isthmus.train.towers import minilm

MEASURE = "nDCG@10"
SEEDS = 3
RECIPE = ForgeMiniRecipe(rl_steps=60)
LENS_STEPS = 30  # of reinforcement with LENS, which encodes every rewrite
LENS = LensRecipe(epochs=1, batch=32, negatives=1, length=64, held=0.03, shares=(1.0,))  # minutes on a CPU
Values = Mapping[str, float]


def main(data: Path, out: Path, lens: bool) -> list[Row]:
    """Train what is missing, and return the rows: of BM25 and mini; with ``lens`` those of MiniLM and LENS."""
    train, test = scifact(data, "train"), scifact(data)
    learned = _lazy(lambda: _examples(data, train))
    for seed in range(SEEDS):
        _taught(out, seed, learned)
        _reinforced(out, f"rl-{seed}", seed, learned, lambda: _rewards(data, train))
    if lens:
        for seed in range(SEEDS):
            _lens(out, seed, train)
            _reinforced(out, f"rl-lens-{seed}", seed, learned, _rewards_of(out, seed, train))
    rows: list[Row] = []
    for chosen in (plain("claims, seen style", test), written("claims, unseen styles", test, "test")):
        rows += _rows(chosen, out, lens)
    return rows


def _rows(chosen: ChatSet, out: Path, lens: bool) -> Iterator[Row]:
    """Yield the ladder of a set, for each retriever."""
    ways = chosen.ways
    whole = ways["+ caption"]
    several = {way: [texts] for way, texts in ways.items() if way != "the clean query"}
    several["+ FORGE, supervised"] = [_rewritten(out / f"sft-{seed}.onnx", whole) for seed in range(SEEDS)]
    several["+ FORGE, reinforced"] = [_rewritten(out / f"rl-{seed}.onnx", whole) for seed in range(SEEDS)]
    if lens:
        several["+ FORGE, reinforced with LENS"] = [
            _rewritten(out / f"rl-lens-{seed}.onnx", whole) for seed in range(SEEDS)
        ]
    several["the clean query"] = [ways["the clean query"]]
    for name, retrievers in _retrievers(chosen.documents, out, lens):
        say(f"{chosen.name} {name}")
        found = {way: _runs(retrievers, chosen, texts) for way, texts in several.items()}
        for way, runs in found.items():
            yield row_of(chosen.name, name, way, runs)
        for way in [way for way in found if "reinforced" in way]:
            pairs = zip(found[way], found["+ FORGE, supervised"], strict=True)
            gains = [{query: a[query] - b[query] for query in a} for a, b in pairs]
            yield row_of(chosen.name, name, f"{way.removeprefix('+ FORGE, ')} − supervised", gains)


def _runs(retrievers: Sequence[Retriever], chosen: ChatSet, texts: Sequence[Sequence[str]]) -> list[Values]:
    """Search each seed's texts with the retriever of that seed; what is the same for all seeds is one."""
    several = range(max(len(retrievers), len(texts)))
    return [values_of(retrievers[seed % len(retrievers)], chosen, texts[seed % len(texts)]) for seed in several]


def _retrievers(held: Documents, out: Path, lens: bool) -> Iterator[tuple[str, Sequence[Retriever]]]:
    """Yield names with one retriever for all seeds, or one for each."""
    if lens:
        yield "MiniLM", [dense(f"st:{minilm()}", held, out)]
        yield "LENS", [dense(_lens_of(out, seed), held, out) for seed in range(SEEDS)]
        return
    yield "BM25", [Bm25(held.ids, held.texts)]
    yield "mini", [dense("mini", held, out)]


def row_of(chosen: str, retriever: str, way: str, runs: Sequence[Values]) -> Row:
    value, low, high = interval({query: float(np.mean([run[query] for run in runs])) for query in runs[0]})
    spread = f"{np.std([np.mean(list(run.values())) for run in runs], ddof=1):.3f}" if len(runs) > 1 else ""
    head: Row = {"set": chosen, "retriever": retriever, "searched": way}
    return {**head, MEASURE: value, "low": low, "high": high, "seeds": spread}


def values_of(retriever: Retriever, chosen: ChatSet, texts: Sequence[str]) -> Values:
    found = retriever.search(texts, 10)
    run = {chat.id: dict(hits) for chat, hits in zip(chosen.sent, found, strict=True)}
    return values(MEASURE, run, chosen.documents.qrels)


def dense(name: str, held: Documents, out: Path) -> Dense:
    return Dense(Kept(encoders.load(name, batch=32), out / "vectors"), held.ids, held.texts)


def _rewritten(model: Path, texts: Sequence[str]) -> list[str]:
    return [each.text for each in mini.load(model).rewrite(texts)]


def _examples(data: Path, train: Documents) -> list[Example]:
    """Read the training queries; only documents of the small corpus are right."""
    _, several = forge_data.training(data)
    read = forge_data.examples(several, WindowReader.open(1), os.cpu_count() or 1, say)
    held = set(train.ids)
    return [each if each.corpus else replace(each, right=each.right & held) for each in read]


def _taught(out: Path, seed: int, learned: Callable[[], Sequence[Example]]) -> None:
    """Train by the teacher; keep the weights for reinforcement."""
    if (out / f"sft-{seed}.onnx").exists():
        return
    recipe = replace(RECIPE, seed=seed)
    torch.manual_seed(seed)
    policy = ForgeMiniPolicy(recipe)
    supervised(policy, learned(), recipe, "cpu", say)
    policy.lean(recipe.keep)
    out.mkdir(parents=True, exist_ok=True)
    torch.save(policy.state_dict(), out / f"sft-{seed}.pt")
    export(policy, out / f"sft-{seed}.onnx")


def _reinforced(
    out: Path,
    name: str,
    seed: int,
    learned: Callable[[], Sequence[Example]],
    rewards: Callable[[], Sequence[Sequence[Retriever]]],
) -> None:
    """Reinforce a supervised policy."""
    if (out / f"{name}.onnx").exists():
        return
    recipe = replace(RECIPE, seed=seed, rl_steps=LENS_STEPS if "lens" in name else RECIPE.rl_steps)
    policy = ForgeMiniPolicy(recipe)
    policy.load_state_dict(torch.load(out / f"sft-{seed}.pt", weights_only=True))
    retrievers = rewards()
    judged = [each for each in learned() if each.right and retrievers[each.corpus]]
    reinforced(policy, judged, retrievers, recipe, "cpu", report=say)
    export(policy, out / f"{name}.onnx")


def _rewards(data: Path, train: Documents) -> list[list[Retriever]]:
    """Return BM25 over the abstracts and over captions: a reward that a CPU can afford."""
    photos, _ = forge_data.photos(data)
    return [[Cached(Bm25(held.ids, held.texts))] for held in (train, photos)]


def _rewards_of(out: Path, seed: int, train: Documents) -> Callable[[], Sequence[Sequence[Retriever]]]:
    """Return LENS over the abstracts as a reward; captions have none."""
    return lambda: [[Cached(dense(_lens_of(out, seed), train, out))], []]


def _lens_of(out: Path, seed: int) -> str:
    return f"st:{out / f'lens-{seed}/st'}"


def _lens(out: Path, seed: int, train: Documents) -> None:
    """Fine-tune MiniLM on a supervised FORGE's rewrites of the training claims' chats."""
    if (out / f"lens-{seed}/st").exists():
        return
    sent = styled(train.queries, styles("train"), seed=21 + seed)
    texts = _rewritten(out / f"sft-{seed}.onnx", [joined(chat.text, [chat.screen]) for chat in sent])
    asked = [(chat.id, chat.id, text) for chat, text in zip(sent, texts, strict=True)]
    made = lens_set(out / f"rewrites-{seed}", train, asked)
    make_lens(made, out / f"lens-{seed}", recipe=replace(LENS, seed=seed), report=say)


def lens_set(folder: Path, train: Documents, asked: Sequence[tuple[str, str, str]]) -> Path:
    """Write queries in BEIR's layout: of each its name, the claim whose documents are right, and the text."""
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    _lines(folder / "corpus.jsonl", zip(train.ids, train.texts, strict=True))
    _lines(folder / "queries.jsonl", [(name, text) for name, _, text in asked])
    right = [(name, found, rel) for name, claim, _ in asked for found, rel in train.qrels.get(claim, {}).items()]
    judged = "".join(f"{name}\t{found}\t{rel}\n" for name, found, rel in right)
    (folder / "qrels/train.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}")
    return folder


def _lines(path: Path, rows: Iterable[tuple[str, str]]) -> None:
    path.write_text("".join(json.dumps({"_id": name, "text": text}) + "\n" for name, text in rows))


def _lazy(make: Callable[[], Sequence[Example]]) -> Callable[[], Sequence[Example]]:
    """Make something when it is first needed, and keep it."""
    kept: list[Sequence[Example]] = []

    def get() -> Sequence[Example]:
        if not kept:
            kept.append(make())
        return kept[0]

    return get


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    options = arguments(
        __doc__, {"out": "folder for models and vectors"}, {"lens": "train LENS, and measure MiniLM and LENS instead"}
    )
    if options.out is None:
        raise SystemExit("needs a folder for models: --out DIR")
    made = main(options.data, Path(options.out), options.lens)
    raise SystemExit(compared("ladder_lens" if options.lens else "ladder", made, options.write))
