"""watch: the changes of a resource as events, from now, from a revision, or from the current state.

A stream is fed by one subscription to the store and holds nothing else. Bookmarks, which tell a quiet watcher how far
it may resume from, come from one sweep over all streams of the process, so that a thousand idle watches need one timer.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from typing import Final, Literal
from weakref import WeakSet

import orjson

from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from steelyard.kube.server import listoptions, selection, tables
from steelyard.kube.server.call import Call
from steelyard.kube.server.core import Core, raw, shown_all, unavailable, view
from steelyard.kube.server.listoptions import ListOptions
from steelyard.kube.server.reading import not_older_than
from steelyard.kube.server.registry import Served
from steelyard.kube.server.selection import Selection
from steelyard.kube.store.errors import Compacted, Lagging, StoreError
from steelyard.kube.store.record import Change, Record
from steelyard.kube.store.watch import Subscription

EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
SWEEP_SECONDS: Final = 60.0
_PRECISE_TIMEOUT: Final = 120
"""A shorter time-out gets a timer of its own; longer ones end at the next sweep."""
_LAST_BOOKMARK: Final = 2
"""Seconds before a time-out at which a watcher is told how far it has come."""
_DEFAULT_TIMEOUT: Final = (1800, 3600)
_PREFIXES: Final[dict[str, bytes]] = {
    type_: b'{"type":"%b","object":' % type_.encode() for type_ in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK")
}

_SHARED_ITEMS: Final = 32
_WORTH_KEEPING: Final = 64 * 1024
"""Bytes of a line that is kept for the next watcher; larger ones are made for each, since they would add up."""

Encode = Callable[[Object], bytes]


class WatchItem:
    """One event. `object` is shared and read-only; `encoded` is the line that a watch sends for it."""

    __slots__ = ("_encode", "_line", "_object", "_record", "_served", "type")

    def __init__(
        self,
        type_: EventType,
        served: Served,
        *,
        record: Record | None = None,
        obj: Object | None = None,
        encode: Encode | None = None,
    ) -> None:
        self.type: EventType = type_
        self._served = served
        self._record = record
        self._object = obj
        self._encode = encode
        self._line = b""

    @property
    def object(self) -> Object:
        if self._object is None:
            assert self._record is not None
            self._object = view(self._record, self._served)
        return self._object

    def encoded(self) -> bytes:
        if self._line:
            return self._line
        if self._encode is not None:
            body = self._encode(self.object)
        elif self._record is not None:
            body = raw(self._record.value, self._served)
        else:
            body = orjson.dumps(self._object)
        line = b"%b%b}\n" % (_PREFIXES[self.type], body)
        if len(line) <= _WORTH_KEEPING:
            self._line = line
        return line


class _Shared:
    """The events of the newest changes, for all who watch the same: what a hundred watchers get is made once."""

    def __init__(self) -> None:
        self._items: dict[tuple[int, int], tuple[Change, Served, WatchItem]] = {}
        """By identity of change and resource, which are held so that nothing else can take it."""

    def item(self, change: Change, served: Served) -> WatchItem:
        key = (id(change), id(served))
        known = self._items.get(key)
        if known is not None:
            return known[2]
        if change.record is None:
            item = WatchItem("DELETED", served, record=change.final or change.previous)
        else:
            item = WatchItem("ADDED" if change.previous is None else "MODIFIED", served, record=change.record)
        self._items[key] = (change, served, item)
        if len(self._items) > _SHARED_ITEMS:
            del self._items[next(iter(self._items))]
        return item


_SHARED: Final = _Shared()


class WatchStream:
    """An async iterator of events with one consumer. It ends when it is closed, times out, or the server stops.

    Raises `errors.Expired` when the consumer was too slow or history went away under it: list again.
    """

    __slots__ = (
        "__weakref__", "_after", "_bookmarks", "_core", "_encode", "_failure", "_initial", "_is_plain", "_selection",
        "_served", "_subscription", "_timer", "_unconverted", "deadline",
    )  # fmt: skip

    def __init__(self, core: Core, served: Served, call: Call) -> None:
        options = listoptions.of_watch(call.options)
        self._core = core
        self._served = served
        self._selection: Selection = selection.of(call, served)
        self._encode = _encoder(core, served, call)
        self._is_plain = not self._selection and self._encode is None
        self._bookmarks = options.bookmarks
        self._failure: errors.ApiError | None = None
        """Why there is nothing to watch; told within the stream, as everything that ends one."""
        self._after = 0
        """A revision that is yet to come: events up to it are not for this watcher."""
        self._initial: deque[WatchItem] = deque()
        self._unconverted: list[Record] = []
        """What the stream begins with, while a webhook has yet to convert it."""
        self._timer: asyncio.TimerHandle | None = None
        self._subscription = self._subscribe(call, options)
        timeout = max(0, options.timeout) or random.uniform(*_DEFAULT_TIMEOUT)  # noqa: S311 no secret, spreads reconnects
        loop = asyncio.get_running_loop()
        self.deadline = loop.time() + timeout
        if timeout <= _LAST_BOOKMARK:
            self._timer = loop.call_later(timeout, self.close)
        elif timeout <= _PRECISE_TIMEOUT:
            self._timer = loop.call_later(timeout - _LAST_BOOKMARK, self._end_soon)
        core.streams.add(self)
        _SWEEP.add(self)

    def __aiter__(self) -> WatchStream:
        return self

    async def __anext__(self) -> WatchItem:
        if self._failure is not None:
            raise self._failure
        if self._unconverted:
            await self._convert_initial()
        if self._initial:
            return self._initial.popleft()
        while True:
            try:
                change = await self._subscription.__anext__()
            except StoreError as error:
                raise _gone(error) from None
            if self._served.conversion is not None:
                [change] = await self._converted([change])
            item = self._item(change)
            if item is not None:
                return item

    async def batch(self) -> list[WatchItem]:
        """All events that are there, at least one; an empty list at the end."""
        if self._failure is not None:
            raise self._failure
        if self._unconverted:
            await self._convert_initial()
        if self._initial:
            items = list(self._initial)
            self._initial.clear()
            return items
        while True:
            try:
                changes = await self._subscription.batch()
            except StoreError as error:
                raise _gone(error) from None
            if self._served.conversion is not None:
                changes = await self._converted(changes)
            items = [item for change in changes if (item := self._item(change)) is not None]
            if items or not changes:
                return items

    @property
    def kind(self) -> str:
        """What is watched, as its definition would be called: `machines.cluster.x-k8s.io`."""
        return self._served.resource.group_resource

    def close(self) -> None:
        self._subscription.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._core.streams.discard(self)
        _SWEEP.discard(self)

    def expire(self) -> None:
        """Ends the stream as a time-out does: with a last bookmark."""
        self.bookmark()
        self.close()

    def _end_soon(self) -> None:
        self.bookmark()
        self._timer = asyncio.get_running_loop().call_later(_LAST_BOOKMARK, self.close)

    def bookmark(self) -> None:
        if self._bookmarks:
            self._subscription.push(Change(self._core.store.revision, "", None, None))

    def _subscribe(self, call: Call, options: ListOptions) -> Subscription:
        core, served = self._core, self._served
        revision = options.revision
        wants_initial = not revision if options.send_initial is None else options.send_initial
        prefix = core.prefix(served.resource, call.namespace)
        store = core.store
        start = store.revision if wants_initial or not revision else revision
        try:
            if wants_initial:
                not_older_than(core, revision)
            subscription = store.watch(prefix, min(start, store.revision))
        except (StoreError, errors.ApiError) as error:
            self._failure = _gone(error) if isinstance(error, StoreError) else error
            return store.watch(prefix, store.revision)
        self._after = start if start > store.revision else 0
        if wants_initial:
            records = store.scan(prefix)
            if served.conversion is None:
                self._add_initial(records)
            else:
                self._unconverted = records
            if options.send_initial is not None and self._bookmarks:
                self._initial.append(self._bookmark(store.revision, {INITIAL_EVENTS_END: "true"}))
        return subscription

    def _add_initial(self, records: list[Record]) -> None:
        chosen = self._selection
        for record in records:
            if not chosen or chosen.matches(record):
                self._initial.append(WatchItem("ADDED", self._served, record=record, encode=self._encode))

    async def _convert_initial(self) -> None:
        """Puts the objects, once they are in the served version, before what follows them."""
        after = list(self._initial)
        self._initial.clear()
        records, self._unconverted = self._unconverted, []
        self._add_initial(await shown_all(self._core, self._served, records))
        self._initial.extend(after)

    async def _converted(self, changes: list[Change]) -> list[Change]:
        """The changes with every state in the served version, all converted with one call."""
        states: list[Record | None] = []
        for change in changes:
            states += (change.record, change.previous, change.final)
        known = [state for state in states if state is not None]
        converted = iter(await shown_all(self._core, self._served, known))
        shown = [next(converted) if state is not None else None for state in states]
        return [
            Change(change.revision, change.key, *shown[index * 3 : index * 3 + 3])
            for index, change in enumerate(changes)
        ]

    def _item(self, change: Change) -> WatchItem | None:
        if change.revision <= self._after:
            return None
        if not change.key:
            return self._bookmark(change.revision, None)
        served, chosen, encode = self._served, self._selection, self._encode
        record, previous = change.record, change.previous
        if self._is_plain:
            return _SHARED.item(change, served)
        if not chosen:
            if record is None:
                return WatchItem("DELETED", served, record=change.final or previous, encode=encode)
            return WatchItem("ADDED" if previous is None else "MODIFIED", served, record=record, encode=encode)
        matches = record is not None and chosen.matches(record)
        matched = previous is not None and chosen.matches(previous)
        if matches:
            return WatchItem("MODIFIED" if matched else "ADDED", served, record=record, encode=encode)
        if not matched or previous is None:
            return None
        if record is None:
            return WatchItem("DELETED", served, record=change.final or previous, encode=encode)
        # To this watcher the object is gone: it gets the last state it was told of, with the revision of the change.
        obj = view(previous, served)
        stamped = {**obj, "metadata": {**objects.metadata(obj), "resourceVersion": str(change.revision)}}
        return WatchItem("DELETED", served, obj=stamped, encode=encode)

    def _bookmark(self, revision: int, annotations: dict[str, str] | None) -> WatchItem:
        metadata: Object = {"resourceVersion": str(revision)}
        if annotations:
            metadata["annotations"] = annotations
        resource = self._served.resource
        obj: Object = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
        return WatchItem("BOOKMARK", self._served, obj=obj, encode=self._encode)


def _encoder(core: Core, served: Served, call: Call) -> Encode | None:
    if call.representation == "object":
        return None
    if call.representation == "metadata":
        return lambda obj: orjson.dumps(tables.partial(obj, call.meta_version))
    return _tables(core, served, call)


def _tables(core: Core, served: Served, call: Call) -> Encode:
    include = tables.include_option(call.options.get("includeObject", ""))
    is_first = True

    def table(obj: Object) -> bytes:
        nonlocal is_first
        metadata: Object = {"resourceVersion": objects.resource_version(obj)}
        rendered = tables.render(
            served.columns,
            [obj],
            metadata,
            now=core.now(),
            include=include,
            version=call.meta_version,
            names_columns=is_first,
        )
        is_first = False
        return orjson.dumps(rendered)

    return table


def _gone(error: StoreError) -> errors.ApiError:
    if isinstance(error, Compacted):
        return errors.Expired(f"too old resource version: {error.revision} ({error.compacted})")
    if isinstance(error, Lagging):
        return errors.Expired("the watch could not keep up with the changes: list again and watch from there")
    return unavailable(error)


class _Sweep:
    """Visits every open stream about once a minute; runs only while there are streams."""

    def __init__(self) -> None:
        self._streams: WeakSet[WatchStream] = WeakSet()
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def add(self, stream: WatchStream) -> None:
        self._streams.add(stream)
        loop = asyncio.get_running_loop()
        if self._loop is not loop or self._timer is None:
            # A timer of a loop that has ended never fires.
            self._loop = loop
            self._timer = loop.call_later(SWEEP_SECONDS, self._run)

    def discard(self, stream: WatchStream) -> None:
        self._streams.discard(stream)
        if not self._streams and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _run(self) -> None:
        assert self._loop is not None
        self._timer = self._loop.call_later(SWEEP_SECONDS, self._run)
        now = self._loop.time()
        for stream in list(self._streams):
            if stream.deadline <= now:
                stream.expire()
            else:
                stream.bookmark()


_SWEEP = _Sweep()
