"""Requests made from the OpenAPI description: none brings the server down, and every answer is as described."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from isthmus.serve.keys import create_key
from serving import address_of, fill

pytestmark = pytest.mark.install
EXAMPLES = 12  # of each route
ANNOUNCED = range(200, 500)
SENT = {None, "application/json", "application/x-ndjson", "multipart/form-data"}  # types of bodies
FREE = ("/health", "/ready")  # routes that need no key


@pytest.fixture(scope="module", params=["open", "keys"])
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, tiny: str
) -> Iterator[tuple[str, dict[str, str]]]:
    """The address of a server without and with keys, and the headers of a request to it."""
    root = tmp_path_factory.mktemp("schema")
    fill(root, tiny, count=6)
    keys, headers = None, {"Host": "localhost"}
    if request.param == "keys":
        keys = root / "keys.json"
        headers["Authorization"] = f"Bearer {create_key(keys, 'all', 'admin')[1]}"
    with address_of(root, models=(tiny,), keys=keys) as address:
        yield address, headers


def lines(_: Any, value: Any) -> bytes:
    """Send a value as JSON lines; most are none, and must be refused well."""
    return str(value).encode("utf-8", "replace")


def test_no_request_that_fits_the_description_makes_the_server_fail(served: tuple[str, dict[str, str]]) -> None:
    import schemathesis
    from hypothesis import HealthCheck, given, settings
    from schemathesis.specs.openapi import checks

    schemathesis.serializer("application/x-ndjson")(lines)
    address, headers = served
    conformance = [
        checks.content_type_conformance,
        checks.response_headers_conformance,
        checks.response_schema_conformance,
        checks.status_code_conformance,
    ]
    schema = schemathesis.openapi.from_url(f"{address}/openapi.json", headers=headers)
    statuses: Counter[int] = Counter()
    sent: set[str | None] = set()
    operations: list[Any] = list(schema.get_all_operations())
    for operation in (found.ok() for found in operations):

        @settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
        @given(case=operation.as_strategy())
        def check(case: Any) -> None:
            given_names = dict(case.path_parameters or {})
            if given_names and case.method != "DELETE":
                case.path_parameters = (
                    given_names | {"name": "things"} | ({"id": "d0-1"} if "id" in given_names else {})
                )
            answer = case.call(base_url=address, headers=headers)
            statuses[answer.status_code] += 1
            sent.add(case.media_type)
            assert answer.status_code in ANNOUNCED, (case.method, case.path, answer.status_code, answer.text)
            if answer.status_code >= 400:
                assert set(answer.json()["error"]) == {"type", "message", "request_id"}
            case.validate_response(answer, checks=conformance)
            if "Authorization" in headers and case.path not in FREE:
                for wrong in ({}, {"Authorization": "Bearer wrong"}):
                    refused = case.call(base_url=address, headers={"Host": "localhost", **wrong})
                    assert refused.status_code == 401, (case.method, case.path, refused.status_code)
                    case.validate_response(refused, checks=conformance)

        check()
    assert sent == SENT
    assert statuses.total() > 100
    assert statuses[200] > 50
