"""Events go by themselves: an hour after they were last written, as upstream's do.

When an event was last written is seen from its own metadata: nothing besides is stored, and a restart changes nothing.
In memory the events are kept in the order in which they will go; there is one timer, for the first of them, and none
while there are no events. Each goes by a deletion like any other, so that watchers are told.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from steelyard.kube import ages, objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import EVENTS
from steelyard.kube.server.core import Core
from steelyard.kube.server.space.background import Work
from steelyard.kube.store.record import Change, Record

TTL: Final = timedelta(hours=1)
_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Expiry(Work):
    def __init__(self, core: Core, ttl: timedelta = TTL) -> None:
        super().__init__()
        self._core = core
        self._ttl = ttl
        self._prefix = core.prefix(EVENTS)
        self._written: OrderedDict[str, datetime] = OrderedDict()
        """Key to when the event was last written, the oldest first."""
        self._timer: asyncio.TimerHandle | None = None

    def load(self, records: Iterable[Record]) -> None:
        now = self._core.now()
        events = [record for record in records if record.key.startswith(self._prefix)]
        written = sorted((min(_last_write(record.object), now), record.key) for record in events)
        self._written = OrderedDict((key, moment) for moment, key in written)
        self._set_timer()

    def observe(self, change: Change) -> None:
        if not change.key.startswith(self._prefix):
            return
        self._written.pop(change.key, None)
        if change.record is not None:
            self._written[change.key] = self._core.now()
            if self._timer is None:
                self._set_timer()

    def process(self, item: str) -> None:
        """An event that was written again meanwhile stays; once that is durable, it has its place in the order anew."""
        record = self._core.store.head(item)
        if record is not None and item not in self._written and record is self._core.store.get(item):
            self.write(self._core.drop(record, expect=record.revision), item)

    def _is_over(self, written: datetime) -> bool:
        return written + self._ttl <= self._core.now()

    def _expire(self) -> None:
        self._timer = None
        while self._written:
            key, written = next(iter(self._written.items()))
            if not self._is_over(written):
                break
            del self._written[key]
            self.retry(key)
        self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._written:
            first = next(iter(self._written.values()))
            wait = max(0.0, (first + self._ttl - self._core.now()).total_seconds())
            self._timer = asyncio.get_running_loop().call_later(wait, self._expire)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _last_write(event: Object) -> datetime:
    """Whoever writes an event leaves a time in its managed fields."""
    metadata = objects.metadata(event)
    entries = map(objects.mapping, objects.sequence(metadata.get("managedFields")))
    times = [metadata.get("creationTimestamp"), *(each.get("time") for each in entries)]
    return max((moment for moment in map(ages.parse, times) if moment is not None), default=_LONG_AGO)
