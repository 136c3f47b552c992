"""The JSON of requests and responses that is not in ``isthmus.search.json_forms``; OpenAPI is made from these."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from isthmus.search.json_details import FieldValuesJson
from isthmus.search.json_details import MapJson as MapJson  # for OpenAPI
from isthmus.search.json_forms import DocumentJson, HitJson, SkippedJson


class ProblemJson(TypedDict):
    """What went wrong; the log of the server has more under the id."""

    type: str
    message: str
    request_id: str


class ErrorJson(TypedDict):
    """An error."""

    error: ProblemJson


class CollectionJson(TypedDict):
    """A collection, in short."""

    name: str
    documents: int
    modalities: dict[str, int]
    encoder: str | None
    calibration: str | None


class CollectionsJson(TypedDict):
    """The collections that the key may read and that can be opened."""

    collections: list[CollectionJson]


class NewCollectionJson(TypedDict):
    """A collection to make. ``calibration`` is what the first calibration is: ``auto``, ``none`` or a spec."""

    name: str
    encoder: NotRequired[str | None]
    calibration: NotRequired[str]


class ContentJson(TypedDict):
    """What a document or a query holds. Files are data: URLs or base64; ``parts`` may be those of chat APIs."""

    text: NotRequired[str | None]
    image: NotRequired[str | None]
    audio: NotRequired[str | None]
    video: NotRequired[str | None]
    parts: NotRequired[list[dict[str, Any]] | None]
    content: NotRequired[list[dict[str, Any]] | str | None]
    vectors: NotRequired[dict[str, list[float]]]


class NewDocumentJson(ContentJson):
    """A document to add."""

    id: str
    metadata: NotRequired[dict[str, Any]]


class NewDocumentsJson(TypedDict):
    """Documents to add."""

    documents: list[NewDocumentJson]


class ChangeJson(ContentJson):
    """A change of a document: parts that are given replace its own, metadata are merged."""

    metadata: NotRequired[dict[str, Any]]


class AddedJson(TypedDict):
    """What became of documents: how many were added, replaced and left as they were, and those skipped.

    ``ids``, if asked for, has the ids of each.
    """

    added: int
    updated: int
    unchanged: int
    skipped: list[SkippedJson]
    documents: int
    ids: NotRequired[dict[str, list[str]]]


class IdsJson(TypedDict):
    """Documents by their ids."""

    ids: list[str]


class DeletedJson(TypedDict):
    """How many documents were deleted, and the ids that no document had."""

    deleted: int
    unknown: list[str]


class PageJson(TypedDict):
    """Some documents in the order they were added; ``next`` is the ``after`` of the next page, null at the end."""

    documents: list[DocumentJson]
    next: int | None


class QueryJson(ContentJson):
    """A query with a picture, with both, with several parts, or with vectors of its own."""

    weights: NotRequired[dict[str, float] | None]


class SearchOptionsJson(TypedDict):
    """The options of a search: those of ``SearchRequest``."""

    k: NotRequired[int]
    offset: NotRequired[int]
    where: NotRequired[dict[str, Any] | None]
    modalities: NotRequired[str | list[str] | None]
    hybrid: NotRequired[bool]
    align: NotRequired[str | None]
    rerank: NotRequired[str | None]
    min_probability: NotRequired[float | None]
    explain: NotRequired[bool]
    group: NotRequired[bool]
    calibration: NotRequired[str | None]
    partial: NotRequired[bool]


class SearchJson(SearchOptionsJson):
    """A search."""

    query: str | QueryJson | list[dict[str, Any]]


class SearchesJson(TypedDict):
    """Several searches at once."""

    searches: list[SearchJson]


class HitsJson(TypedDict):
    """The hits of a search, best first; ``missing``: the shards that did not answer a partial search."""

    hits: list[HitJson]
    missing: NotRequired[list[str]]


class ResultsJson(TypedDict):
    """The hits of several searches, in their order."""

    results: list[HitsJson]


class ValuesJson(TypedDict):
    """The values of fields."""

    fields: list[FieldValuesJson]


class MapQueryJson(TypedDict):
    """What was searched for, to be explained at a document."""

    query: str | QueryJson | list[dict[str, Any]]
    calibration: NotRequired[str | None]


class HasMapsJson(TypedDict):
    """Whether hits can be explained by maps."""

    maps: bool


class HealthJson(TypedDict):
    """The state of the process."""

    status: str
    version: str


class StatsJson(TypedDict):
    """What ``isthmus stats --json`` prints, without paths of the server; ``fields`` are the names of filters."""

    path: str
    documents: dict[str, int]
    bytes: dict[str, int]
    encoder: dict[str, Any]
    schema: int
    changes: int
    calibration: dict[str, Any] | None
    drift: dict[str, float | None]
    refitting: bool
    last_error: str
    index: dict[str, str]
    sources: dict[str, int]
    skipped: list[SkippedJson]
    logged: int | None
    reencoding: dict[str, Any] | None
    fields: list[str]


class ModelJson(TypedDict):
    """A model that requests may name."""

    id: str
    object: str
    created: int
    owned_by: str


class ModelsJson(TypedDict):
    """The models, in OpenAI's shape."""

    object: str
    data: list[ModelJson]


class EmbeddingsJson(TypedDict):
    """Inputs to encode, in OpenAI's shape. ``input_type`` is ``document`` (the default) or ``query``."""

    input: str | list[str] | list[QueryJson]
    model: NotRequired[str]
    encoding_format: NotRequired[str]
    dimensions: NotRequired[int | None]
    user: NotRequired[str]
    input_type: NotRequired[str]


class EmbeddingJson(TypedDict):
    """A unit vector: numbers, or the base64 of little-endian float32."""

    object: str
    index: int
    embedding: list[float] | str


class EmbeddingsAnswerJson(TypedDict):
    """Vectors, in OpenAI's shape; ``usage`` counts words, not tokens."""

    object: str
    data: list[EmbeddingJson]
    model: str
    usage: dict[str, int]


class RerankJson(TypedDict):
    """A query and documents to order, in Cohere's shape; documents may have pictures."""

    query: str | QueryJson
    documents: list[str | QueryJson]
    model: NotRequired[str]
    top_n: NotRequired[int | None]
    return_documents: NotRequired[bool]


class RerankedJson(TypedDict):
    """The place of a document in the request, and its score."""

    index: int
    relevance_score: float
    document: NotRequired[dict[str, str]]


class RerankAnswerJson(TypedDict):
    """Documents in order, in Cohere's shape."""

    id: str
    results: list[RerankedJson]
    meta: dict[str, Any]


class JobJson(TypedDict):
    """Long work: ``state`` is queued, running, done, failed or cancelled; ``done`` of ``total`` steps or bytes."""

    id: str
    kind: str
    collection: str
    state: str
    done: int
    total: int | None
    result: Any
    error: str | None
    made: str
    ended: str | None


class JobsJson(TypedDict):
    """Jobs, oldest first."""

    jobs: list[JobJson]


class ReferenceJson(TypedDict):
    """A reference query, and the id of its right document if it is known."""

    query: str | QueryJson
    id: NotRequired[str | None]


class CalibrateJson(TypedDict):
    """A calibration to fit: ``auto``, ``none`` or a spec; on queries of yours if you have some.

    ``means``: the documents whose means shifts subtract, or their vectors by part; default: the collection's own.
    """

    spec: NotRequired[str]
    queries: NotRequired[list[str | ReferenceJson] | None]
    means: NotRequired[list[NewDocumentJson] | dict[str, list[list[float]]] | None]


class DiagnoseJson(TypedDict):
    """A diagnosis to make, on queries of yours if you have some."""

    queries: NotRequired[list[str | ReferenceJson] | None]


class DiagnosisJson(TypedDict):
    """What ``isthmus diagnose --json`` prints, and when it was made."""

    ended: str
    diagnosis: dict[str, Any]


class VersionJson(TypedDict):
    """A calibration by its number."""

    version: int


class CalibrationVersionJson(TypedDict):
    """A calibration that is kept."""

    version: int
    spec: str
    made: str
    served: bool


class CalibrationJson(TypedDict):
    """The requested spec, the served calibration as in the statistics, those that are kept, and drift."""

    spec: str
    served: dict[str, Any] | None
    versions: list[CalibrationVersionJson]
    drift: dict[str, float | None]
    drifted: bool
