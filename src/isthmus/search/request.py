"""``SearchRequest``: one search with all its options, as the library, the command line and servers pass it on."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from isthmus.documents import Query
from isthmus.errors import BadInput, shown
from isthmus.kinds import Part, from_uri
from isthmus.registry import suggestion
from isthmus.search import arguments
from isthmus.search.probability import FIELD
from isthmus.search.reranking import Reranker
from isthmus.storage.where import parse

if TYPE_CHECKING:
    from isthmus.align import Aligner

QUERY_KEYS = ("text", "image", "parts", "weights", "vectors")


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """One search: a query and every option. All values are checked; ``BadInput`` says what to write instead.

    query            words, or a ``Query`` with a picture, both, or vectors
    k, offset        how many hits to return, and how many to skip before the first
    where            filter by metadata: ``{"lang": "en", "year": {"gte": 2000}}`` (see ``isthmus.storage.where``)
    modalities       the modalities to search; with a minus sign those to leave out: ``["-text"]``
    hybrid           match the words themselves as well (BM25)
    align            put pictures into words and leave out chatter first: ``"auto"``, ``"caption"``, ``"forge-mini"`` …,
                     or an aligner (see ``isthmus.align``)
    rerank           reorder the first ``offset + k`` hits by a model that reads query and document together:
                     ``"onnx:FOLDER"`` with a matcher, ``"st:CROSS-ENCODER"``, ``"http:cohere:MODEL"``, or a
                     ``Reranker``
    min_probability  leave out hits with a lower P(match)
    explain          say how each score came about
    group            put near-duplicates under the first of them
    calibration      ``"none"`` ranks by raw cosine, for comparison
    partial          answer without the shards that do not answer, which ``Hits.missing`` names; else they are an error

    >>> request = SearchRequest("a red sofa", k=5, where={"lang": "en"})
    >>> request.to_json()
    {'query': 'a red sofa', 'k': 5, 'where': {'lang': 'en'}}
    >>> SearchRequest.from_json({"query": "a red sofa", "explian": True})
    Traceback (most recent call last):
    isthmus.errors.BadInput: A search has no option 'explian'. Did you mean 'explain'?
    """

    query: str | Query
    _: KW_ONLY
    k: int = 10
    offset: int = 0
    where: Mapping[str, Any] | None = None
    modalities: str | Iterable[str] | None = None
    hybrid: bool = False
    align: str | Aligner | None = None
    rerank: str | Reranker | None = None
    min_probability: float | None = None
    explain: bool = False
    group: bool = False
    calibration: str | None = None
    partial: bool = False

    def __post_init__(self) -> None:
        arguments.calibration(self.calibration)
        arguments.named("align", self.align, "align")
        arguments.named("rerank", self.rerank, "scores")
        self._set(
            query=Query.of(self.query),
            k=arguments.count("k", self.k, least=1),
            offset=arguments.count("offset", self.offset, least=0),
            where=arguments.mapping("where", self.where),
            modalities=arguments.modalities(self.modalities),
            hybrid=arguments.option("hybrid", self.hybrid),
            min_probability=arguments.share("min_probability", self.min_probability),
            explain=arguments.option("explain", self.explain),
            group=arguments.option("group", self.group),
            partial=arguments.option("partial", self.partial),
        )
        if self.where:
            parse(self.where)
        if self.raw and (self.hybrid or self.min_probability is not None):
            raise BadInput(
                "Raw cosine has neither words nor probabilities: leave hybrid (--hybrid) and min_probability "
                "(--min-probability) out."
            )

    def _set(self, **values: object) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def asked(self) -> Query:
        """The query, also where it was given as a string."""
        return Query.of(self.query)

    @property
    def raw(self) -> bool:
        """Whether raw cosine ranks."""
        return self.calibration is not None

    @property
    def wanted(self) -> str | Sequence[str] | None:
        """The modalities, as a list where there are several."""
        return arguments.modalities(self.modalities)

    @property
    def depth(self) -> int:
        """How many documents have to be ranked for this request."""
        return max(self.offset + self.k, FIELD + 1)

    def from_the_first(self) -> SearchRequest:
        """Return the same with those before the offset among the hits."""
        return replace(self, k=self.offset + self.k, offset=0)

    def each(self, queries: Iterable[str | Query | SearchRequest]) -> list[SearchRequest]:
        """Return a request with these options for each query; one that is a request already has its own."""
        several = list(queries)
        own = [one for one in several if isinstance(one, SearchRequest)]
        if own and not self.same_options(SearchRequest("any")):
            raise BadInput("A SearchRequest has its options inside. Leave out the others, or give a query.")
        return [one if isinstance(one, SearchRequest) else self._with(Query.of(one)) for one in several]

    def _with(self, query: Query) -> SearchRequest:
        other = copy.copy(self)  # the options are checked already
        other._set(query=query)
        return other

    def same_options(self, other: SearchRequest) -> bool:
        """Whether two requests differ in the query alone, and can be answered together."""
        pairs = ((getattr(self, name), getattr(other, name)) for name in OPTIONS)
        return all(mine is theirs or bool(mine == theirs) for mine, theirs in pairs)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form: the query, and the options that are not as by default."""
        form: dict[str, Any] = {"query": query_json(self.asked)}
        for option in fields(self)[1:]:
            value = getattr(self, option.name)
            if option.name in ("align", "rerank") and value is not None and not isinstance(value, str):
                raise BadInput(f"{option.name} is {shown(value)}; only a name can be written as JSON.")
            if value != option.default:
                form[option.name] = value
        return form

    @classmethod
    def from_json(cls, form: Mapping[str, Any], read_query: Callable[[object], Query] | None = None) -> SearchRequest:
        """Read the JSON form. A key that is not known is rejected.

        A picture is the path of a file on this machine, or a data: URI. A server that takes requests from others
        rejects paths: it gives a ``read_query`` of its own.
        """
        known = _keys("A search", "option", form, ("query", *OPTIONS))
        if "query" not in known:
            raise BadInput("The search has no 'query'. Give words, or an object with text, image or vectors.")
        for name in ("align", "rerank"):
            if not isinstance(known.get(name), str | None):
                raise BadInput(f"{name} is {shown(known[name])}; it must be a name.")
        return cls(**{**known, "query": (read_query or query_from_json)(known["query"])})


OPTIONS = tuple(option.name for option in fields(SearchRequest)[1:])


def query_json(query: Query) -> str | dict[str, Any]:
    """Return the JSON form of a query: its words, or an object of its parts."""
    form: dict[str, Any] = {"parts": [part.to_json() for part in query.parts]} if query.parts else {}
    if query.weights is not None:
        form["weights"] = dict(query.weights)
    if query.vectors:
        form["vectors"] = {part: vector.tolist() for part, vector in query.vectors.items()}
    return str(query.text) if query == Query.of(query.text or "-") else form


def query_from_json(form: object) -> Query:
    """Read the JSON form of a query; ``text`` and ``image`` (a path, or a data: URI) are the short way."""
    if isinstance(form, str):
        return Query(form)
    known = _keys("A query", "key", form, QUERY_KEYS)
    parts = known.get("parts")
    if parts is not None and not isinstance(parts, list):
        raise BadInput(f"The query's parts are {shown(parts)}; give a list.")
    read = None if parts is None else [_read(part) for part in parts]
    image = known.get("image")
    if isinstance(image, str) and image.startswith("data:"):
        image = from_uri(image)
    return Query(known.get("text"), image, known.get("weights"), known.get("vectors", {}), parts=read)


def _read(form: object) -> Part:
    try:
        return Part.from_json(form)
    except BadInput as error:
        raise BadInput(f"The query {error}") from None


def _keys(whose: str, what: str, form: object, known: Sequence[str]) -> Mapping[str, Any]:
    if not isinstance(form, Mapping):
        raise BadInput(f"{whose} is an object in JSON, not {shown(form)}.")
    for name in form:
        if name not in known:
            raise BadInput(f"{whose} has no {what} {shown(name)}. {suggestion(str(name), known)}")
    return form
