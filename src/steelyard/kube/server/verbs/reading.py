"""get and list: always the durable state, sent as the bytes that were stored wherever that is what was asked for."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import orjson

from steelyard.kube import errors, objects
from steelyard.kube.errors import Cause
from steelyard.kube.objects import Object
from steelyard.kube.server.bodies import listoptions
from steelyard.kube.server.bodies import options as parameters
from steelyard.kube.server.bodies.listoptions import Continuation, ListOptions
from steelyard.kube.server.call import Call, Reply
from steelyard.kube.server.catalogue.registry import Served
from steelyard.kube.server.core import Core, glimpse, raw, shown, shown_all, view
from steelyard.kube.server.listing import Listing, Piece
from steelyard.kube.server.printing import tables
from steelyard.kube.server.verbs import selection
from steelyard.kube.store.errors import Compacted
from steelyard.kube.store.record import Record

_MADE_WEIGHT: Final = 8
"""To make a row or the metadata of an object takes as long as to send so many times its bytes."""


async def get(core: Core, served: Served, call: Call) -> Reply:
    store = core.store
    if call.options:
        not_older_than(core, parameters.revision(call.options.get("resourceVersion", "")))
    record = store.get(core.key(served.resource, call.namespace, call.name))
    if record is None:
        raise errors.not_found(served.group_resource, call.name)
    if served.custom is not None or served.conversion is not None:
        record = await shown(core, served, record)
    return of_record(core, served, record, call)


def of_record(core: Core, served: Served, record: Record, call: Call, code: int = 200) -> Reply:
    """The answer that shows one object, in the representation that was asked for."""
    if call.representation == "object":
        return Reply(code, raw=raw(record.value, served), record=record)
    return of_object(core, served, view(record, served), call, code)


def of_object(core: Core, served: Served, obj: Object, call: Call, code: int = 200) -> Reply:
    match call.representation:
        case "object":
            return Reply(code, obj)
        case "metadata":
            return Reply(code, tables.partial(obj, call.meta_version))
        case "table":
            metadata: Object = {"resourceVersion": objects.resource_version(obj)}
            rows = [_row(core, served, call)(obj)]
            return Reply(code, tables.render(served.columns, rows, metadata, version=call.meta_version))


def _row(core: Core, served: Served, call: Call) -> Callable[[Object], Object]:
    include = tables.include_option(call.options.get("includeObject", ""))
    return tables.rows(served.columns, now=core.now(), include=include, version=call.meta_version)


async def list_(core: Core, served: Served, call: Call) -> Reply:
    options = listoptions.of_list(call.options)
    chosen = selection.of(call, served)
    page = _page(core, served, call, options)
    records, more = await _records(core, served, call, page, chosen)
    metadata: Object = {"resourceVersion": str(page.revision)}
    if served.custom and call.representation == "object":
        metadata["continue"] = ""
    if more and records:
        start = f"{records[-1].key.removeprefix(page.prefix)}\0"
        left = page.remaining - len(records)
        metadata["continue"] = Continuation(page.revision, start, left).token()
        if not chosen:
            metadata["remainingItemCount"] = left
    listing = _listing(core, served, call, records, metadata)
    listing.has_own_records = page.exact or served.conversion is not None
    return Reply(200, listing=listing)


def _listing(core: Core, served: Served, call: Call, records: list[Record], metadata: Object) -> Listing:
    if call.representation == "object":
        return whole(served, records, metadata)
    version = call.meta_version
    if call.representation == "metadata":
        head = tables.partial_list((), metadata, version)
        make: Callable[[Object], Object] = functools.partial(tables.partial, version=version)
    else:
        head = tables.render(served.columns, (), metadata, version=version)
        make = _row(core, served, call)
    field = next(reversed(head))
    return Listing(head, field, records, lambda some: _made(some, served, make), weight=_MADE_WEIGHT)


def whole(served: Served, records: Sequence[Record], metadata: Object) -> Listing:
    """The objects as they are."""
    head: Object = {"kind": served.list_kind, "apiVersion": served.resource.api_version, "metadata": metadata}
    return Listing(head, "items", records, lambda some: _items(some, served))


def _items(records: Sequence[Record], served: Served) -> Sequence[Piece]:
    """The stored JSON of each: items of built-in kinds do not repeat what the list says of them."""
    values = [record.value for record in records]
    if not all(value.startswith(served.opening) for value in values):
        values = [raw(value, served) for value in values]
    if served.custom:
        return (b",".join(values),) if len(values) > 1 else values
    named = b'%b"kind":"%b",' % (served.opening, served.resource.kind.encode())
    rest = len(named)
    if not all(value.startswith(named) for value in values):
        return (b",".join(b"{" + value[rest:] if value.startswith(named) else value for value in values),)
    if len(values) == 1:
        return b"{", memoryview(values[0])[rest:]
    return (b"{" + b",{".join([value[rest:] for value in values]),)


def _made(records: Sequence[Record], served: Served, make: Callable[[Object], Object]) -> Sequence[Piece]:
    return (orjson.dumps([make(glimpse(record, served)) for record in records])[1:-1],)


def not_older_than(core: Core, revision: int) -> None:
    current = core.store.revision
    if revision > current:
        raise errors.Timeout(
            f"Timeout: Too large resource version: {revision}, current: {current}",
            retry_after=1,
            causes=[Cause("", "ResourceVersionTooLarge", "Too large resource version")],
        )


@dataclass(slots=True)
class _Page:
    prefix: str
    limit: int
    revision: int
    """The revision that all pages of the list show."""
    remaining: int
    """Objects from this page on, as counted when the first page was made."""
    exact: bool = False
    after: str = ""


def _page(core: Core, served: Served, call: Call, options: ListOptions) -> _Page:
    prefix = core.prefix(served.resource, call.namespace)
    store = core.store
    if options is listoptions.DEFAULT:
        return _Page(prefix, 0, store.revision, 0)
    if options.continue_:
        if options.resource_version not in {"", "0"}:
            raise errors.BadRequest("specifying resource version is not allowed when using continue")
        found = listoptions.continuation(options.continue_)
        after = prefix + _before(found.start)
        if found.revision is None:
            left = found.left or len(store.scan(prefix, after=after))
            return _Page(prefix, options.limit, store.revision, left, exact=True, after=after)
        not_older_than(core, found.revision)
        return _Page(prefix, options.limit, max(0, found.revision), found.left, exact=True, after=after)
    revision = options.revision
    not_older_than(core, revision)
    remaining = store.count(prefix) if options.limit > 0 else 0
    if revision and (options.match == "Exact" or (options.limit > 0 and not options.match)):
        return _Page(prefix, options.limit, revision, remaining, exact=True)
    return _Page(prefix, options.limit, store.revision, remaining)


def _before(start: str) -> str:
    """What sorts right before the key at which a page starts: pages are read behind a key."""
    if start.endswith("\0"):
        return start[:-1]
    return f"{start[:-1]}{chr(max(0, ord(start[-1]) - 1))}\U0010ffff"


async def _records(
    core: Core, served: Served, call: Call, page: _Page, chosen: selection.Selection
) -> tuple[list[Record], bool]:
    """The records of the page, and whether there are more."""
    store = core.store
    if chosen.name and (call.namespace or not served.resource.namespaced) and not page.exact:
        record = store.get(core.key(served.resource, call.namespace, chosen.name))
        record = await shown(core, served, record) if record is not None else None
        return [record] if record is not None and chosen.matches(record) else [], False
    wanted = page.limit + 1 if page.limit > 0 and not chosen else 0
    if page.exact:
        try:
            records = await store.scan_at(page.prefix, page.revision, after=page.after, limit=wanted)
        except Compacted:
            raise _expired(page) from None
    else:
        records = store.scan(page.prefix, limit=wanted)
    records = await shown_all(core, served, records)
    matching = await chosen.choose(records) if chosen else records
    if 0 < page.limit <= len(matching):
        shown_now = matching[: page.limit]
        # Whether what is behind the page matches is found out when it is asked for.
        return shown_now, shown_now[-1] is not records[-1]
    return matching, False


def _expired(page: _Page) -> errors.Expired:
    """A list in pages may be finished all the same, with the token that comes with the refusal."""
    if not page.after:
        return errors.Expired("The resourceVersion for the provided list is too old.")
    rest = Continuation(None, f"{page.after.removeprefix(page.prefix)}\0", page.remaining)
    return errors.Expired(_INCONSISTENT, continue_=rest.token())


_INCONSISTENT: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)
