"""Counters for Prometheus, one registry per application."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
SIZES = (1, 2, 4, 8, 16, 32, 64)


class Metrics:
    """What a server counts. Routes are labelled by their template: no id and no name of a document is a label."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "isthmus_requests", "Requests by route and status", ["method", "route", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "isthmus_request_seconds", "Seconds of a request", ["route"], buckets=SECONDS, registry=self.registry
        )
        self.batches = Histogram(
            "isthmus_search_batch_size", "Searches that ran together", buckets=SIZES, registry=self.registry
        )
        self.busy = Gauge("isthmus_busy", "Requests that run or wait for a thread", registry=self.registry)

    def seen(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        self.requests.labels(method, route, str(status)).inc()
        self.seconds.labels(route).observe(seconds)

    def written(self) -> bytes:
        """Return all counters in Prometheus's format."""
        return generate_latest(self.registry)
