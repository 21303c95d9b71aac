"""What the runtime tells Prometheus, per kind: reconciles, errors, durations, queue depth, time of the last reconcile.

One `Metrics` per registry; every controller binds its labels once, so that counting costs no look-up in the hot path.
"""

from __future__ import annotations

import functools

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

from steelyard.frozen import frozen

_DURATIONS = (0.001, 0.005, 0.025, 0.1, 0.5, 1, 5, 15, 60, 300)


@frozen
class QueueMetrics:
    depth: Gauge
    adds: Counter
    retries: Counter
    latency: Histogram


@frozen
class ControllerMetrics:
    successes: Counter
    conflicts: Counter
    failures: Counter
    errors: Counter
    duration: Histogram
    last_reconciled: Gauge


class Metrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._reconciles = Counter(
            "steelyard_reconciles",
            "Reconciles by kind and result: success, conflict, error.",
            ("controller", "kind", "result"),
            registry=registry,
        )
        self._errors = Counter(
            "steelyard_reconcile_errors", "Reconciles that failed.", ("controller", "kind"), registry=registry
        )
        self._duration = Histogram(
            "steelyard_reconcile_duration_seconds",
            "How long a reconcile takes.",
            ("controller", "kind"),
            registry=registry,
            buckets=_DURATIONS,
        )
        self._last = Gauge(
            "steelyard_last_reconciled_timestamp_seconds",
            "When an object of the kind was last reconciled without an error.",
            ("controller", "kind"),
            registry=registry,
        )
        self._depth = Gauge("steelyard_queue_depth", "Objects waiting to be reconciled.", ("queue",), registry=registry)
        self._adds = Counter("steelyard_queue_adds", "Objects put into the queue.", ("queue",), registry=registry)
        self._retries = Counter(
            "steelyard_queue_retries", "Objects put back after a failure.", ("queue",), registry=registry
        )
        self._latency = Histogram(
            "steelyard_queue_latency_seconds",
            "How long an object waits in the queue.",
            ("queue",),
            registry=registry,
            buckets=_DURATIONS,
        )

    def for_queue(self, name: str) -> QueueMetrics:
        return QueueMetrics(
            self._depth.labels(name), self._adds.labels(name), self._retries.labels(name), self._latency.labels(name)
        )

    def for_controller(self, name: str, kind: str) -> ControllerMetrics:
        return ControllerMetrics(
            successes=self._reconciles.labels(name, kind, "success"),
            conflicts=self._reconciles.labels(name, kind, "conflict"),
            failures=self._reconciles.labels(name, kind, "error"),
            errors=self._errors.labels(name, kind),
            duration=self._duration.labels(name, kind),
            last_reconciled=self._last.labels(name, kind),
        )


@functools.cache
def default() -> Metrics:
    """The one that writes to prometheus-client's own registry."""
    return Metrics(REGISTRY)
