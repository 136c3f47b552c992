"""BRIDGE's ladder with a language model as FORGE: supervised, reinforced, reinforced with LENS. For a GPU.

    python reproduce/ladder_lm.py --data DIR --model FOLDER --out DIR [--device cuda] [--only RUN] [--table]

FORGE is a small causal model (SmolLM2-135M-Instruct), supervised on the queries that forge-mini learns from
(``isthmus.train.forge_data``: several domains, many styles), then reinforced on those that search SciFact's abstracts,
with BM25 as the reward. LENS is MiniLM with the paper's settings but for its size, fine-tuned on supervised FORGE's
rewrites; three more FORGEs are reinforced with LENS as their reward. The sets are those of ``bridge.py``: claims of the
style and domain that training knows, unseen styles, unseen domains, real messages. nDCG@10 is the mean over three
seeds. Each run (``sft-0`` … ``rl-lens-2``, ``lens``) is kept in ``--out`` and can be made alone, with ``--only``, so
that several share a GPU. ``--table`` measures the runs that exist.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from bridge import sets
from chat_sets import ChatSet, Documents, scifact
from ladder import SEEDS, dense, lens_set, row_of, say, values_of
from tables import Row, arguments, compared

from isthmus import encoders
from isthmus.align import Retriever, joined, mini
from isthmus.align.limits import Limits
from isthmus.align.retrievers import Bm25, Cached, Dense
from isthmus.atomic import replacing
from isthmus.evaluate.chat import styled, styles
from isthmus.train import bridge_settings, forge, forge_data, rewriter, warmup
from isthmus.train.forge import ForgeLesson, ForgePolicy, ForgeRecipe
from isthmus.train.make import make_lens
from isthmus.train.pace import TrainingPace
from isthmus.train.reward import Retrieval
from isthmus.train.towers import minilm

PROMPT = "Rewrite the message as one short search query. Keep the words that matter and leave out the rest."
SUPERVISED = ForgeRecipe(steps=400, queries=64, rate=1e-4, rows=32)
REINFORCED = ForgeRecipe(steps=60, queries=64, rate=1e-5, rows=32, every=5)
TURNS = 6  # chats of each claim that LENS learns from
LIMITS = Limits(tokens=64)  # of a rewrite
FORGES = {"supervised": "sft", "reinforced": "rl", "reinforced with LENS": "rl-lens"}


@dataclass(frozen=True)
class Ladder:
    """The data, the starting model, and the folder of all runs."""

    data: Path
    model: str
    out: Path
    device: str
    scale: float  # of the numbers of steps, for a trial

    @cached_property
    def train(self) -> Documents:
        """The training claims over the corpus of the test."""
        return scifact(self.data, "train")

    @cached_property
    def queries(self) -> list[forge_data.ForgeQuery]:
        """What forge-mini learns from."""
        return forge_data.training(self.data)[1]

    def load(self, name: str) -> ForgePolicy:
        """Load a language model."""
        return rewriter.load(name, device=self.device, prompt=PROMPT, limits=LIMITS)

    def scaled(self, recipe: ForgeRecipe, seed: int) -> ForgeRecipe:
        """Return a recipe with a seed."""
        return replace(recipe, seed=seed, steps=max(1, round(recipe.steps * self.scale)))


def made(ladder: Ladder, run: str) -> None:
    """Make a run, unless its result exists."""
    if (ladder.out / f"{run}.json").exists():
        return
    say(f"== {run}")
    rewritten: dict[str, list[str]] = {}
    if run == "lens":
        fine_tuned(ladder)
    else:
        policy = supervised(ladder, int(run[-1])) if run.startswith("sft") else reinforced(ladder, run)
        rewritten = {each.name: _texts(policy, each.ways["+ caption"]) for each in sets(ladder.data)}
        rewriter.write(policy, ladder.out / run)
    with replacing(ladder.out / f"{run}.json") as draft:
        draft.write_text(json.dumps(rewritten, indent=0), "utf-8")


def supervised(ladder: Ladder, seed: int) -> ForgePolicy:
    """Train towards the clean queries."""
    policy, recipe = ladder.load(ladder.model), ladder.scaled(SUPERVISED, seed)
    lessons = [ForgeLesson(str(row), each.text, each.claim) for row, each in enumerate(ladder.queries)]
    warmup.warm_up(recipe, policy, lessons, _every(20, f"sft-{seed}", recipe.steps))
    return policy


def reinforced(ladder: Ladder, run: str) -> ForgePolicy:
    """Reinforce a supervised model, with BM25 or LENS as the reward."""
    seed, train = int(run[-1]), ladder.train
    held = frozenset(train.ids)
    judged = [(str(row), each, each.right & held) for row, each in enumerate(ladder.queries) if each.corpus == 0]
    lessons = [ForgeLesson(row, each.text, each.claim) for row, each, right in judged if right]
    qrels = {row: dict.fromkeys(right, 1) for row, _, right in judged if right}
    finds: Retriever = Bm25(train.ids, train.texts)
    if "lens" in run:
        finds = Dense(encoders.load(f"st:{ladder.out / 'lens/st'}", device=ladder.device), train.ids, train.texts)
    policy, recipe = ladder.load(str(ladder.out / f"sft-{seed}")), ladder.scaled(REINFORCED, seed)
    log = ladder.out / f"{run}-log"
    forge.train(recipe, policy, lessons, Retrieval(Cached(finds), qrels), log, progress=_every(5, run, recipe.steps))
    return policy


def fine_tuned(ladder: Ladder) -> None:
    """Train LENS on supervised FORGE's rewrites of the training claims' chats."""
    train, policy = ladder.train, ladder.load(str(ladder.out / "sft-0"))
    turns = [styled(train.queries, styles("train"), seed=21 + turn) for turn in range(TURNS)]
    chats = [(f"{chat.id}-{turn}", chat) for turn, several in enumerate(turns) for chat in several]
    texts = _texts(policy, [joined(chat.text, [chat.screen]) for _, chat in chats])
    asked = [(name, chat.id, text) for (name, chat), text in zip(chats, texts, strict=True)]
    folder = lens_set(ladder.out / "lens-data", train, asked)
    recipe = replace(bridge_settings.LENS, apart=True)
    make_lens(folder, ladder.out / "lens", recipe=recipe, device=ladder.device, report=say)


def rows_of(chosen: ChatSet, ladder: Ladder) -> Iterator[Row]:
    """Yield the ladder of a set, for each retriever."""
    ways = chosen.ways
    runs: dict[str, list[list[str]]] = {way: [texts] for way, texts in ways.items() if way != "the clean query"}
    if not any(chat.screen for chat in chosen.sent):
        del runs["text only"]  # there are no pictures: it is the same as with captions
    runs["+ forge-mini"] = [[each.text for each in mini.load().rewrite(ways["+ caption"])]]
    for way, name in FORGES.items():
        files = [ladder.out / f"{name}-{seed}.json" for seed in range(SEEDS)]
        if all(file.exists() for file in files):
            runs[f"+ FORGE, {way}"] = [json.loads(file.read_text("utf-8"))[chosen.name] for file in files]
    runs["the clean query"] = [ways["the clean query"]]
    for name, retriever in retrievers(chosen.documents, ladder.out):
        say(f"{chosen.name}, {name}")
        found = {way: [values_of(retriever, chosen, texts) for texts in several] for way, several in runs.items()}
        yield from (row_of(chosen.name, name, way, several) for way, several in found.items())
        for way in (way for way in ("reinforced", "reinforced with LENS") if f"+ FORGE, {way}" in found):
            pairs = zip(found[f"+ FORGE, {way}"], found["+ FORGE, supervised"], strict=True)
            less = [{query: a[query] - b[query] for query in a} for a, b in pairs]
            yield row_of(chosen.name, name, f"{way} − supervised", less)


def retrievers(held: Documents, out: Path) -> Iterator[tuple[str, Retriever]]:
    """Yield BM25, and encoders by cosine."""
    yield "BM25", Bm25(held.ids, held.texts)
    several = {"mini": "mini", "MiniLM": f"st:{minilm()}", "LENS": f"st:{out / 'lens/st'}"}
    for name, encoder in several.items():
        if name != "LENS" or (out / "lens.json").exists():
            yield name, dense(encoder, held, out)


def _texts(policy: ForgePolicy, messages: Sequence[str]) -> list[str]:
    return [each.text for each in rewriter.Trained(policy).rewrite(messages)]


def _every(every: int, run: str, steps: int) -> Callable[[Mapping[str, float]], None]:
    pace = TrainingPace(run, say)

    def progress(row: Mapping[str, float]) -> None:
        if row["step"] % every == 0:
            pace(int(row["step"]), steps)
            say(f"{run}: " + ", ".join(f"{name} {value:.3f}" for name, value in row.items()))

    return progress


if __name__ == "__main__":
    options = arguments(
        __doc__,
        {
            "model": "a causal language model of transformers: its folder",
            "out": "folder for all runs",
            "device": "default: cuda",
            "only": "make this run alone",
            "scale": "of the numbers of steps, for a trial; default: 1",
        },
        {"table": "make no run: measure those that exist, where all seeds of a kind do"},
    )
    if not (options.model and options.out):
        say("ladder_lm: skipped, it needs --model, a language model, and --out, a folder for the runs.")
        raise SystemExit(0)
    chosen = Ladder(options.data, options.model, Path(options.out), options.device or "cuda", float(options.scale or 1))
    chosen.out.mkdir(parents=True, exist_ok=True)
    several = ["sft", "lens", "rl", "rl-lens"]
    names = [run for each in several for run in ([each] if each == "lens" else [f"{each}-{n}" for n in range(SEEDS)])]
    for name in [options.only] if options.only else [] if options.table else names:
        made(chosen, name)
    if options.only:
        raise SystemExit(0)
    found = [row for each in sets(chosen.data) for row in rows_of(each, chosen)]
    raise SystemExit(compared("ladder_lm", found, options.write))
