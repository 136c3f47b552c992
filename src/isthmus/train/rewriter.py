"""``isthmus train forge``: read queries and documents, warm up a language model, train it, and save it.

OUT/made.json   the settings of the run; a run with others is rejected
OUT/warm/       the model after the supervised warm-up, if there was one
OUT/log.jsonl   a line per step; OUT/curve.png plots it, OUT/checkpoint.pt resumes a run
OUT/model/      the rewriter: a model of transformers, its tokenizer, its prompt.txt and its limits.json
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from isthmus import encoders
from isthmus._optional import need
from isthmus.align import prompts
from isthmus.align.base import Retriever, Rewritten, joined
from isthmus.align.limits import Limits
from isthmus.align.retrievers import Bm25, Dense
from isthmus.atomic import replacing_folder
from isthmus.documents import Document
from isthmus.encoders.torch_models import from_hub, no_remote_code
from isthmus.errors import BadInput, UnknownName
from isthmus.evaluate.benchmarks import Benchmark, beir, files
from isthmus.registry import suggestion
from isthmus.train import checkpoint, forge, judged, warmup
from isthmus.train.forge import ForgeLesson, ForgePolicy, ForgeRecipe
from isthmus.train.reward import Retrieval

MADE = "made.json"
WARM = ForgeRecipe(steps=200, rate=1e-4)
NOISES = 8  # chats per clean query
SMOOTH = 10  # steps averaged in the plotted curve


@dataclass(frozen=True, slots=True)
class Trained:
    """A policy as a rewriter: the likeliest rewrite of each query, in batches."""

    policy: ForgePolicy
    name: str = "forge"
    batch: int = 128

    def rewrite(self, texts: Sequence[str]) -> list[Rewritten]:
        """Return each query rewritten, or unchanged with the reason."""
        made: list[Rewritten] = []
        for start in range(0, len(texts), self.batch):
            some = texts[start : start + self.batch]
            made += forge.usable(self.policy, some, forge.sample(self.policy, some, 0.0, None))
        return made


def load(
    name: str | Path,
    *,
    device: str = "cpu",
    lora: int | None = None,
    prompt: str | None = None,
    longest: int = 384,
    limits: Limits | None = None,
) -> ForgePolicy:
    """Load a causal language model by name or path; ``lora`` trains adapters of that rank instead of all weights.

    ``longest`` is the maximum number of tokens of a query, ``limits`` are those of a rewrite.

    The prompt is ``prompt``, otherwise the model's ``prompt.txt``, otherwise that of ``forge:MODEL``; the limits
    likewise, with ``limits.json``.
    """
    hub = need("transformers", extra="train")
    kind = hub.AutoModelForCausalLM
    model = from_hub(str(name), lambda name, **how: no_remote_code(kind)(name, **how).float().to(device))
    words = from_hub(str(name), no_remote_code(hub.AutoTokenizer))
    limits = limits or Limits.read(Path(name)) or Limits()
    file, ours = Path(name) / "prompt.txt", prompts.read("forge", words=limits.words).text
    instructions = prompt or (file.read_text("utf-8") if file.exists() else ours)
    if lora is None:
        return ForgePolicy(model, words, instructions, longest, limits)
    peft = need("peft", extra="lora")
    config = peft.LoraConfig(r=lora, lora_alpha=2 * lora, target_modules="all-linear", task_type="CAUSAL_LM")
    return ForgePolicy(peft.get_peft_model(model, config), words, instructions, longest, limits, adapted=True)


def write(policy: ForgePolicy, folder: Path) -> None:
    """Save the model with merged adapters; it replaces an existing one."""
    model = copy.deepcopy(policy.model).merge_and_unload() if policy.adapted else policy.model
    with replacing_folder(folder) as draft:
        model.save_pretrained(draft)
        policy.words.save_pretrained(draft)
        (draft / "prompt.txt").write_text(policy.prompt, "utf-8")
        policy.limits.write(draft)


def retriever(name: str, documents: Sequence[Document], device: str = "cpu") -> Retriever:
    """Return the retriever of a name: ``bm25``, or ``dense:ENCODER`` by cosine.

    >>> retriever("bm52", [])
    Traceback (most recent call last):
    isthmus.errors.UnknownName: No retriever is called 'bm52'. Did you mean 'bm25'?
    """
    kind, _, encoder = name.partition(":")
    ids = [document.id for document in documents]
    if name == "bm25":
        return Bm25(ids, [document.text or "" for document in documents])
    if kind == "dense" and encoder:
        return Dense(encoders.load(encoder, device=device), ids, documents)
    raise UnknownName(f"No retriever is called {name!r}. {suggestion(name, ['bm25', 'dense:mini'])}")


def lessons(data: Path, benchmark: Benchmark) -> list[ForgeLesson]:
    """Return the queries of a benchmark, each with its ``rewrite`` in queries.jsonl, if any."""
    rows = files.rows(data / "queries.jsonl", "_id", "text")
    wanted = {str(row["_id"]): str(row["rewrite"]) for row in rows if row.get("rewrite")}
    return [ForgeLesson(each.id, each.query.text or "", wanted.get(each.id)) for each in benchmark.questions]


def chatty(clean: Sequence[ForgeLesson], *, seed: int = 0, noises: int = NOISES) -> list[ForgeLesson]:
    """Return chats made from clean queries, with the query as the target; every second in another style."""
    from isthmus.evaluate.chat import chats, styled, styles

    claims = {lesson.id: lesson.query for lesson in clean}
    made = (
        chat
        for noise in range(noises)
        for chat in (
            styled(claims, styles("train"), seed=seed + noise)
            if noise % 2
            else chats(claims, split="train", seed=seed + noise)
        )
    )
    return [ForgeLesson(chat.id, joined(chat.text, [chat.screen]), chat.claim) for chat in made]


def make_forge(  # noqa: PLR0913 - the options of the command
    data: Path,
    out: Path,
    *,
    policy: Callable[[Path | None], ForgePolicy],
    finds: str = "bm25",
    recipe: ForgeRecipe,
    warm: ForgeRecipe | None = None,
    chats: bool = False,
    epochs: float | None = None,
    negatives: int = 0,
    made: Mapping[str, Any] | None = None,
    minutes: float | None = None,
    report: Callable[[str], object] = str,
) -> None:
    """Train on the train split of a folder in BEIR's layout. ``policy`` loads the model, or the warmed-up one.

    ``epochs`` replaces the recipe's steps. With ``negatives`` a rewrite is rewarded for the rank of the right documents
    among that many hard negatives of its query, from BM25 and from the retriever, instead of among all documents.
    ``made`` holds other settings of the run, such as the model: a folder with different ones is rejected.
    """
    benchmark = beir.load(data, ["train"])
    learned = lessons(data, benchmark)
    learned = chatty(learned, seed=recipe.seed) if chats else learned
    if warm and not any(lesson.target for lesson in learned):
        raise BadInput(
            "A warm-up needs targets: a 'rewrite' in queries.jsonl, or chats made from clean queries (--chats)."
        )
    if epochs is not None:
        recipe = replace(recipe, steps=max(1, math.ceil(epochs * len(learned) / recipe.queries)))
    found = retriever(finds, benchmark.documents)
    worth = Retrieval(found, benchmark.qrels, among=_hard(data, found, negatives) if negatives else {})
    whole = {**(made or {}), "retriever": finds, "lessons": _digest(learned), "warm": warm and asdict(warm)}
    whole |= {"negatives": negatives} if negatives else {}
    _same_run(out, whole)
    if warm and not (out / "warm").exists():
        learner = policy(None)
        _remember(out, whole)
        taught = [lesson for lesson in learned if lesson.target]
        warmup.warm_up(warm, learner, taught, lambda row: report(_line("warm-up", row, warm)))
        write(learner, out / "warm")
    learner = policy(out / "warm" if warm else None)
    _remember(out, whole)
    forge.train(
        recipe, learner, learned, worth, out, minutes=minutes, progress=lambda row: report(_line("step", row, recipe))
    )
    write(learner, out / "model")
    draw(out)


def _hard(data: Path, found: Retriever, count: int) -> dict[str, frozenset[str]]:
    """Return hard negatives of each query: wrong documents that BM25 and the retriever find first, in turn."""
    known = judged.read(data)
    mined = judged.mined(known, [Bm25(list(known.documents), list(known.documents.values())), found], count)
    return {query: frozenset(several[:count]) for query, several in mined.items()}


def _same_run(out: Path, made: Mapping[str, Any]) -> None:
    """Reject a folder with another run."""
    path = out / MADE
    before = json.loads(path.read_text("utf-8")) if path.exists() else made
    if changed := [name for name, value in made.items() if before.get(name) != value]:
        raise BadInput(
            f"{out} has a run with another {' and '.join(changed)}. Continue with those settings, or choose another "
            "folder."
        )


def _remember(out: Path, made: Mapping[str, Any]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    (out / MADE).write_text(json.dumps(made, indent=2), "utf-8")


def _digest(learned: Sequence[ForgeLesson]) -> str:
    text = json.dumps([(lesson.id, lesson.query, lesson.target) for lesson in learned])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def draw(out: Path) -> None:
    """Plot the rewards of ``log.jsonl``, and the measurements in ``held_out.jsonl``, as ``curve.png``."""
    try:
        need("matplotlib", extra="plot").use("Agg")
    except ImportError:
        return
    import matplotlib.pyplot as plt

    log = [json.loads(line) for line in (out / checkpoint.LOG).read_text().splitlines()]
    steps, rewards, best = ([row[name] for row in log] for name in ("step", "reward", "best"))
    figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
    axes.plot(steps, _smooth(best), color="#b8c4ce", label="best of each group")
    axes.plot(steps, _smooth(rewards), color="#2a6f97", label="mean of each group")
    if (out / "held_out.jsonl").exists():
        rows = (json.loads(line) for line in (out / "held_out.jsonl").read_text().splitlines())
        held = {row["step"]: row["value"] for row in rows}  # after an interruption a step may occur twice
        axes.plot(list(held), list(held.values()), "o-", ms=3, color="#e07a5f", label="held-out queries, greedy")
    axes.set(xlabel="step", ylabel="reward")
    axes.legend(frameon=False)
    figure.savefig(out / "curve.png", dpi=110)
    plt.close(figure)


def _smooth(values: Sequence[float]) -> list[float]:
    windows = [values[max(0, place - SMOOTH + 1) : place + 1] for place in range(len(values))]
    return [sum(window) / len(window) for window in windows]


def _line(stage: str, row: dict[str, Any], recipe: ForgeRecipe) -> str:
    said = ", ".join(f"{name} {row[name]:.3f}" for name in ("reward", "best", "loss") if name in row)
    return f"{stage} {row['step']} of {recipe.steps}: {said}"
