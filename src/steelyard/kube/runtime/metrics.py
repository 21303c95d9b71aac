"""What the runtime tells Prometheus, per kind: reconciles, errors, durations, queue depth, time of the last reconcile.

One `Metrics` per registry; every controller binds its labels once, so that counting costs no look-up in the hot path.
"""

from __future__ import annotations

import functools
import os
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from steelyard.frozen import frozen
from steelyard.kube import exposition
from steelyard.kube.exposition import Registrar

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

_DURATIONS: Final = (0.001, 0.005, 0.025, 0.1, 0.5, 1, 5, 15, 60, 300)
_UNWANTED: Final = "PROMETHEUS_DISABLE_CREATED_SERIES"
"""As prometheus_client has it: says that nobody wants to know since when something is counted."""


class Counter:
    __slots__ = ("since", "value")

    def __init__(self) -> None:
        self.value = 0
        self.since = time.time()

    def inc(self) -> None:
        self.value += 1


class Gauge:
    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def set(self, value: float) -> None:
        self.value = value


class Histogram:
    __slots__ = ("buckets", "since", "sum")

    def __init__(self) -> None:
        self.buckets = [0] * (len(_DURATIONS) + 1)
        self.sum = 0.0
        self.since = time.time()

    def observe(self, seconds: float) -> None:
        self.buckets[bisect_left(_DURATIONS, seconds)] += 1
        self.sum += seconds


_T = TypeVar("_T", Counter, Gauge, Histogram)


class _Family(Generic[_T]):
    def __init__(self, kind: Callable[[], _T], name: str, help_: str, labels: Sequence[str]) -> None:
        self._kind = kind
        self.name = name
        self.help = help_
        self.labels = labels
        self.members: dict[tuple[str, ...], _T] = {}

    def of(self, *labels: str) -> _T:
        found = self.members.get(labels)
        if found is None:
            found = self.members[labels] = self._kind()
        return found


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
    def __init__(self, registry: Registrar) -> None:
        of_kind, of_queue = ("controller", "kind"), ("queue",)
        self._reconciles = _Family(
            Counter,
            "steelyard_reconciles",
            "Reconciles by kind and result: success, conflict, error.",
            (*of_kind, "result"),
        )
        self._errors = _Family(Counter, "steelyard_reconcile_errors", "Reconciles that failed.", of_kind)
        self._duration = _Family(
            Histogram, "steelyard_reconcile_duration_seconds", "How long a reconcile takes.", of_kind
        )
        self._last = _Family(
            Gauge,
            "steelyard_last_reconciled_timestamp_seconds",
            "When an object of the kind was last reconciled without an error.",
            of_kind,
        )
        self._depth = _Family(Gauge, "steelyard_queue_depth", "Objects waiting to be reconciled.", of_queue)
        self._adds = _Family(Counter, "steelyard_queue_adds", "Objects put into the queue.", of_queue)
        self._retries = _Family(Counter, "steelyard_queue_retries", "Objects put back after a failure.", of_queue)
        self._latency = _Family(
            Histogram, "steelyard_queue_latency_seconds", "How long an object waits in the queue.", of_queue
        )
        registry.register(self)

    def for_queue(self, name: str) -> QueueMetrics:
        return QueueMetrics(self._depth.of(name), self._adds.of(name), self._retries.of(name), self._latency.of(name))

    def for_controller(self, name: str, kind: str) -> ControllerMetrics:
        return ControllerMetrics(
            successes=self._reconciles.of(name, kind, "success"),
            conflicts=self._reconciles.of(name, kind, "conflict"),
            failures=self._reconciles.of(name, kind, "error"),
            errors=self._errors.of(name, kind),
            duration=self._duration.of(name, kind),
            last_reconciled=self._last.of(name, kind),
        )

    def collect(self) -> Iterable[Metric]:
        yield _counters(self._reconciles)
        yield _counters(self._errors)
        yield _histograms(self._duration)
        yield _gauges(self._last)
        yield _gauges(self._depth)
        yield _counters(self._adds)
        yield _counters(self._retries)
        yield _histograms(self._latency)


@functools.cache
def default() -> Metrics:
    """The one of the process."""
    return Metrics(exposition.PROCESS)


def _counters(family: _Family[Counter]) -> Metric:
    from prometheus_client.metrics_core import CounterMetricFamily

    made = CounterMetricFamily(family.name, family.help, labels=family.labels)
    for labels, each in family.members.items():
        made.add_metric(labels, each.value, created=each.since if _tells_since() else None)
    return made


def _gauges(family: _Family[Gauge]) -> Metric:
    from prometheus_client.metrics_core import GaugeMetricFamily

    made = GaugeMetricFamily(family.name, family.help, labels=family.labels)
    for labels, each in family.members.items():
        made.add_metric(labels, each.value)
    return made


def _histograms(family: _Family[Histogram]) -> Metric:
    from prometheus_client.metrics_core import HistogramMetricFamily

    made = HistogramMetricFamily(family.name, family.help, labels=family.labels)
    bounds = [*(str(float(bound)) for bound in _DURATIONS), "+Inf"]
    for labels, each in family.members.items():
        made.add_metric(labels, list(zip(bounds, accumulate(each.buckets), strict=True)), each.sum)
        if _tells_since():
            made.add_sample(f"{family.name}_created", dict(zip(family.labels, labels, strict=True)), each.since)
    return made


def _tells_since() -> bool:
    return os.environ.get(_UNWANTED, "").lower() not in ("true", "1", "t")
