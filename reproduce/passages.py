"""HyDE and Query2Doc with a small language model, which writes a passage for each query to search with.

    python reproduce/passages.py --data DIR --model FOLDER [--device cuda] [--cache FOLDER]
                              (needs scifact/, a causal language model; extras align, train; an hour or two on a CPU)

The first 100 of SciFact's test claims over all 5,183 abstracts, once as chats with screenshots that the embedded
captioner reads, as in ``bridge.py``, and once as they are, as in both papers; all 300 would take three times as long.
Passages are written as ``hyde:hf:MODEL`` and ``query2doc:hf:MODEL`` write them (greedily, at most 512 tokens; past 300
words the query is not changed), but 16 at a time, and printed as they come. nDCG@10 with 95% intervals, and its gain
over the query itself, claim by claim, with its interval. *fell back* counts the queries that were not changed, *no new
word* the passages that only repeat words of the query. The numbers are of a CPU; a GPU rounds differently and writes a
few different passages. ``--cache`` is a folder for vectors.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tables import Row, arguments, compared

from isthmus import encoders
from isthmus.align import Retriever, caption, joined, prompts
from isthmus.align.prompts import Prompt
from isthmus.align.retrievers import Bm25, Dense
from isthmus.align.rewrite import METHODS, PASSAGE, Prompted
from isthmus.evaluate import interval, paired, values
from isthmus.evaluate.benchmarks import load
from isthmus.evaluate.chat import Chat, chats
from isthmus.train import forge, rewriter
from isthmus.train.forge import ForgePolicy
from isthmus.words import WORD

MEASURE = "nDCG@10"
CLAIMS = 100  # of 300
BATCH = 16  # passages written at a time
READ = 2048  # tokens of a question: all of it
OPTIONS = {
    "model": "a causal language model: name or folder",
    "device": "cpu or cuda",
    "cache": "a folder for vectors of documents",
}
WAYS = {"BM25": ("hyde", "query2doc", "query2doc-words"), "mini": ("hyde", "query2doc")}


@dataclass(frozen=True, slots=True)
class Written:
    """A language model whose passages are already written."""

    name: str
    passages: Mapping[str, str]
    together: int = 1

    def write(self, _: Prompt, text: str) -> str:
        """Return the passage of a query."""
        return self.passages[text]


@dataclass(frozen=True, slots=True)
class Searched:
    """The searched text of each query, and counts of the passages."""

    texts: Sequence[str]
    question: str  # the input of the passages
    method: str | None = None
    fell_back: str = ""
    no_new: str = ""


def written(policy: ForgePolicy, texts: Sequence[str]) -> dict[str, str]:
    """Return the passage that the model writes for each text, the likeliest token each time, and print it."""
    made: dict[str, str] = {}
    for start in range(0, len(texts), BATCH):
        some = texts[start : start + BATCH]
        drawn = forge.sample(policy, some, 0.0, None)
        for text, tokens, live in zip(some, drawn.tokens, drawn.live, strict=True):
            made[text] = policy.words.decode(tokens[live.bool()], skip_special_tokens=True).strip()
            print(f"{len(made)} of {len(texts)}: {' '.join(made[text].split())}", file=sys.stderr, flush=True)
    return made


def passed(method: str, question: Searched, passages: Mapping[str, str]) -> Searched:
    """Return the searched texts of a method, given the model's passages."""
    how, texts = METHODS[method], question.texts
    writer, prompt = Written("model", passages), prompts.read(how.prompt)
    made = Prompted(method=method, writer=writer, prompt=prompt, words=how.limits.words, put=how.put).rewrite(texts)
    kept = [text for text, new in zip(texts, made, strict=True) if new.fell_back is None]
    idle = [text for text in kept if set(_words(passages[text])) <= set(_words(text))]
    new = [each.text for each in made]
    return Searched(new, question.question, method, str(len(texts) - len(kept)), str(len(idle)))


def _words(text: str) -> list[str]:
    return WORD.findall(text.lower())


def versions(sent: Sequence[Chat], model: str, device: str) -> dict[str, Searched]:
    """Return the searched texts of each way of asking."""
    seen = caption.load("embedded").caption([chat.image for chat in sent])
    asked = {
        "+ caption": [joined(chat.text, [words]) for chat, words in zip(sent, seen, strict=True)],
        "the clean claim": [chat.claim for chat in sent],
    }
    policy = replace(rewriter.load(model, device=device), longest=READ, limits=PASSAGE)
    made: dict[str, Searched] = {}
    for way, texts in asked.items():
        made[way] = Searched(texts, way)
        for prompt in ("hyde", "query2doc"):
            print(f"{way}, {prompt}", file=sys.stderr)
            passages = written(replace(policy, prompt=prompts.read(prompt).text), texts)
            for method, how in METHODS.items():
                if how.prompt == prompt:
                    made[f"{way}, {method}"] = passed(method, made[way], passages)
    return made


def retrievers(ids: Sequence[str], texts: Sequence[str], cache: str | None) -> Iterator[tuple[str, Retriever]]:
    """Yield retrievers by words and by vectors."""
    yield "BM25", Bm25(ids, texts)
    yield "mini", Dense(encoders.load("mini", batch=64, cache=cache), ids, texts)


def main(data: Path, model: str, device: str, cache: str | None) -> list[Row]:
    """Return a row for each retriever and way of asking."""
    asked = load("beir:scifact", data)
    claims = {each.id: each.query.text or "" for each in asked.questions}
    sent = chats(claims, split="test")[:CLAIMS]
    qrels = {chat.id: asked.qrels[chat.id] for chat in sent}
    made = versions(sent, model, device)
    rows: list[Row] = []
    for name, retriever in retrievers(
        [each.id for each in asked.documents], [each.text or "" for each in asked.documents], cache
    ):
        ways = {way: each for way, each in made.items() if each.method in (None, *WAYS[name])}
        found: dict[str, dict[str, float]] = {}
        for way, each in ways.items():
            hits = retriever.search(each.texts, 10)
            found[way] = values(MEASURE, {chat.id: dict(some) for chat, some in zip(sent, hits, strict=True)}, qrels)
            rows.append({"retriever": name, "searched": way, **_numbers(each, found[way], found[each.question])})
    return rows


def _numbers(searched: Searched, found: Mapping[str, float], plain: Mapping[str, float]) -> Row:
    value, low, high = interval(found)
    gain: Row = {"gain": "", "from": "", "to": ""}
    if searched.method:
        change = paired(found, plain)
        gain = {"gain": change.difference, "from": change.low, "to": change.high}
    counts: Row = {"fell back": searched.fell_back, "no new word": searched.no_new}
    return {MEASURE: value, "low": low, "high": high, **gain, **counts}


if __name__ == "__main__":
    options = arguments(__doc__, OPTIONS)
    given = options.model or os.environ.get("ISTHMUS_MODEL")
    if not given:
        print("passages: skipped, it needs --model (or ISTHMUS_MODEL), a language model.")
        raise SystemExit(0)
    rows = main(options.data, given, options.device or "cpu", options.cache)
    raise SystemExit(compared("passages", rows, options.write))
