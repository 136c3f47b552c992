"""An aligner: a captioner and a rewriter, one after the other.

A picture with a caption is removed from the query: only words are searched. A picture without a caption stays, and is
searched as a picture. With ``keep_images`` (``+image``) all pictures stay: the rewrite replaces the words alone, for
encoders that read both, as when BRIDGE puts FORGE before Nomic-Vision (its Table 3).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from threading import Lock
from time import perf_counter

from isthmus.align import caption, rewrite
from isthmus.align.base import Aligned, Aligner, Captioner, Counts, Rewriter, Rewritten, joined
from isthmus.align.cache import CaptionCache
from isthmus.documents import Query, with_text
from isthmus.encoders import Encoder
from isthmus.errors import BadInput
from isthmus.kinds import IMAGE
from isthmus.registry import lookup

AUTO = "auto"
CAPTION = "caption"
KEEP = "+image"  # at the end of a name
LOG = logging.getLogger("isthmus.align")  # the first query that a rewriter fails on
NAMES = (AUTO, CAPTION, *rewrite.NAMES)
STAGE = re.compile(rf"\+(?=(?:{'|'.join(NAMES)})(?::|\+|\Z))")  # a URL may contain a plus sign

LONG = 40  # minimum number of words of a chatty query
TALK = re.compile(
    r"\b(?:hi|hello|hey|dear|thanks|thank you|please|sorry|cheers|regards|in advance|appreciated?"
    r"|i|i['’]m|i['’]ve|my|me|any (?:help|ideas?|advice|suggestions?|thoughts)"
    r"|(?:has|does|can|could) any(?:one|body))\b",
    re.IGNORECASE,
)
TALKS = 3  # phrases that mark chatter


@dataclass(frozen=True, slots=True)
class Read:
    """A query and the captions of its pictures; a caption may be empty."""

    query: Query
    captions: tuple[str, ...] = ()

    @property
    def caption(self) -> str | None:
        """The captions of all pictures."""
        return "\n\n".join(text for text in self.captions if text.strip()) or None

    @property
    def text(self) -> str:
        """The question followed by the captions."""
        return joined(self.query.text, self.captions)

    def searched(self, text: str, *, keep: bool = False) -> Query:
        """Return the query that is searched: these words, and the pictures without a caption; all, if they are kept."""
        if self.caption is None or keep:
            return replace(self.query, parts=with_text(self.query.parts, text))
        captions = iter(self.captions)
        told = [part.kind == IMAGE and bool(next(captions).strip()) for part in self.query.parts]
        kept = [part for part, is_told in zip(self.query.parts, told, strict=True) if not is_told]
        return Query(parts=with_text(kept, text))


def whenever(_: Read) -> str | None:
    """Align every query."""
    return None


def needed(read: Read) -> str | None:
    """Return why a query is not aligned; None if it has a picture of text, or long and chatty words."""
    if read.caption is not None or chatty(read.query.text or ""):
        return None
    return "its words are concise" + (", and its picture has little text" if read.query.images else "")


@dataclass(slots=True, eq=False)
class Stages:
    """A captioner and a rewriter; without a captioner, pictures stay pictures.

    ``unless`` returns why a query is not aligned; with ``keep_images`` pictures with captions stay in the query;
    ``counts`` are the numbers of queries rewritten and fallen back.
    """

    captioner: Captioner | None
    rewriter: Rewriter
    unless: Callable[[Read], str | None] = whenever
    keep_images: bool = False
    counts: Counts = field(default_factory=Counts)
    _lock: Lock = field(default_factory=Lock, repr=False)

    @property
    def name(self) -> str:
        """The captioner and the rewriter, and whether pictures stay."""
        stages = "+".join(part.name for part in (self.captioner, self.rewriter) if part is not None)
        return stages + KEEP if self.keep_images else stages

    @property
    def _rewrites(self) -> bool:
        return not isinstance(self.rewriter, rewrite.Unchanged)

    def align(self, queries: Sequence[Query]) -> list[Aligned]:
        """Align a batch of queries; the time of a stage is divided evenly among them."""
        began = perf_counter()
        several = self._read(queries)
        each = (perf_counter() - began) / max(1, sum(len(read.captions) for read in several))
        why = [self._why_not(read) for read in several]
        began = perf_counter()
        rewritten = self._rewritten([read.text for read, left in zip(several, why, strict=True) if left is None])
        share = (perf_counter() - began) / max(1, len(rewritten))
        coming = iter(rewritten)
        found: list[Aligned] = []
        for read, left in zip(several, why, strict=True):
            seconds = {"caption": each * len(read.captions)} if read.captions else {}
            if left is not None:
                found.append(Aligned(read.query, read.caption, untouched=left, seconds=seconds))
                continue
            new = next(coming)
            counts = None
            if self._rewrites:
                seconds["rewrite"], counts = share, self.counts
            searched = read.searched(new.text, keep=self.keep_images)
            found.append(Aligned(searched, read.caption, new.fell_back, None, seconds, counts))
        return found

    def _read(self, queries: Sequence[Query]) -> list[Read]:
        if self.captioner is None:
            return [Read(query) for query in queries]
        images = [() if query.vectors else query.images for query in queries]
        flat = [one for some in images for one in some]
        said = self.captioner.caption(flat) if flat else []
        if len(said) != len(flat):
            raise BadInput(
                f"The captioner {self.captioner.name} returned {len(said)} captions for {len(flat)} pictures."
            )
        captions = iter(said)
        return [Read(query, tuple(next(captions) for _ in some)) for query, some in zip(queries, images, strict=True)]

    def _why_not(self, read: Read) -> str | None:
        if read.query.vectors:
            return "it has its own vectors"
        if not read.text:
            return "its picture has no caption"
        if not self._rewrites and read.caption is None:
            return "its picture has no caption" if read.captions else "it has no picture"
        return self.unless(read)

    def _rewritten(self, texts: Sequence[str]) -> list[Rewritten]:
        if not texts:
            return []
        new = [
            one if one.text.strip() else Rewritten(text, one.fell_back or "nothing was written")
            for text, one in zip(texts, self.rewriter.rewrite(texts), strict=True)
        ]
        if self._rewrites:
            with self._lock:
                first = not self.counts.fell_back
                self.counts = self.counts.plus(new)
            failed = next((one.fell_back for one in new if one.fell_back), None)
            if failed and first:
                LOG.warning("%s: a query was not rewritten and is searched as it is: %s", self.rewriter.name, failed)
        return new


@dataclass(slots=True, eq=False)
class Late:
    """A rewriter that is loaded on first use."""

    name: str
    make: Callable[[], Rewriter]
    _made: Rewriter | None = None

    def rewrite(self, texts: Sequence[str]) -> list[Rewritten]:
        """Rewrite as the rewriter does."""
        if self._made is None:
            self._made = self.make()
        return self._made.rewrite(texts)


def chatty(text: str) -> bool:
    """Whether words are many and contain chatter.

    >>> chatty("how do I remove red wine stains")
    False
    >>> chatty("Hi all, I bought my first sourdough book last month and " + "really enjoy it so far " * 8 + "thanks!")
    True
    """
    return len(text.split()) >= LONG and len(TALK.findall(text)) >= TALKS


def load(
    align: str | Aligner,
    *,
    encoder: Encoder | None = None,
    caption_prompt: str | PathLike[str] | None = None,
    rewrite_prompt: str | PathLike[str] | None = None,
    rewrite_tokens: int | None = None,
    rewrite_words: int | None = None,
    cache: str | PathLike[str] | CaptionCache | None = None,
    device: str = "cpu",
    threads: int | None = None,
) -> Aligner:
    """Load an aligner by name; an aligner is returned unchanged.

    ``caption`` turns pictures into words; ``forge-mini``, ``forge:MODEL``, ``hyde:MODEL`` and ``query2doc:MODEL``
    rewrite as well; ``auto`` is ``forge-mini`` for queries that need it; ``none`` does nothing. Write another captioner
    before a plus sign: ``caption:hf:NAME+forge-mini``. With ``+image`` at the end, pictures stay beside their words.
    ``rewrite_tokens`` and ``rewrite_words`` limit what a language model writes; the defaults are those that it was
    trained with, otherwise those of the method.

    >>> load("captoin")
    Traceback (most recent call last):
    isthmus.errors.UnknownName: No aligner is called 'captoin'. Did you mean 'caption'?
    """
    if not isinstance(align, str):
        if isinstance(align, Aligner):
            return align
        raise BadInput(
            f"An aligner has a name and align(queries); {type(align).__name__} does not. Pass an aligner or a name."
        )
    keep = align.endswith(KEEP)
    pictures, words = _stages(align.removesuffix(KEEP))
    if words == "none" and pictures is None:
        return Stages(None, rewrite.Unchanged())
    if words == AUTO:
        from isthmus.align.embedded import Pages
        from isthmus.align.ocr import TextReader

        kept = cache if isinstance(cache, CaptionCache) else CaptionCache(cache)
        reader = caption.Remembered(Pages(TextReader(threads)), kept)
        return Stages(reader, Late(rewrite.MINI, lambda: rewrite.load(rewrite.MINI)), needed, keep)
    captioner = caption.load(
        pictures or "embedded", encoder=encoder, prompt=caption_prompt, cache=cache, device=device, threads=threads
    )
    rewriter = rewrite.load(words, prompt=rewrite_prompt, tokens=rewrite_tokens, words=rewrite_words, device=device)
    return Stages(captioner, rewriter, keep_images=keep)


def _stages(name: str) -> tuple[str | None, str]:
    """Return the names of the captioner and the rewriter.

    >>> _stages("caption:openai:gpt@http://a+b/v1+forge:hf:Qwen/Qwen2.5-7B-Instruct")
    ('openai:gpt@http://a+b/v1', 'forge:hf:Qwen/Qwen2.5-7B-Instruct')
    """
    first, *rest = STAGE.split(name)
    for stage in (first, *rest):
        lookup({known: known for known in NAMES}, stage.partition(":")[0], "aligner")
    is_caption = first.partition(":")[0] == CAPTION
    if len(rest) > (1 if is_caption else 0) or any(stage.partition(":")[0] in (AUTO, CAPTION) for stage in rest):
        raise BadInput(f"{name!r} cannot be composed. Write one rewriter, or caption:… + a rewriter.")
    if not is_caption:
        return None, first
    return first.partition(":")[2] or "embedded", rest[0] if rest else "none"
