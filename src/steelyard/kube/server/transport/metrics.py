"""Request metrics under upstream's names, so that existing dashboards work.

Requests are counted in plain lists and turned into Prometheus families when scraped: prometheus_client's own counters
and histograms cost a tenth of a small request. Labels come from resources that exist, so a client that makes up names
makes up no time series.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from steelyard.kube import exposition
from steelyard.kube.exposition import Registrar

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
Labels = tuple[str, str, str, str]
"""Verb, group, version, resource."""

_NAMES: Final = ("verb", "group", "version", "resource")
_BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class _Durations:
    __slots__ = ("buckets", "seconds")

    def __init__(self) -> None:
        self.buckets = [0] * (len(_BOUNDS) + 1)
        self.seconds = 0.0


class RequestMetrics:
    """Counts requests by what they asked for and how they were answered. Watches last, so only their number counts."""

    def __init__(self, registry: Registrar) -> None:
        self.registry = registry
        self._totals: dict[tuple[Labels, int], int] = {}
        self._durations: dict[Labels, _Durations] = {}
        registry.register(self)

    def count(self, labels: Labels, code: int) -> None:
        key = (labels, code)
        self._totals[key] = self._totals.get(key, 0) + 1

    def record(self, labels: Labels, code: int, seconds: float) -> None:
        key = (labels, code)
        self._totals[key] = self._totals.get(key, 0) + 1
        durations = self._durations.get(labels)
        if durations is None:
            durations = self._durations[labels] = _Durations()
        durations.buckets[bisect_left(_BOUNDS, seconds)] += 1
        durations.seconds += seconds

    def collect(self) -> Iterable[Metric]:
        from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily

        totals = CounterMetricFamily("apiserver_request", "Requests answered.", labels=[*_NAMES, "code"])
        for (labels, code), number in self._totals.items():
            totals.add_metric([*labels, str(code)], number)
        durations = HistogramMetricFamily(
            "apiserver_request_duration_seconds",
            "Seconds from a request to its answer, watches left out.",
            labels=_NAMES,
        )
        bounds = [*(str(bound) for bound in _BOUNDS), "+Inf"]
        for labels, found in self._durations.items():
            counts = accumulate(found.buckets)
            durations.add_metric(labels, list(zip(bounds, counts, strict=True)), found.seconds)
        return [totals, durations]

    def exposition(self) -> bytes:
        return exposition.text(self.registry)


DEFAULT: Final = RequestMetrics(exposition.PROCESS)
"""Shared by all listeners of the process."""
