"""An encoder with a calibration as an mteb model: ``mteb.evaluate(MtebModel("mini", "center"), tasks)``.

    index(corpus)        documents ──encoder──▸ passages ──fit──▸ calibration       on the whole corpus
    search(queries)      queries ──encoder──▸ scores of all documents ──▸ the best k

Retrieval and reranking go through mteb's ``SearchProtocol``, because a calibration is fitted on documents: ``index``
receives the whole corpus, whereas an ``EncoderProtocol`` receives it in pieces and must return vectors for the first
before it has seen the last. Judgements and the task's own queries are never used for fitting. A search also does what a
dot product cannot: one affine map per pair of modalities, the best passage of a long text, and corpora in which some
documents are texts and others images.

Tasks without a corpus (similarity, classification, clustering …) use ``encode``.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from isthmus import __version__, encoders
from isthmus import calibration as calibrations
from isthmus._optional import need
from isthmus.calibration import Fitted, Spec
from isthmus.calibration.storage import to_bytes
from isthmus.documents import Document, Query
from isthmus.encoders import Encoder
from isthmus.encoders.images import file_bytes
from isthmus.encoders.references import SHIPPED_QUERIES, bank_vectors
from isthmus.errors import BadInput
from isthmus.evaluate.compare import AUTO, in_blocks
from isthmus.evaluate.encode import passages
from isthmus.evaluate.mteb_rows import MtebRow, rows_of
from isthmus.evaluate.mteb_rows import blocks as blocks_of
from isthmus.evaluate.runs import run_of
from isthmus.types import Mask, Matrix, Rows, Vectors

EXTRA = "mteb"
READ = ("image", "text")  # what tasks are read for


class MtebModel:
    """An mteb model: an encoder, a calibration, and the reference queries it is fitted on.

    ``encoder``: a name or an encoder. ``calibration``: any spec, including ``auto`` and the per-query baselines, fitted
    on the corpus of each task; or your own ``Fitted``, which is used unchanged. ``references``: queries like those of
    the task, to fit calibrations on; default: the built-in bank.

    >>> MtebModel("mini", "center+nnn(k=16)")
    <MtebModel mini, center+nnn(k=16)>
    """

    def __init__(
        self,
        encoder: str | Encoder,
        calibration: str | Spec | Fitted = "none",
        *,
        references: Sequence[Query | str] | None = None,
    ) -> None:
        self.encoder = encoders.load(encoder) if isinstance(encoder, str) else encoder
        self.calibration = (
            calibration if isinstance(calibration, Fitted) or calibration == AUTO else Spec.parse(calibration)
        )
        if references is not None and not references:
            raise BadInput(
                "There are no reference queries. Pass some, or leave `references` out for the built-in bank."
            )
        self.references = references
        self._searched: Searched | None = None

    def __repr__(self) -> str:
        return f"<MtebModel {self.encoder.name}, {self._said()}>"

    @property
    def mteb_model_meta(self) -> Any:
        """The metadata of results: the name has the calibration, the revision everything that affects scores."""
        meta = need("mteb.models.model_meta", extra=EXTRA)
        return meta.ModelMeta.create_empty(
            overwrites={
                "name": f"isthmus/{self.encoder.name} {self._said()}",
                "revision": self._revision(),
                "embed_dim": self.encoder.dim,
                "modalities": [kind for kind in READ if kind in self.encoder.modalities],
                "similarity_fn_name": meta.ScoringFunction.DOT_PRODUCT,
            }
        )

    def index(self, corpus: Any, *, task_metadata: Any, **_: Any) -> None:
        """Encode every document by passage, and fit the calibration on them. mteb's ``SearchProtocol``."""
        problems: dict[str, BadInput] = {}
        side = _prompt_type("document")
        several = []
        for rows in blocks_of(corpus):
            documents = [Document(row.id, row.text, row.image) for row in self._rows(rows, task_metadata, side) if row]
            several.append(passages(self.encoder, documents, lambda name, why: problems.update({name: why})))
        ids = [name for names, _, _ in several for name in names]
        if not ids:
            raise BadInput(f"{task_metadata.name} has no document that the encoder {self.encoder.name} can read.")
        _tell(len(corpus) - len(ids), len(corpus), "documents", next(iter(problems.values()), "it is empty"))
        before = np.cumsum([0, *(len(names) for names, _, _ in several[:-1])])  # documents in the previous blocks
        owner = np.concatenate([owner + start for start, (_, _, owner) in zip(before, several, strict=True)])
        vectors = Vectors.concat([vectors for _, vectors, _ in several])
        self._searched = Searched(ids, vectors, owner, self._fit(vectors, owner))

    def search(
        self,
        queries: Any,
        *,
        task_metadata: Any,
        top_k: int,
        top_ranked: Mapping[str, Sequence[str]] | None = None,
        **_: Any,
    ) -> dict[str, dict[str, float]]:
        """Return the best documents of each query; with ``top_ranked``, only among those. mteb's ``SearchProtocol``."""
        if self._searched is None:
            raise BadInput("Nothing was indexed. mteb calls index(corpus) first.")
        asked = [row for rows in blocks_of(queries) for row in self._rows(rows, task_metadata, _prompt_type("query"))]
        readable = [row for row in asked if row]
        _tell(len(asked) - len(readable), len(asked), "queries", "it is empty")
        nothing: dict[str, dict[str, float]] = {row.id: {} for row in asked}
        return nothing | self._searched.ranked(
            [row.id for row in readable],
            self.encoder.encode_queries([Query(row.text, row.image) for row in readable]),
            top_k,
            top_ranked,
        )

    def encode(self, inputs: Iterable[Any], *, task_metadata: Any, prompt_type: Any = None, **_: Any) -> Matrix:
        """Return one vector for each input, for tasks without a corpus. mteb's ``EncoderProtocol``.

        Without a calibration these are unit vectors; a text with an image is fused as usual. With a ``Fitted`` that is
        a shift or a bias, queries and documents are folded, so their dot product is the calibrated score, for mteb's
        own search and index backends. Other calibrations need a corpus, or more than a dot product, and are rejected: a
        result that a calibration did not affect should not be reported under its name.
        """
        role = None if prompt_type is None else str(prompt_type.value)
        some: list[bool] = []
        folded: list[Matrix] = []
        for batch in inputs:  # one at a time: their pictures are decoded already, and titles are part of their texts
            joined = {part: batch[part] for part in ("text", "image") if part in batch}
            rows = self._rows(joined, task_metadata, prompt_type)
            some += [bool(row) for row in rows]
            if any(rows):
                folded.append(self._folded([row for row in rows if row], role))
        out = np.zeros((len(some), folded[0].shape[1] if folded else self.encoder.dim), dtype=np.float32)
        if folded:
            out[some] = np.concatenate(folded)  # an empty input stays zero: it is similar to nothing
        return out

    def similarity(self, embeddings1: Any, embeddings2: Any) -> Matrix:
        """Return the dot products of all pairs: folded vectors must not be scaled to unit length."""
        one, other = np.atleast_2d(np.asarray(embeddings1)), np.atleast_2d(np.asarray(embeddings2))
        return np.asarray(one @ other.T)

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Matrix:
        """Return the dot product of each row with its partner."""
        return np.asarray((np.asarray(embeddings1) * np.asarray(embeddings2)).sum(axis=-1))

    def _rows(self, batch: Mapping[str, Sequence[Any]], task_metadata: Any, side: Any) -> list[MtebRow]:
        """Return the modalities of this side that the encoder reads; mteb warns if it does not read all of them."""
        kinds = [kind for kind in task_metadata.get_modalities(side) if kind in {*READ} & {*self.encoder.modalities}]
        if not kinds:
            raise BadInput(f"The encoder {self.encoder.name} reads none of the modalities of {task_metadata.name}.")
        return rows_of(batch, kinds)

    def _fit(self, documents: Vectors, owner: Rows) -> Fitted:
        if isinstance(self.calibration, Fitted):
            return self.calibration
        queries = (
            bank_vectors(self.encoder, limit=SHIPPED_QUERIES)
            if self.references is None
            else self.encoder.encode_queries(self.references)
        )
        return calibrations.fit(self.calibration, documents, queries, owner=owner)

    def _folded(self, rows: Sequence[MtebRow], role: str | None) -> Matrix:
        if role == "query":
            vectors = self.encoder.encode_queries([Query(row.text, row.image) for row in rows])
        else:
            vectors = self.encoder.encode_documents(
                [Document(str(place), row.text, row.image) for place, row in enumerate(rows)]
            )
        if str(self.calibration) == "none":
            return calibrations.fit("none", vectors, vectors).fold(vectors).vectors  # it has nothing to fit
        fitted = self.calibration
        if not isinstance(fitted, Fitted) or role is None:
            raise BadInput(
                f"'{self._said()}' is fitted on a corpus, and this task has none. Run it with calibration='none'."
            )
        if fitted.scale or fitted.coefficients or fitted.balance or fitted.spec.dynamic:
            raise BadInput(
                f"'{fitted.spec}' is more than a dot product: it maps scores by modality or by query. Let "
                "mteb search with this model itself."
            )
        return (fitted.fold_queries(vectors) if role == "query" else fitted.fold(vectors)).vectors

    def _said(self) -> str:
        return f"{self.calibration.spec}, fitted" if isinstance(self.calibration, Fitted) else str(self.calibration)

    def _revision(self) -> str:
        digest = hashlib.sha256(f"{__version__} {self.encoder.identity}".encode())
        if isinstance(self.calibration, Fitted):
            digest.update(to_bytes(self.calibration))
        elif isinstance(self.calibration, Spec):
            digest.update(self.calibration.in_full.encode())
        for reference in self.references or ():
            digest.update(_content(Query.of(reference)))
        return digest.hexdigest()[:16]


@dataclass(frozen=True, slots=True, eq=False)
class Searched:
    """A searchable corpus: its documents by passage, and the calibration fitted on them."""

    ids: list[str]
    documents: Vectors
    owner: Rows
    fitted: Fitted

    def ranked(
        self, names: Sequence[str], queries: Vectors, k: int, among: Mapping[str, Sequence[str]] | None
    ) -> dict[str, dict[str, float]]:
        """Return the ``k`` best documents of each query; ``among`` restricts the search to these documents."""
        place = {name: row for row, name in enumerate(self.ids)}
        run: dict[str, dict[str, float]] = {}
        for rows, scores in in_blocks(self.fitted, queries, self.documents, self.owner):
            if among is not None:
                scores = np.where(_allowed(names[rows], among, place), scores, -np.inf)
            for name, hits in run_of(scores, names[rows], self.ids, k).items():
                run[name] = dict(zip(hits, apart(np.fromiter(hits.values(), float)).tolist(), strict=True))
        return run


def apart(scores: Matrix) -> Matrix:
    """Separate equal scores of a ranking, best first, by the least float32 step, so that mteb keeps their order.

    mteb ranks equal scores by document id, and stores float32. Methods that score by rank have many equal scores.

    >>> apart(np.array([0.5, 0.5, 0.5, 0.25])).round(6).tolist(), len(set(apart(np.zeros(9)).tolist()))
    ([0.5, 0.5, 0.5, 0.25], 9)
    """
    bits = scores.astype(np.float32).view(np.int32).astype(np.int64)
    order = np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)  # neighbouring floats have neighbouring numbers
    step = np.arange(len(scores))
    lower = np.minimum.accumulate(order + step) - step
    back = np.where(lower < 0, -lower | 0x80000000, lower)
    return back.astype(np.uint32).view(np.float32).astype(np.float64)


def _content(query: Query) -> bytes:
    image = b"" if query.image is None else file_bytes(query.image) or np.asarray(query.image).tobytes()
    own = b"".join(vector.tobytes() for vector in query.vectors.values())
    return repr((query.text, query.weights)).encode() + image + own


def _allowed(names: Sequence[str], among: Mapping[str, Sequence[str]], place: Mapping[str, int]) -> Mask:
    allowed = np.zeros((len(names), len(place)), dtype=bool)
    for row, name in enumerate(names):
        allowed[row, [place[document] for document in among.get(name, ()) if document in place]] = True
    return allowed


def _tell(count: int, total: int, what: str, why: object) -> None:
    if count:
        warnings.warn(f"{count} of {total} {what} cannot be read and are left out; the first: {why}", stacklevel=3)


def _prompt_type(role: str) -> Any:
    return need("mteb.types", extra=EXTRA).PromptType(role)
