"""Documents and queries from the JSON of a request. No path is read: pictures are inline, or fetched from listed hosts.

A picture is a data: URL, plain base64, or an http(s) URL of a host that the server allows. Parts may be written as
isthmus writes them, or as chat APIs do:

    {"kind": "text", "content": "…"}          {"type": "text", "text": "…"}
    {"kind": "image", "content": "data:…"}    {"type": "image_url", "image_url": {"url": "data:…"}}
                                              {"type": "image", "source": {"type": "base64", "data": "…"}}
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from isthmus.documents import Document, Query
from isthmus.errors import BadInput, shown
from isthmus.kinds import AUDIO, IMAGE, TEXT, VIDEO, FileKind, Image, Part, Text, from_uri
from isthmus.kinds import get as kind_of
from isthmus.registry import suggestion
from isthmus.search import SearchRequest
from isthmus.serve.settings import ALIGNERS, MODELS, ServeSettings

FILES = (IMAGE, AUDIO, VIDEO)
DOCUMENT_KEYS = ("id", TEXT, *FILES, "parts", "content", "metadata", "vectors")
QUERY_KEYS = (TEXT, *FILES, "parts", "content", "weights", "vectors")
TEXT_TYPES = (TEXT, "input_text")
PICTURE_TYPES = ("image_url", "input_image")
LIKE = 4000  # characters of a document's text that similar documents are searched by
Fetch = Callable[[str], bytes]  # a picture from elsewhere, by its URL


@dataclass(frozen=True, slots=True)
class ContentReader:
    """Reads what requests contain, as the settings of a server allow."""

    settings: ServeSettings
    fetch: Fetch

    def document(self, form: object, name: str | None = None) -> Document:
        """Read a document; ``name`` is its id if that stands elsewhere, as in the URL."""
        known = _keys("A document", form, DOCUMENT_KEYS)
        if name is None and "id" not in known:
            raise BadInput("A document has no 'id'. Give it one: a string that no other document has.")
        if name is not None and known.get("id", name) != name:
            raise BadInput(f"The document's id is {shown(known['id'])} and the URL says {shown(name)}. Leave it out.")
        metadata, vectors = known.get("metadata", {}), known.get("vectors", {})
        own, (image, audio, video), parts = (
            known["id"] if name is None else name,
            self._files(known),
            self._parts(known),
        )
        text = known.get(TEXT)
        return Document(own, text, image, metadata, vectors, audio=audio, video=video, parts=parts)

    def query(self, form: object) -> Query:
        """Read a query: words, an object, or a list of parts."""
        if isinstance(form, str):
            return Query(form)
        if isinstance(form, list):
            return Query(parts=self.parts(form))
        known = _keys("A query", form, QUERY_KEYS)
        (image, audio, video), parts = self._files(known), self._parts(known)
        weights, vectors = known.get("weights"), known.get("vectors", {})
        return Query(known.get(TEXT), image, weights, vectors, audio=audio, video=video, parts=parts)

    def search(self, form: object) -> SearchRequest:
        """Read a search, and check it against the limits of the server."""
        if not isinstance(form, Mapping):
            raise BadInput(f"A search is an object in JSON, not {shown(form)}.")
        request = SearchRequest.from_json(form, self.query)
        most, deepest = self.settings.limits.hits, self.settings.limits.depth
        if request.k > most or request.offset + request.k > deepest:
            raise BadInput(f"k is {most:,} at most here, and offset + k {deepest:,}. Ask for fewer hits.")
        self.check_model("aligner", request.align, ALIGNERS)
        self.check_model("reranker", request.rerank, MODELS)
        return request

    def check_model(self, what: str, name: object, built_in: Sequence[str]) -> None:
        """Reject a model that the server was not told to use: its name can be a path or a URL."""
        known = (*built_in, *self.settings.models)
        if name is not None and name not in known:
            raise BadInput(f"This server has no {what} called {shown(name)}. {suggestion(str(name), known)}")

    def picture(self, given: object) -> bytes:
        """Return the bytes of a picture."""
        if not isinstance(given, str):
            raise BadInput(f"A picture is a data: URL, base64 or a URL, not {shown(given)}.")
        if given.startswith("data:"):
            try:
                return from_uri(given)
            except BadInput:
                raise BadInput("A picture is a data: URL that is not base64. Write it again.") from None
        if given.startswith(("http:", "https:")):
            return self.fetch(given)
        try:
            data = b64decode(given, validate=True)
        except ValueError:
            data = b""
        if not data:
            raise BadInput("A picture is neither a data: URL nor base64. Paths are not read: send the picture itself.")
        return data

    def _files(self, known: Mapping[str, Any]) -> list[bytes | None]:
        return [None if known.get(kind) is None else self.picture(known[kind]) for kind in FILES]

    def _parts(self, known: Mapping[str, Any]) -> list[Part] | None:
        given = [known[name] for name in ("parts", "content") if known.get(name) is not None]
        if len(given) > 1:
            raise BadInput("Give 'parts' or 'content', not both: they mean the same.")
        return self.parts(given[0]) if given else None

    def parts(self, form: object) -> list[Part]:
        """Read a list of parts."""
        if isinstance(form, str):
            return [Text(form)]
        if not isinstance(form, list):
            raise BadInput(f"Parts are a list, not {shown(form)}.")
        return [self.part(one) for one in form]

    def part(self, form: object) -> Part:
        """Read one part, in the form of isthmus or of chat APIs."""
        if not isinstance(form, Mapping):
            raise BadInput(f"A part is an object with kind and content, not {shown(form)}.")
        if "type" in form:
            return self._chat_part(form)
        if form.get("path") is not None:
            raise BadInput("A part has a path. Paths are not read: send its content.")
        _keys("A part", form, ("kind", "content", "path", "url"))
        kind, content = form.get("kind"), form.get("content")
        if not isinstance(kind, str) or content is None:
            raise BadInput(f"A part has a kind and a content, as in {{'kind': 'text', 'content': '…'}}: {shown(form)}.")
        if isinstance(kind_of(kind), FileKind):
            return Part(kind, self.picture(content))
        return Part(kind, content)

    def _chat_part(self, form: Mapping[str, Any]) -> Part:
        kind = form["type"]
        if kind in TEXT_TYPES:
            return Text(form.get(TEXT))  # type: ignore[arg-type]  # anything but a string is refused there
        if kind in PICTURE_TYPES:
            url = form.get("image_url")
            return Image(self.picture(url.get("url") if isinstance(url, Mapping) else url))
        if kind == IMAGE and isinstance(form.get("source"), Mapping):
            return Image(self.picture(form["source"].get("data", form["source"].get("url"))))
        types = ", ".join((*TEXT_TYPES, *PICTURE_TYPES, IMAGE))
        raise BadInput(f"A part has the type {shown(kind)}. Known: {types}.")


def more_like(document: Document, request: SearchRequest) -> SearchRequest:
    """Return a search by a document's own content, from the first hit and with one more: it finds itself.

    Of a long text the beginning is searched for.
    """
    if document.parts:
        cut = [Text(part.content[:LIKE]) if part.kind == TEXT else part for part in document.parts]
        query = Query(parts=cut)
    else:
        query = Query(vectors=document.vectors)
    return replace(request, query=query, k=request.offset + request.k + 1, offset=0)


def _keys(whose: str, form: object, known: Sequence[str]) -> Mapping[str, Any]:
    if not isinstance(form, Mapping):
        raise BadInput(f"{whose} is an object in JSON, not {shown(form)}.")
    for name in form:
        if name not in known:
            raise BadInput(f"{whose} has no key {shown(name)}. {suggestion(str(name), known)}")
    return form
