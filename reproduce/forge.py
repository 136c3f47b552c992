"""A small language model learns to rewrite chatty queries: warm-up only, reinforcement only, and both in turn.

    python reproduce/forge.py --data DIR --model DIR --device cuda       (needs scifact/ and a causal language model)

Claims of SciFact become messages with a screenshot (``isthmus.evaluate.chat``); its words are read without
errors. The model rewrites message and words, BM25 searches, nDCG@10 is the reward. Training sees the claims of the
train split, except 80 that are held out for the curve; the table is of the 300 test claims, whose chatter shares no
line with that of training. Each stage can be run separately (``--stage``), stops after ``--minutes``, and continues
when it is run again; results are in ``--out``. The numbers are of one run on a GPU: another run, or another GPU, is
within the intervals but not identical. A small model gets a short prompt, not that of ``forge:MODEL``.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from isthmus.align import joined
from isthmus.align.base import Rewritten
from isthmus.align.limits import Limits
from isthmus.evaluate import interval
from isthmus.evaluate.benchmarks import beir
from isthmus.evaluate.chat import chats
from isthmus.train import forge, rewriter, warmup
from isthmus.train.forge import ForgeLesson, ForgePolicy, ForgeRecipe
from isthmus.train.reward import Retrieval
from isthmus.train.rewriter import Trained

HELD_OUT = 80  # claims of the train split
SHOWN = 10  # test queries in samples.md
LIMITS = Limits(tokens=64)
PROMPT = "Rewrite the message as one short search query. Keep the words that matter and leave out the rest."
STAGES = ("before", "warm-up", "warm-up and reinforcement", "reinforcement")
EXPECTED = Path(__file__).parent / "expected" / "forge.csv"


class Set:
    """The chatty SciFact: training, held-out and test messages, and the reward of a rewrite."""

    def __init__(self, options: argparse.Namespace) -> None:
        train = beir.load(options.data / "scifact", ["train"])
        test = beir.load(options.data / "scifact", ["test"])
        asked = [(each.id, each.query.text or "") for each in train.questions]
        self.train = rewriter.chatty([ForgeLesson(*pair) for pair in asked[HELD_OUT:]], seed=1, noises=options.noises)
        self.held_out = _messages(dict(asked[:HELD_OUT]), "train", seed=1000)
        self.test = _messages({each.id: each.query.text or "" for each in test.questions[: options.limit]}, "test")
        found = rewriter.retriever(options.retriever, train.documents, options.device)
        self.worth = Retrieval(found, {**train.qrels, **test.qrels})


def _messages(claims: dict[str, str], split: str, seed: int = 0) -> list[ForgeLesson]:
    made = chats(claims, split="train" if split == "train" else "test", seed=seed)
    return [ForgeLesson(chat.id, joined(chat.text, [chat.screen]), chat.claim) for chat in made]


def main(options: argparse.Namespace) -> int:
    data = Set(options)
    options.out.mkdir(parents=True, exist_ok=True)
    wanted = {"all": STAGES, "none": ()}.get(options.stage, (options.stage,))
    for stage in wanted:
        _say(f"== {stage}")
        train_one(stage, options, data)
    summary(options.out, data)
    return compared(options.out / "results.csv", options.write)


def train_one(stage: str, options: argparse.Namespace, data: Set) -> None:
    """Train a stage, unless its result exists, and measure it on the test claims."""
    folder = options.out / stage.replace(" ", "-")
    warm = options.out / "warm-up"
    if stage == "before":
        folder.mkdir(exist_ok=True)
        return measured(rewriter.load(options.model, device=options.device, prompt=PROMPT, limits=LIMITS), data, folder)
    if stage == "warm-up":
        policy = rewriter.load(options.model, device=options.device, prompt=PROMPT, limits=LIMITS)
        recipe = ForgeRecipe(steps=options.warm_steps, queries=32, rate=options.warm_rate, rows=32, seed=options.seed)
        warmup.warm_up(recipe, policy, data.train, _every(20, "warm-up", recipe))
        rewriter.write(policy, folder)
        return measured(policy, data, folder)
    policy = rewriter.load(
        warm if stage.startswith("warm-up") else options.model, device=options.device, prompt=PROMPT, limits=LIMITS
    )
    recipe = ForgeRecipe(
        steps=options.steps,
        queries=options.queries,
        rate=options.rate,
        kl=options.kl,
        clip=options.clip,
        inner=options.inner,
        rows=options.rows,
        every=50,
        seed=options.seed,
    )
    folder.mkdir(exist_ok=True)
    forge.train(
        recipe, policy, data.train, data.worth, folder, minutes=options.minutes,
        progress=watched(policy, data, folder, _every(5, stage, recipe), options.watch),
    )  # fmt: skip
    rewriter.draw(folder)
    rewriter.write(policy, folder / "model")
    return measured(policy, data, folder)


def watched(
    policy: ForgePolicy, data: Set, folder: Path, say: Callable[[dict[str, float]], None], every: int
) -> Callable[[dict[str, float]], None]:
    """Measure the held-out claims during training, for the curve."""

    def watch(row: dict[str, float]) -> None:
        say(row)
        if row["step"] % every == 0 or row["step"] == 1:
            value = sum(_values(Trained(policy).rewrite(_queries(data.held_out)), data.held_out, data).values())
            with (folder / "held_out.jsonl").open("a") as file:
                file.write(json.dumps({"step": row["step"], "value": round(value / len(data.held_out), 4)}) + "\n")

    return watch


def measured(policy: ForgePolicy, data: Set, folder: Path) -> None:
    """Rewrite the test messages greedily, and store rewrites and values."""
    rewritten = Trained(policy).rewrite(_queries(data.test))
    values = _values(rewritten, data.test, data)
    rows = [
        {"id": lesson.id, "value": values[lesson.id], "text": text.text, "fell_back": text.fell_back}
        for lesson, text in zip(data.test, rewritten, strict=True)
    ]
    (folder / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    _say(f"{folder.name}: nDCG@10 {sum(values.values()) / len(values):.4f}")


def summary(out: Path, data: Set) -> None:
    """Write results.csv and samples.md of the stages measured so far."""
    rows = [_row("the message as it came", [Rewritten(lesson.query) for lesson in data.test], data)]
    kept: dict[str, dict[str, dict[str, str]]] = {}
    for stage in STAGES:
        path = out / stage.replace(" ", "-") / "test.jsonl"
        if path.exists():
            found = [json.loads(line) for line in path.read_text().splitlines()]
            kept[stage] = {row["id"]: row for row in found}
            rows.append(_row(stage, [Rewritten(row["text"], row["fell_back"]) for row in found], data))
    rows.append(_row("the clean claim", [Rewritten(str(lesson.target)) for lesson in data.test], data))
    with (out / "results.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print((out / "results.csv").read_text())
    (out / "samples.md").write_text("\n".join(_sample(lesson, kept) for lesson in data.test[:SHOWN]))


def compared(results: Path, write: bool) -> int:
    """Return 1 if a mean is outside its expected interval; ``write`` stores the results as the expected ones."""
    if write:
        EXPECTED.write_text(results.read_text())
        return 0
    with results.open() as ours, EXPECTED.open() as theirs:
        expected = {row["searched"]: row for row in csv.DictReader(theirs)}
        wrong = [
            f"{name}: nDCG@10 is {row['nDCG@10']}, expected {before['low']} to {before['high']}"
            for row in csv.DictReader(ours)
            if (before := expected.get(name := row["searched"]))
            and not float(before["low"]) <= float(row["nDCG@10"]) <= float(before["high"])
        ]
    print("\n".join(wrong) or "as expected")
    return 1 if wrong else 0


def _sample(lesson: ForgeLesson, kept: dict[str, dict[str, dict[str, str]]]) -> str:
    """Return a message, its clean claim, and the rewrite of each stage."""
    lines = [f"## {lesson.id}", "", *(f"> {line}" for line in lesson.query.splitlines()), ""]
    lines.append(f"- meant: {lesson.target}")
    for stage, rows in kept.items():
        row = rows[lesson.id]
        text = f"the message, because {row['fell_back']}" if row["fell_back"] else row["text"]
        lines.append(f"- {stage} ({float(row['value']):.2f}): {text}")
    return "\n".join(lines) + "\n"


def _row(name: str, texts: Sequence[Rewritten], data: Set) -> dict[str, str]:
    value, low, high = interval(_values(texts, data.test, data))
    words = sum(len(text.text.split()) for text in texts) / len(texts)
    fell_back = sum(text.fell_back is not None for text in texts)
    numbers = {"nDCG@10": f"{value:.3f}", "low": f"{low:.3f}", "high": f"{high:.3f}"}
    return {"searched": name, **numbers, "words": f"{words:.1f}", "fell back": str(fell_back)}


def _values(texts: Sequence[Rewritten], lessons: Sequence[ForgeLesson], data: Set) -> dict[str, float]:
    ids = [lesson.id for lesson in lessons]
    return dict(zip(ids, data.worth(ids, [text.text for text in texts]), strict=True))


def _queries(lessons: Sequence[ForgeLesson]) -> list[str]:
    return [lesson.query for lesson in lessons]


def _every(steps: int, stage: str, recipe: ForgeRecipe) -> Callable[[dict[str, float]], None]:
    began = time.monotonic()

    def say(row: dict[str, float]) -> None:
        if row["step"] % steps == 0 or row["step"] == 1:
            numbers = ", ".join(f"{name} {value:.3f}" for name, value in row.items() if name not in ("step", "seconds"))
            _say(f"{stage} {int(row['step'])}/{recipe.steps}: {numbers} ({time.monotonic() - began:.0f} s)")

    return say


def _say(line: str) -> None:
    print(line, flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--data", type=Path, default=os.environ.get("ISTHMUS_DATA"), help="holds scifact/")
    add("--model", default=os.environ.get("ISTHMUS_MODEL"), help="a causal language model: name or folder")
    add("--device", default="cuda")
    add("--out", type=Path, default=Path("out/forge"))
    add("--stage", default="all", choices=["all", "none", *STAGES])
    add("--retriever", default="bm25", help="bm25, or dense:ENCODER")
    add("--minutes", type=float, help="limit for each of the two runs of reinforcement")
    add("--steps", type=int, default=300)
    add("--queries", type=int, default=64, help="queries per step; each is rewritten 8 times")
    add("--rate", type=float, default=1e-5)
    add("--kl", type=float, default=0.0)
    add("--clip", type=float)
    add("--inner", type=int, default=1)
    add("--rows", type=int, default=128, help="rewrites in one backward pass")
    add("--warm-steps", type=int, default=200)
    add("--warm-rate", type=float, default=1e-4)
    add("--noises", type=int, default=8, help="chats made of each claim")
    add("--watch", type=int, default=20, help="steps between evaluations on the held-out claims")
    add("--limit", type=int, help="maximum number of test claims, for a trial run")
    add("--seed", type=int, default=0)
    add("--write", action="store_true", help="store the results as the expected ones")
    return parser.parse_args()


if __name__ == "__main__":
    given = arguments()
    if not (given.data and given.model):
        _say("forge: skipped, it needs --data (or ISTHMUS_DATA) and --model (or ISTHMUS_MODEL), a language model.")
        raise SystemExit(0)
    given.data = Path(given.data)
    raise SystemExit(main(given))
