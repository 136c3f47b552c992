"""Sets of noisy queries: what was sent, the clean query, and the documents that are right for it.

scifact     300 test claims over 1,000 abstracts: all that are right for a claim, and the first of the others
docvqa      300 questions over the texts of DocVQA's pages
medquad     300 questions about health over 1,500 answers (git clone https://github.com/abachaa/MedQuAD DIR/medquad)
liveqa      messages that people sent to the National Library of Medicine, with its summaries, over the reference
            answers and the answers above (git clone https://github.com/abachaa/LiveQA_MedicalTask_TREC2017 DIR/liveqa)
"""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from isthmus.align import joined
from isthmus.evaluate.benchmarks import beir
from isthmus.evaluate.chat import Chat, Group, chats, styled, styles

ABSTRACTS, ANSWERS, QUESTIONS = 1000, 1500, 300
WORDS = 250  # of a page
ANSWER_WORDS = 150
SOURCES = ("1_CancerGov_QA", "5_NIDDK_QA", "6_NINDS_QA", "7_SeniorHealth_QA", "8_NHLBI_QA_XML", "9_CDC_QA")
LIVEQA = "TestDataset/TREC-2017-LiveQA-Medical-Test-Questions-w-summaries.xml"


@dataclass(frozen=True, slots=True, eq=False)
class Documents:
    """What is searched, and clean queries with their right documents."""

    ids: list[str]
    texts: list[str]
    queries: Mapping[str, str]
    qrels: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True, eq=False)
class ChatSet:
    """Queries as they were sent: the words alone, the words with the text of the screenshot, the clean query."""

    name: str
    documents: Documents
    sent: Sequence[Chat]

    @property
    def ways(self) -> dict[str, list[str]]:
        """The texts of each way to search, before any rewriting."""
        return {
            "text only": [chat.text for chat in self.sent],
            "+ caption": [joined(chat.text, [chat.screen]) for chat in self.sent],
            "the clean query": [chat.claim for chat in self.sent],
        }


def scifact(data: Path, split: str = "test") -> Documents:
    """Read claims; the corpus is the same for both splits."""
    read = {each: beir.load(data, ["scifact", each]) for each in ("train", "test")}
    right = {
        name for each in read.values() for judged in each.qrels.values() for name, rel in judged.items() if rel > 0
    }
    others = [each for each in read["test"].documents if each.id not in right][: max(0, ABSTRACTS - len(right))]
    kept = right | {each.id for each in others}
    held = [each for each in read["test"].documents if each.id in kept]
    asked = {each.id: each.query.text or "" for each in read[split].questions}
    return Documents([each.id for each in held], [each.text or "" for each in held], asked, read[split].qrels)


def docvqa(data: Path) -> Documents:
    """Read pages with text, and questions about them."""
    pages = {
        name: text for name, text in json.loads((data / "docvqa/page_text.json").read_text()).items() if text.strip()
    }
    rows = json.loads((data / "docvqa/val_v1.0.json").read_text())["data"]
    known = [(str(row["questionId"]), row["question"], Path(row["image"]).stem) for row in rows]
    known = [each for each in known if each[2] in pages]
    some = [known[at] for at in np.random.default_rng(6).permutation(len(known))[:QUESTIONS]]
    texts = [" ".join(text.split()[:WORDS]) for text in pages.values()]
    return Documents(
        list(pages), texts, {name: text for name, text, _ in some}, {name: {page: 1} for name, _, page in some}
    )


def medquad(data: Path) -> Documents:
    """Read questions with their answers, no question twice."""
    found: dict[str, tuple[str, str]] = {}
    for path in sorted(path for source in SOURCES for path in (data / "medquad" / source).glob("*.xml")):
        for pair in ET.parse(path).getroot().iter("QAPair"):  # noqa: S314 - the published files
            asked, answer = pair.find("Question"), pair.find("Answer")
            if asked is not None and answer is not None and (answer.text or "").strip():
                text = re.sub(r"\s+\?", "?", (asked.text or "").strip()).replace(" (are)", "")
                found.setdefault(text, (str(len(found)), " ".join((answer.text or "").split()[:ANSWER_WORDS])))
    rows = [(name, text, answer) for text, (name, answer) in found.items()]
    rows = [rows[at] for at in sorted(np.random.default_rng(0).permutation(len(rows))[:ANSWERS])]
    some = [rows[at] for at in np.random.default_rng(1).permutation(len(rows))[:QUESTIONS]]
    queries = {name: text for name, text, _ in some}
    return Documents(
        [name for name, *_ in rows], [row[2] for row in rows], queries, {name: {name: 1} for name in queries}
    )


def liveqa(data: Path) -> ChatSet:
    """Read real messages; the clean query is the summary by the National Library of Medicine."""
    others = medquad(data)
    sent: list[Chat] = []
    qrels: dict[str, dict[str, int]] = {}
    answers: dict[str, str] = {}
    for each in ET.parse(data / "liveqa" / LIVEQA).getroot():  # noqa: S314 - the published file
        name = str(each.get("qid"))
        said = [(each.findtext(f"Original-Question/{part}") or "").strip() for part in ("SUBJECT", "MESSAGE")]
        right = [" ".join((one.text or "").split()[:ANSWER_WORDS]) for one in each.iter("ANSWER")]
        summary = " ".join((each.findtext("NLM-Summary") or "").split())
        if any(said) and summary and any(right):
            qrels[name] = {f"{name}#{row}": 1 for row, text in enumerate(right) if text}
            answers |= {f"{name}#{row}": text for row, text in enumerate(right) if text}
            sent.append(Chat(name, summary, "\n".join(part for part in said if part), ()))
    held = Documents([*answers, *others.ids], [*answers.values(), *others.texts], {}, qrels)
    return ChatSet("real messages, health", held, sent)


def written(name: str, documents: Documents, group: Group) -> ChatSet:
    """Write the queries of a set in the styles of a group."""
    return ChatSet(name, documents, styled(documents.queries, styles(group), seed=11))


def plain(name: str, documents: Documents) -> ChatSet:
    """Write the queries of a set as chats, in the style that training knows, with lines that it does not."""
    return ChatSet(name, documents, chats(documents.queries, split="test"))
