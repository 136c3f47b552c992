"""Requests made from the OpenAPI description: none brings the server down, and every answer is as described."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from serving import address_of, fill

pytestmark = pytest.mark.install
EXAMPLES = 12  # of each route
ANNOUNCED = range(200, 500)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, tiny: str) -> Iterator[str]:
    root = tmp_path_factory.mktemp("schema")
    fill(root, tiny, count=6)
    with address_of(root, models=(tiny,)) as address:
        yield address


def test_no_request_that_fits_the_description_makes_the_server_fail(address: str) -> None:
    import schemathesis
    from hypothesis import HealthCheck, given, settings
    from schemathesis.specs.openapi.checks import response_schema_conformance

    schema = schemathesis.openapi.from_url(f"{address}/openapi.json")
    counted = 0
    statuses: Counter[int] = Counter()
    operations: list[Any] = list(schema.get_all_operations())
    for operation in (found.ok() for found in operations):

        @settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
        @given(case=operation.as_strategy())
        def check(case: Any) -> None:
            nonlocal counted
            counted += 1
            given_names = dict(case.path_parameters or {})
            if given_names and case.method != "DELETE":
                case.path_parameters = (
                    given_names | {"name": "things"} | ({"id": "d0-1"} if "id" in given_names else {})
                )
            answer = case.call(base_url=address, headers={"Host": "localhost"})
            statuses[answer.status_code] += 1
            assert answer.status_code in ANNOUNCED, (case.method, case.path, answer.status_code, answer.text)
            if answer.status_code >= 400:
                assert set(answer.json()["error"]) == {"type", "message", "request_id"}
            case.validate_response(answer, checks=[response_schema_conformance])

        check()
    assert counted > 100
    assert statuses[200] > 50
