"""Spans of OpenTelemetry around the stages of a search, where the application has set it up; elsewhere nothing.

A stage has a span if it runs inside one that is recorded, such as that of a request. OpenTelemetry is not imported
here: what nobody has imported nobody has set up. A span has the number of its queries, and of an error its type alone:
words of a query are in neither.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import Context

API = "opentelemetry.trace"


@contextmanager
def stage(name: str, queries: int, others: Sequence[Context] = ()) -> Iterator[None]:
    """Run a stage in a span of its own, linked to the spans of other contexts that it works for."""
    api = sys.modules.get(API)
    if api is None or not api.get_current_span().is_recording():
        yield
        return
    links = [api.Link(other.run(api.get_current_span).get_span_context()) for other in others]
    with api.get_tracer("isthmus").start_as_current_span(
        f"isthmus.{name}",
        attributes={"isthmus.queries": queries},
        links=links,
        record_exception=False,  # its message may have words of the query
        set_status_on_exception=False,
    ) as span:
        try:
            yield
        except Exception as error:
            span.set_status(api.StatusCode.ERROR, type(error).__name__)
            raise
