"""get and list: always the durable state, sent as the bytes that were stored wherever that is what was asked for."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Any, Final, cast

import orjson

from steelyard.kube import errors, objects
from steelyard.kube.errors import Cause
from steelyard.kube.objects import Object
from steelyard.kube.server import options as parameters
from steelyard.kube.server import selection, tables
from steelyard.kube.server.call import Call, Reply
from steelyard.kube.server.core import Core, raw, shown, shown_all, view
from steelyard.kube.server.registry import Served
from steelyard.kube.store.errors import Compacted
from steelyard.kube.store.record import Record


async def get(core: Core, served: Served, call: Call) -> Reply:
    store = core.store
    if call.options:
        not_older_than(core, parameters.revision(call.options.get("resourceVersion", "")))
    record = store.get(core.key(served.resource, call.namespace, call.name))
    if record is None:
        raise errors.not_found(served.group_resource, call.name)
    return of_record(core, served, await shown(core, served, record), call)


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
            return Reply(code, tables.partial(obj))
        case "table":
            metadata: Object = {"resourceVersion": objects.resource_version(obj)}
            include = tables.include_option(call.options.get("includeObject", ""))
            return Reply(code, tables.render(served.columns, [obj], metadata, now=core.now(), include=include))


async def list_(core: Core, served: Served, call: Call) -> Reply:
    page = _page(core, served, call)
    chosen = selection.of(call, served)
    records, more = await _records(core, served, call, page, chosen)
    metadata: Object = {"resourceVersion": str(page.revision)}
    if served.custom and call.representation == "object":
        metadata["continue"] = ""
    if more and records:
        last = records[-1].key
        metadata["continue"] = _token(page.revision, last.removeprefix(page.prefix), page.remaining - len(records))
        if not chosen:
            metadata["remainingItemCount"] = page.remaining - len(records)
    if call.representation == "object":
        opening = orjson.dumps(
            {"kind": served.list_kind, "apiVersion": served.resource.api_version, "metadata": metadata}
        )[:-1]
        items = b",".join([_item(record, served) for record in records])
        return Reply(200, raw=b'%b,"items":[%b]}' % (opening, items), records=records, metadata=metadata)
    items = [view(record, served) for record in records]
    if call.representation == "metadata":
        return Reply(200, tables.partial_list(items, metadata))
    include = tables.include_option(call.options.get("includeObject", ""))
    return Reply(200, tables.render(served.columns, items, metadata, now=core.now(), include=include))


def _item(record: Record, served: Served) -> bytes:
    """An item of a list: those of built-in kinds do not repeat what the list says of them."""
    value = raw(record.value, served)
    if served.custom:
        return value
    named = b'%b"kind":"%b",' % (served.opening, served.resource.kind.encode())
    return b"{" + value[len(named) :] if value.startswith(named) else value


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


def _page(core: Core, served: Served, call: Call) -> _Page:
    prefix = core.prefix(served.resource, call.namespace)
    store = core.store
    options = call.options
    if not options:
        return _Page(prefix, 0, store.revision, 0)
    limit = min(parameters.integer(options, "limit"), _MOST)
    asked = options.get("resourceVersion", "")
    match = options.get("resourceVersionMatch", "")
    if token := options.get("continue", ""):
        if asked not in {"", "0"}:
            raise errors.BadRequest("specifying resource version is not allowed when using continue")
        if match:
            raise _invalid(
                "resourceVersionMatch", "Forbidden: resourceVersionMatch is forbidden when continue is provided"
            )
        revision, after, remaining = _parse_token(token)
        if not 0 < revision <= store.revision:
            raise errors.BadRequest("continue key is not valid: it is not a token of this server")
        return _Page(prefix, limit, revision, remaining, exact=True, after=prefix + after)
    revision = parameters.revision(asked)
    if match and match not in {"Exact", "NotOlderThan"}:
        raise _invalid(
            "resourceVersionMatch",
            f'Unsupported value: "{match}": supported values: "Exact", "NotOlderThan", ""',
            "FieldValueNotSupported",
        )
    if match and not asked:
        raise _invalid(
            "resourceVersionMatch", "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
        )
    if match == "Exact" and not revision:
        raise _invalid(
            "resourceVersionMatch", 'Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        )
    not_older_than(core, revision)
    remaining = store.count(prefix) if limit > 0 else 0
    if revision and (match == "Exact" or (limit > 0 and not match)):
        return _Page(prefix, limit, revision, remaining, exact=True)
    return _Page(prefix, limit, store.revision, remaining)


_MOST: Final = 1 << 62
"""A limit that none is: one more than it can still be counted to."""


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
            raise errors.Expired(
                _EXPIRED if page.after else "The resourceVersion for the provided list is too old."
            ) from None
    else:
        records = store.scan(page.prefix, limit=wanted)
    records = await shown_all(core, served, records)
    if chosen:
        records = [record for record in records if chosen.matches(record)]
    if 0 < page.limit < len(records):
        return records[: page.limit], True
    return records, False


_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. "
    "You can start a new list without the continue parameter."
)


def _token(revision: int, after: str, remaining: int) -> str:
    token = {"v": "meta.k8s.io/v1", "rv": revision, "start": after, "left": remaining}
    return base64.urlsafe_b64encode(orjson.dumps(token)).decode().rstrip("=")


def _parse_token(token: str) -> tuple[int, str, int]:
    try:
        decoded: Any = orjson.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    except (binascii.Error, ValueError):
        raise errors.BadRequest("continue key is not valid: it is not a token of this server") from None
    fields = objects.mapping(decoded)
    revision, start, left = fields.get("rv"), fields.get("start"), fields.get("left")
    well_formed = isinstance(revision, int) and isinstance(left, int) and isinstance(start, str) and bool(start)
    if not well_formed:
        raise errors.BadRequest("continue key is not valid: it is not a token of this server")
    return cast(int, revision), cast(str, start), cast(int, left)


def _invalid(field: str, message: str, reason: str = "FieldValueForbidden") -> errors.Invalid:
    return errors.invalid("meta.k8s.io", "ListOptions", "", [Cause(field, reason, message)])
