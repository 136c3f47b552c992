"""OpenAPI from typed dictionaries.

pydantic reads those of ``typing`` from Python 3.12 on only, so the few types that JSON has are written here.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.responses import Response

from isthmus import __version__
from isthmus.serve import forms
from isthmus.serve.answers import ServedPartJson
from isthmus.serve.forms import ErrorJson

PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
COMPONENTS = "#/components/schemas/"


def schema(form: Any) -> dict[str, Any]:
    """Return the JSON schema of a type.

    >>> schema(dict[str, list[int | None]])["additionalProperties"]
    {'type': 'array', 'items': {'anyOf': [{'type': 'integer'}, {'type': 'null'}]}}
    """
    if form in PLAIN:
        return {"type": PLAIN[form]}
    if is_typeddict(form):
        return {"$ref": f"{COMPONENTS}{form.__name__}"}
    origin, inner = get_origin(form), get_args(form)
    if origin is NotRequired:
        return schema(inner[0])
    if origin is list:
        return {"type": "array", "items": schema(inner[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema(inner[1])}
    if origin in (Union, types.UnionType):
        return {"anyOf": [schema(one) for one in inner]}
    return {}


def components(form: Any) -> dict[str, Any]:
    """Return the schemas of a typed dictionary and of those inside it, by name."""
    if not is_typeddict(form):
        return {name: one for inner in get_args(form) for name, one in components(inner).items()}
    hints = get_type_hints(form, include_extras=True)
    required = [name for name, hint in hints.items() if get_origin(hint) is not NotRequired]
    own = {
        "type": "object",
        "title": form.__name__,
        "description": (form.__doc__ or "").strip(),
        "properties": {name: schema(hint) for name, hint in hints.items()},
        "required": required,
    }
    return {form.__name__: own} | {name: one for hint in hints.values() for name, one in components(hint).items()}


def described(
    answer: Any = None,
    body: Any = None,
    *,
    status: int = 200,
    media: str = "",
    also: Mapping[int, Any] = {},
    bodies: Mapping[str, Any] = {},
) -> dict[str, Any]:
    """Return the arguments of a route that describe its body and its answer in OpenAPI.

    An answer of a ``media`` type is not JSON; ``also`` are the answers of other statuses, and ``bodies`` the schemas of
    bodies that are not JSON, by their media type.
    """
    error = {"description": "An error.", "content": _content(ErrorJson)}
    responses: dict[int | str, dict[str, Any]] = {"4XX": error, "5XX": error}
    for other, form in also.items():
        responses[other] = {"description": "Done."} | ({} if form is None else {"content": _content(form)})
    if media:
        binary = {"schema": {"type": "string"} | ({} if media.startswith("text/") else {"format": "binary"})}
        responses[status] = {"description": "Done.", "content": {media: binary}}
    elif answer is not None:
        responses[status] = {"description": "Done.", "content": _content(answer)}
    extra = {} if body is None else {"requestBody": {"required": True, "content": _content(body) | _schemas(bodies)}}
    return {"responses": responses, "openapi_extra": extra, "status_code": status, "response_class": Response}


def _content(form: Any) -> dict[str, Any]:
    return _schemas({"application/json": schema(form)})


def _schemas(of: Mapping[str, Any]) -> dict[str, Any]:
    return {media: {"schema": one} for media, one in of.items()}


def describe(app: FastAPI) -> None:
    """Let the application write its OpenAPI description from the forms."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            made = get_openapi(title="isthmus", version=__version__, routes=app.routes, description=app.description)
            made.setdefault("components", {}).setdefault("schemas", {}).update(_all())
            for name in ("HTTPValidationError", "ValidationError"):
                made["components"]["schemas"].pop(name, None)
            for path in made["paths"].values():
                for operation in path.values():
                    operation["responses"].pop("422", None)
            made["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
            made["security"] = [{}, {"key": []}]
            app.openapi_schema = made
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # as FastAPI's documentation does


def _all() -> dict[str, Any]:
    found = {name: one for form in vars(forms).values() for name, one in components(form).items()}
    served = components(ServedPartJson)[ServedPartJson.__name__]
    return found | {"PartJson": {**served, "title": "PartJson", "description": (ServedPartJson.__doc__ or "").strip()}}
