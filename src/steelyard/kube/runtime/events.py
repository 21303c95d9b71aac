"""Events on objects, for `kubectl describe`: recorded in the background, never failing or delaying a reconcile.

An event that repeats patches the count of the one that is there, and keeps doing so after a restart, since an event's
name derives from what it says. Many events alike but for their message become one "(combined from similar events)", and
an object that goes on and on gets one event per five minutes after its first 25. There is no task and no timer while
nothing is recorded.
"""

from __future__ import annotations

import asyncio
import collections
import datetime
import hashlib
from dataclasses import dataclass, field
from typing import Literal

from steelyard.frozen import frozen
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import EVENTS
from steelyard.kube.runtime import clock as clocks
from steelyard.kube.runtime import logs

EventKind = Literal["Normal", "Warning"]

_REMEMBERED = 4096
_QUEUED = 1000
_SIMILAR_LIMIT = 10
_SIMILAR_WINDOW = 600.0
_BURST = 25
_REFILL_SECONDS = 300.0
_LONGEST_NAME = 230
_LONGEST_MESSAGE = 1024

_log = logs.get(__name__)


@dataclass(slots=True)
class _Budget:
    tokens: float
    at: float


@dataclass(slots=True)
class _Similar:
    since: float
    messages: set[str] = field(default_factory=set[str])


@frozen
class _Occurrence:
    involved: Object
    kind: EventKind
    reason: str
    message: str
    at: datetime.datetime


class Recorder:
    def __init__(self, client: Client, component: str, *, clock: clocks.Clock = clocks.SYSTEM) -> None:
        """`component` is who reports, as `kubectl describe` shows it in the From column."""
        self._client = client
        self._component = component
        self._clock = clock
        self._pending: collections.deque[_Occurrence] = collections.deque()
        self._writer: asyncio.Task[None] | None = None
        self._counts: collections.OrderedDict[tuple[str, str], int] = collections.OrderedDict()
        self._budgets: collections.OrderedDict[str, _Budget] = collections.OrderedDict()
        self._similar: collections.OrderedDict[tuple[str, str, str], _Similar] = collections.OrderedDict()

    def normal(self, obj: Object, reason: str, message: str) -> None:
        self.record(obj, "Normal", reason, message)

    def warning(self, obj: Object, reason: str, message: str) -> None:
        self.record(obj, "Warning", reason, message)

    def record(self, obj: Object, kind: EventKind, reason: str, message: str) -> None:
        """Returns at once. What exceeds the object's budget or the queue is dropped."""
        involved = _reference(obj)
        if len(self._pending) >= _QUEUED or not self._is_within_budget(str(involved["uid"])):
            return
        message = self._combined(str(involved["uid"]), reason, kind, message[:_LONGEST_MESSAGE])
        self._pending.append(_Occurrence(involved, kind, reason, message, self._clock.now()))
        if self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._write_pending(), name="events")

    async def flush(self) -> None:
        """Waits until everything recorded so far has been written, or given up."""
        if self._writer is not None:
            await asyncio.shield(self._writer)

    async def _write_pending(self) -> None:
        try:
            while self._pending:
                occurrence = self._pending.popleft()
                try:
                    await self._write(occurrence)
                except errors.ApiError as error:
                    _log.warning("event not recorded", error=error.message, reason=occurrence.reason)
                except Exception:
                    # Events are for information: whoever recorded one goes on, and so does the next event.
                    _log.exception("event not recorded", reason=occurrence.reason)
        finally:
            self._writer = None

    async def _write(self, occurrence: _Occurrence) -> None:
        namespace = str(occurrence.involved.get("namespace") or "default")
        name = _name(occurrence, self._component)
        count = self._counts.get((namespace, name), 0)
        if not count:
            try:
                await self._client.create(EVENTS, self._event(occurrence, namespace, name))
                self._remember(namespace, name, 1)
                return
            except errors.AlreadyExists:
                live = await self._client.get(EVENTS, name, namespace)
                count = int(live.get("count") or 1)
        patch: Object = {
            "count": count + 1,
            "lastTimestamp": clocks.rfc3339(occurrence.at),
            "message": occurrence.message,
        }
        try:
            await self._client.patch(EVENTS, name, patch, namespace)
            self._remember(namespace, name, count + 1)
        except errors.NotFound:
            await self._client.create(EVENTS, self._event(occurrence, namespace, name))
            self._remember(namespace, name, 1)

    def _event(self, occurrence: _Occurrence, namespace: str, name: str) -> Object:
        stamp = clocks.rfc3339(occurrence.at)
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": occurrence.involved,
            "reason": occurrence.reason,
            "message": occurrence.message,
            "type": occurrence.kind,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": "",
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "count": 1,
        }

    def _remember(self, namespace: str, name: str, count: int) -> None:
        self._counts[namespace, name] = count
        self._counts.move_to_end((namespace, name))
        if len(self._counts) > _REMEMBERED:
            self._counts.popitem(last=False)

    def _is_within_budget(self, uid: str) -> bool:
        now = self._clock.monotonic()
        budget = self._budgets.setdefault(uid, _Budget(float(_BURST), now))
        self._budgets.move_to_end(uid)
        if len(self._budgets) > _REMEMBERED:
            self._budgets.popitem(last=False)
        budget.tokens = min(budget.tokens + (now - budget.at) / _REFILL_SECONDS, float(_BURST))
        budget.at = now
        if budget.tokens < 1:
            return False
        budget.tokens -= 1
        return True

    def _combined(self, uid: str, reason: str, kind: str, message: str) -> str:
        now = self._clock.monotonic()
        similar = self._similar.setdefault((uid, reason, kind), _Similar(now))
        self._similar.move_to_end((uid, reason, kind))
        if len(self._similar) > _REMEMBERED:
            self._similar.popitem(last=False)
        if now - similar.since > _SIMILAR_WINDOW:
            similar.since = now
            similar.messages.clear()
        if message in similar.messages or len(similar.messages) < _SIMILAR_LIMIT:
            similar.messages.add(message)
            return message
        return f"{_COMBINED}{message}"


_COMBINED = "(combined from similar events): "


def _name(occurrence: _Occurrence, component: str) -> str:
    """Equal for occurrences that count as the same event."""
    message = _COMBINED if occurrence.message.startswith(_COMBINED) else occurrence.message
    parts = (str(occurrence.involved["uid"]), component, occurrence.kind, occurrence.reason, message)
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    return f"{str(occurrence.involved['name'])[:_LONGEST_NAME]}.{digest}"


def _reference(obj: Object) -> Object:
    reference: Object = {
        "apiVersion": obj.get("apiVersion"),
        "kind": obj.get("kind"),
        "name": objects.name(obj),
        "uid": objects.uid(obj),
        "resourceVersion": objects.resource_version(obj),
    }
    if objects.namespace(obj):
        reference["namespace"] = objects.namespace(obj)
    return reference
