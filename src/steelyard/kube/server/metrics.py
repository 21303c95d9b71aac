"""Request metrics under upstream's names, so that existing dashboards work.

Children are looked up once per combination of labels and then kept, because prometheus_client's own lookup costs more
than the rest of a request's bookkeeping. Labels come from resources that exist: a client that makes up names cannot
make up time series.
"""

from __future__ import annotations

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

CONTENT_TYPE = CONTENT_TYPE_LATEST
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
Labels = tuple[str, str, str, str]
"""Verb, group, version, resource."""


class RequestMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        names = ("verb", "group", "version", "resource")
        self.registry = registry
        self._total = Counter(
            "apiserver_request_total", "Requests answered.", (*names, "code"), registry=registry
        )  # fmt: skip
        self._duration = Histogram(
            "apiserver_request_duration_seconds", "Time to the answer.", names, buckets=_BUCKETS, registry=registry
        )
        self._totals: dict[tuple[Labels, int], Counter] = {}
        self._durations: dict[Labels, Histogram] = {}

    def record(self, labels: Labels, code: int, seconds: float) -> None:
        total = self._totals.get((labels, code))
        if total is None:
            total = self._totals[labels, code] = self._total.labels(*labels, str(code))
        total.inc()
        duration = self._durations.get(labels)
        if duration is None:
            duration = self._durations[labels] = self._duration.labels(*labels)
        duration.observe(seconds)

    def exposition(self) -> bytes:
        return generate_latest(self.registry)


DEFAULT = RequestMetrics(REGISTRY)
"""Shared by all listeners of the process."""
