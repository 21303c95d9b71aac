"""DatabaseUsage, one reconcile: takes the last look at the server, and reports it if it says something new."""

from __future__ import annotations

from typing import Final

from steelyard.api.databases import USAGES, DatabaseUsageSpec, DatabaseUsageStatus
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.runtime import clock as clocks
from steelyard.kube.runtime.controller import Result
from steelyard.kube.runtime.keys import Key
from steelyard.providers.postgres import ours, reports
from steelyard.providers.postgres.parts import Tools
from steelyard.providers.postgres.problems import Problem
from steelyard.providers.postgres.usage import plan
from steelyard.providers.postgres.usage.looking import Watchman

INTERVAL: Final = 60.0
"""Seconds between looks at a server."""
_SHARED_WITHIN: Final = 0.5
"""Seconds after a look is due in which all objects of the server come for it: the first looks, the others share."""


def reconciler(tools: Tools) -> DatabaseUsageReconciler:
    return DatabaseUsageReconciler(tools)


class DatabaseUsageReconciler:
    def __init__(self, tools: Tools, *, interval: float = INTERVAL) -> None:
        self._tools = tools
        self._client = tools.client
        self._clock = tools.clock
        self._interval = interval
        self._watchmen: dict[str, Watchman] = {}
        self._places: dict[Key, tuple[str, str]] = {}

    async def reconcile(self, key: Key) -> Result:
        obj = await reports.fetch(self._client, USAGES, key)
        if obj is None or objects.is_being_deleted(obj):
            self._forget(key)
            return Result()
        if reports.is_paused(obj) or ours.is_on_its_way(self._client, obj):
            return Result()
        spec = DatabaseUsageSpec.model_validate(obj["spec"])
        watchman = self._watchman(key, spec)
        try:
            size = await watchman.size_of(spec.database)
        except Problem as problem:
            await reports.failed(self._client, USAGES, key, self._clock, problem)
        else:
            await self._report(obj, spec, size)
        return Result(requeue_after=watchman.next_look_in + _SHARED_WITHIN)

    def _watchman(self, key: Key, spec: DatabaseUsageSpec) -> Watchman:
        config = spec.provider_config_ref.name
        if self._places.get(key) != (config, spec.database):
            self._forget(key)
            self._places[key] = (config, spec.database)
        if config not in self._watchmen:
            self._watchmen[config] = Watchman(self._tools.servers, config, self._clock, self._interval)
        return self._watchmen[config]

    def _forget(self, key: Key) -> None:
        place = self._places.pop(key, None)
        if place is not None and place not in self._places.values():
            self._watchmen[place[0]].forget(place[1])

    async def _report(self, obj: Object, spec: DatabaseUsageSpec, size: int | None) -> None:
        if size is None:
            missing = reports.unavailable(f"There is no database {spec.database} on the server.", "DatabaseMissing")
            more: Object = {"sizeBytes": None, "percent": None, "measuredAt": None}
            await reports.report(self._client, USAGES, obj, self._clock, [missing, reports.SYNCED], more)
            return
        status = DatabaseUsageStatus.model_validate(obj.get("status") or {})
        more = {}
        if plan.is_news(plan.Reported(status.size_bytes, status.percent), size, spec.limit_bytes):
            more = {
                "sizeBytes": size,
                "percent": plan.percent(size, spec.limit_bytes),
                "measuredAt": clocks.rfc3339(self._clock.now()),
            }
        await reports.report(self._client, USAGES, obj, self._clock, [reports.AVAILABLE, reports.SYNCED], more)
