"""watch: the changes of a resource as events, from now, from a revision, or from the current state.

A stream is fed by one subscription to the store and holds nothing else. What many watchers are told is made once: the
line of a small object, and of a large one what stands around its stored bytes. Bookmarks, which tell a quiet watcher
how far it may resume from, come from one sweep over all streams of the process, so that a thousand idle watches need
one timer.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Literal
from weakref import WeakSet

import orjson

from steelyard.kube import errors, objects, turns
from steelyard.kube.objects import Object
from steelyard.kube.server.bodies import listoptions
from steelyard.kube.server.bodies.listoptions import ListOptions
from steelyard.kube.server.call import Call
from steelyard.kube.server.catalogue import fitting
from steelyard.kube.server.catalogue.registry import Served
from steelyard.kube.server.core import Core, raw, shown_all, unavailable, view
from steelyard.kube.server.printing import tables
from steelyard.kube.server.verbs import selection
from steelyard.kube.server.verbs.reading import not_older_than
from steelyard.kube.server.verbs.selection import Selection
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

_SHARED_ITEMS: Final = 64
_SHARED_BYTES: Final = 2 * 1024 * 1024
_SHARED_BATCH_BYTES: Final = 256 * 1024
_WORTH_JOINING: Final = 64 * 1024
"""Bytes of an object whose line is put together and kept for the next watcher."""

Encode = Callable[[Object], bytes]


class WatchItem:
    """One event. `object` is shared and read-only; `pieces` are, one after the other, the line that a watch sends.

    Of a record no object is kept here: it takes many times the memory of its JSON, and the record knows how long it is
    worth that.
    """

    __slots__ = ("_encode", "_is_shared", "_object", "_pieces", "_record", "_revision", "_served", "type")

    def __init__(
        self,
        type_: EventType,
        served: Served,
        *,
        record: Record | None = None,
        revision: int = 0,
        obj: Object | None = None,
        encode: Encode | None = None,
        is_shared: bool = False,
    ) -> None:
        """`revision` is shown instead of the record's own."""
        self.type: EventType = type_
        self._served = served
        self._record = record
        self._revision = revision
        self._object = obj
        self._encode = encode
        self._is_shared = is_shared
        self._pieces: tuple[bytes, ...] = ()

    @property
    def object(self) -> Object:
        if self._record is None:
            assert self._object is not None
            return self._object
        shown = view(self._record, self._served)
        if not self._revision:
            return shown
        return {**shown, "metadata": {**objects.metadata(shown), "resourceVersion": str(self._revision)}}

    def encoded(self) -> bytes:
        return b"".join(self.pieces())

    def pieces(self) -> tuple[bytes, ...]:
        if self._pieces:
            return self._pieces
        body = self._body()
        prefix = _PREFIXES[self.type]
        pieces = (b"%b%b}\n" % (prefix, body),) if len(body) <= _WORTH_JOINING else (prefix, body, b"}\n")
        if self._is_shared:
            self._pieces = pieces
            if self._record is None or self._record.source is not None or body is not self._record.value_at_hand:
                _SHARED.grow(len(body))
        return pieces

    def _body(self) -> bytes:
        if self._encode is not None:
            return self._encode(self.object)
        if self._record is None or self._revision:
            return orjson.dumps(self.object)
        return raw(self._record.value, self._served)


class _Shared:
    """The events of the newest changes, for all who watch the same: what a hundred watchers get is made once."""

    def __init__(self) -> None:
        self._items: dict[tuple[int, int, str, str], tuple[Change, Served, WatchItem]] = {}
        """By identity of change and resource, which are held so that nothing else can take it, type and form."""
        self._bytes = 0
        self._batch: tuple[list[Change], Served, str, list[WatchItem]] | None = None
        """What the last watcher was told at once."""

    def batch(
        self, changes: list[Change], served: Served, form: str, make: Callable[[Change], WatchItem | None]
    ) -> list[WatchItem]:
        """What `make` makes of the changes: the same list for all who are told of the same ones in one form."""
        last = self._batch
        # Changes are compared by identity, so this takes next to nothing, however many they are.
        if last is not None and last[0] == changes and last[1] is served and last[2] == form:
            return last[3]
        items = [item for change in changes if (item := make(change)) is not None]
        is_small = len(changes) <= _SHARED_ITEMS and sum(map(_weight, changes)) <= _SHARED_BATCH_BYTES
        self._batch = (changes, served, form, items) if is_small else None
        return items

    def item(self, change: Change, served: Served, type_: EventType, form: str, encode: Encode | None) -> WatchItem:
        """The change as an event of that type; `form` names what `encode` makes of an object."""
        key = (id(change), id(served), type_, form)
        known = self._items.get(key)
        if known is not None:
            return known[2]
        item = _made(change, served, type_, encode, is_shared=True)
        self.grow(_weight(change))
        if len(self._items) >= _SHARED_ITEMS:
            del self._items[next(iter(self._items))]
        self._items[key] = (change, served, item)
        return item

    def grow(self, size: int) -> None:
        """So many bytes are held for an item that would not be without it; too many, and all begins anew."""
        self._bytes += size
        if self._bytes > _SHARED_BYTES:
            self._items.clear()
            self._batch = None
            self._bytes = 0


_SHARED: Final = _Shared()


def _weight(change: Change) -> int:
    """Bytes of all states that it keeps."""
    return sum(state.size for state in (change.record, change.previous, change.final) if state is not None)


def _made(change: Change, served: Served, type_: EventType, encode: Encode | None, *, is_shared: bool) -> WatchItem:
    record = change.record or change.final or change.previous
    if change.record is None or type_ != "DELETED":
        return WatchItem(type_, served, record=record, encode=encode, is_shared=is_shared)
    # To these watchers the object is gone: they get the last state they were told of, with the revision of the change.
    assert change.previous is not None
    gone, revision = change.previous, change.revision
    return WatchItem(type_, served, record=gone, revision=revision, encode=encode, is_shared=is_shared)


class WatchStream:
    """An async iterator of events with one consumer. It ends when it is closed, times out, or the server stops.

    Raises `errors.Expired` when the consumer was too slow or history went away under it: list again.
    """

    __slots__ = (
        "__weakref__", "_after", "_beginning", "_bookmarks", "_core", "_encode", "_failure", "_form", "_initial",
        "_sees_all", "_selection", "_served", "_subscription", "_timer", "deadline",
    )  # fmt: skip

    def __init__(self, core: Core, served: Served, call: Call) -> None:
        options = listoptions.of_watch(call.options)
        self._core = core
        self._served = served
        self._selection: Selection = selection.of(call, served)
        self._sees_all = not self._selection
        self._encode = _encoder(core, served, call)
        self._form = _form(call)
        """What watchers share who see objects alike; nothing where each sees its own."""
        self._bookmarks = options.bookmarks
        self._failure: errors.ApiError | None = None
        """Why there is nothing to watch; told within the stream, as everything that ends one."""
        self._after = 0
        """A revision that is yet to come: events up to it are not for this watcher."""
        self._initial: deque[WatchItem] = deque()
        self._beginning: list[Record] = []
        """What the stream begins with, while it has yet to be selected, and converted where a webhook does that."""
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
        if self._beginning:
            await self._begin()
        if self._initial:
            return self._initial.popleft()
        while True:
            try:
                change = await self._subscription.__anext__()
            except StoreError as error:
                raise _gone(error) from None
            [change] = await self._shown([change])
            item = self._item(change)
            if item is not None:
                return item

    async def batch(self) -> Sequence[WatchItem]:
        """All events that are there, at least one; nothing at the end."""
        if self._failure is not None:
            raise self._failure
        if self._beginning:
            await self._begin()
        if self._initial:
            items = list(self._initial)
            self._initial.clear()
            return items
        while True:
            try:
                changes = await self._subscription.batch()
            except StoreError as error:
                raise _gone(error) from None
            if self._served.custom is not None or self._served.conversion is not None:
                changes = await self._shown(changes)
            items = self._items(changes)
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
            # What this process watches itself is not even told of what lacks its labels. Others are told, and look in
            # their own time.
            is_own = call.flow is None and bool(self._selection.needles)
            concerns = self._selection.may_concern if is_own else None
            subscription = store.watch(prefix, min(start, store.revision), concerns)
        except (StoreError, errors.ApiError) as error:
            self._failure = _gone(error) if isinstance(error, StoreError) else error
            return store.watch(prefix, store.revision)
        self._after = start if start > store.revision else 0
        if wants_initial:
            is_flat = bool(call.namespace) or not served.resource.namespaced
            self._beginning = self._selection.among(store, prefix, is_flat=is_flat)
            if options.send_initial is not None and self._bookmarks:
                self._initial.append(self._bookmark(store.revision, {INITIAL_EVENTS_END: "true"}))
        return subscription

    async def _begin(self) -> None:
        """Puts the objects that are there before what follows them."""
        after = list(self._initial)
        self._initial.clear()
        records, self._beginning = self._beginning, []
        records = await shown_all(self._core, self._served, records)
        served, encode = self._served, self._encode
        chosen = records if self._sees_all else await self._selection.choose(records)
        added = await turns.paced(lambda record: WatchItem("ADDED", served, record=record, encode=encode), chosen)
        self._initial.extend((*added, *after))

    async def _shown(self, changes: list[Change]) -> list[Change]:
        """The changes with every state as it is read, all converted with one call."""
        served = self._served
        if served.conversion is None:
            return fitting.fitted_changes(self._core.registry, served, changes) if served.custom else changes
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

    def _items(self, changes: list[Change]) -> list[WatchItem]:
        if self._sees_all and self._form and not self._after:
            return _SHARED.batch(changes, self._served, self._form, self._item)
        return [item for change in changes if (item := self._item(change)) is not None]

    def _item(self, change: Change) -> WatchItem | None:
        if change.revision <= self._after:
            return None
        if not change.key:
            return self._bookmark(change.revision, None)
        type_ = self._type_of(change)
        if type_ is None:
            return None
        if self._form:
            return _SHARED.item(change, self._served, type_, self._form, self._encode)
        return _made(change, self._served, type_, self._encode, is_shared=False)

    def _type_of(self, change: Change) -> EventType | None:
        """What the change is to this watcher; None if it is nothing."""
        chosen, record, previous = self._selection, change.record, change.previous
        if self._sees_all:
            return "DELETED" if record is None else "ADDED" if previous is None else "MODIFIED"
        matches = record is not None and chosen.matches(record)
        matched = previous is not None and chosen.matches(previous)
        if matches:
            return "MODIFIED" if matched else "ADDED"
        return "DELETED" if matched else None

    def _bookmark(self, revision: int, annotations: dict[str, str] | None) -> WatchItem:
        metadata: Object = {"resourceVersion": str(revision)}
        if annotations:
            metadata["annotations"] = annotations
        resource = self._served.resource
        obj: Object = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
        return WatchItem("BOOKMARK", self._served, obj=obj, encode=self._encode)


def _form(call: Call) -> str:
    return "" if call.representation == "table" else f"{call.representation} {call.meta_version}"


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
        row = tables.rows(served.columns, now=core.now(), include=include, version=call.meta_version)
        rendered = tables.render(
            served.columns, [row(obj)], metadata, version=call.meta_version, names_columns=is_first
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
