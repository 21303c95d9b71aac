"""Strategy of events, of the core group and of events.k8s.io alike.

Whichever way an event comes, it is judged in the form in which it is stored; the newer API asks for more, and wants the
fields of the older one left alone.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from steelyard.kube import fields, namerules, objects
from steelyard.kube.errors import Cause
from steelyard.kube.objects import Object
from steelyard.kube.resources import EVENTS
from steelyard.kube.server.definitions import counterparts
from steelyard.kube.server.strategies import metadata
from steelyard.kube.server.strategies.base import Strategy

_WITHOUT_NAMESPACE: Final = ("default", "kube-system")
_LONGEST: Final = 128
_LONGEST_NOTE: Final = 1024
_ABSENT: Final[tuple[object, ...]] = (None, "", {}, 0)
_FINAL: Final = (
    "involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count", "reason", "type",
    "eventTime", "action", "related", "reportingComponent", "reportingInstance",
)  # fmt: skip
"""What events.k8s.io lets nobody change, in the order in which upstream looks at it."""


class EventStrategy(Strategy):
    is_judged_by_schema = False
    judges_metadata = True
    creates_on_update = True

    def __init__(self, *, is_new: bool) -> None:
        """`is_new` is for events.k8s.io."""
        self._is_new = is_new

    def validate_create(self, obj: Object) -> list[Cause]:
        event = self._stored(obj)
        meta = objects.metadata(event)
        found = self._validate(event)
        if not self._is_new:
            return found or metadata.validate_create(meta, EVENTS)
        named = metadata.validate_create(meta, dataclasses.replace(EVENTS, group=counterparts.EVENTS_GROUP))
        return found + named + self._validate_series(event) + _validate_new(event)

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        event, before = self._stored(obj), self._stored(old)
        found = self._validate(event)
        if not self._is_new:
            return found
        if event.get("series") != before.get("series"):
            found += self._validate_series(event)
        for key in _FINAL:
            value = event.get(key)
            if value != before.get(key) and not (value in _ABSENT and before.get(key) in _ABSENT):
                name = "reportingController" if key == "reportingComponent" else key
                found.append(fields.invalid(name, _shown(key, value), "field is immutable"))
        return found

    def _stored(self, obj: Object) -> Object:
        return counterparts.EVENT.stored(obj) if self._is_new else obj

    def _validate(self, event: Object) -> list[Cause]:
        found: list[Cause] = []
        namespace = objects.namespace(event)
        about = str(objects.at(event, "involvedObject", "namespace") or "")
        if event.get("eventTime"):
            if not about and namespace not in _WITHOUT_NAMESPACE:
                found.append(_misplaced(about))
            found += self._validate_report(event)
        elif about != namespace and (about or namespace not in ("", "default")):
            found.append(_misplaced(about))
        found += [fields.invalid("namespace", namespace, text) for text in namerules.dns_subdomain(namespace)]
        return found

    def _validate_report(self, event: Object) -> list[Cause]:
        """Who says it, and what: an event that says when it happened must say this too."""
        found: list[Cause] = []
        reporter = str(event.get("reportingComponent") or "")
        place = "reportingController" if self._is_new else "reportingComponent"
        if not reporter:
            found.append(fields.required(place))
        found += [fields.invalid(place, reporter, text) for text in namerules.qualified_name(reporter)]
        for key in ("reportingInstance", "action", "reason"):
            text = str(event.get(key) or "")
            if not text:
                found.append(fields.required(key))
            found += _too_long(key, text, _LONGEST)
        return found + _too_long("message", str(event.get("message") or ""), _LONGEST_NOTE)

    def _validate_series(self, event: Object) -> list[Cause]:
        series = event.get("series")
        if not isinstance(series, dict):
            return []
        found: list[Cause] = []
        told = objects.mapping(event["series"])
        if int(told.get("count") or 0) < 2:
            found.append(fields.invalid("series.count", "", "should be at least 2"))
        if not told.get("lastObservedTime"):
            found.append(fields.required("series.lastObservedTime"))
        return found


def _validate_new(event: Object) -> list[Cause]:
    found: list[Cause] = []
    if not event.get("eventTime"):
        found.append(fields.required("eventTime"))
    kind = event.get("type") or ""
    if kind not in ("Normal", "Warning"):
        found.append(fields.invalid("type", "", f"has invalid value: {kind}"))
    old = ("firstTimestamp", "lastTimestamp", "count", "source")
    return found + [fields.invalid(key, "", "needs to be unset") for key in old if event.get(key) not in _ABSENT]


def _misplaced(namespace: str) -> Cause:
    return fields.invalid("involvedObject.namespace", namespace, "does not match event.namespace")


def _too_long(key: str, text: str, limit: int) -> list[Cause]:
    return [fields.invalid(key, "", f"can have at most {limit} characters")] if len(text.encode()) > limit else []


_REFERENCE: Final = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")


def _shown(key: str, value: Any) -> Any:
    """As Go prints it: structures by the names that they have inside kube-apiserver."""
    if key in ("involvedObject", "related") and isinstance(value, dict):
        given = objects.mapping(value)
        inside = {"uid": "UID", "apiVersion": "APIVersion"}
        return fields.Ordered(
            {inside.get(name, name[0].upper() + name[1:]): given.get(name) or "" for name in _REFERENCE}
        )
    if key == "source":
        given = objects.mapping(value)
        return fields.Ordered({"Component": given.get("component") or "", "Host": given.get("host") or ""})
    if key == "count":
        return value or 0
    return value or ("" if key in ("reason", "message", "type", "action") or key.startswith("reporting") else None)
