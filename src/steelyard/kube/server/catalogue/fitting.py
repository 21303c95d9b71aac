"""Custom resources as their definition has them now.

What was stored under an earlier definition is read as upstream reads it: fields that the definition no longer knows are
gone, and defaults that it has gained are there. Whoever reads sees the same: get, list, watch, the base of a patch, and
the caches of controllers; the stored state changes with the next write. Which objects are older than their definition
is told by their revision, so that the others cost a comparison; the older ones are looked at once each, if not large.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

import orjson

from steelyard.kube import turns
from steelyard.kube.objects import Object
from steelyard.kube.schema import default, prune
from steelyard.kube.server.catalogue.registry import Registry, Served
from steelyard.kube.store.record import Change, Record

_WORTH_KEEPING: Final = 8 * 1024
"""Bytes of JSON of one that is remembered; a larger one is made for each who asks."""


def fitted(registry: Registry, served: Served, record: Record) -> Record:
    """The record, or one that shows what it is read as."""
    if record.revision > registry.since(served):
        return record
    stored = registry.find(served.resource.group, _version(record.value), served.resource.plural)
    if stored is None or record.fitted is stored.mark:
        return record
    if record.fitted.__class__ is tuple:
        known, made = cast("tuple[object, Record]", record.fitted)
        if known is stored.mark:
            return made
    value = _fit(stored, record.value)
    if value is None:
        record.fitted = stored.mark
        return record
    made = Record(record.key, record.revision, value)
    if len(value) <= _WORTH_KEEPING:
        record.fitted = (stored.mark, made)
    return made


async def fitted_all(registry: Registry, served: Served, records: list[Record]) -> list[Record]:
    since = registry.since(served)
    if all(record.revision > since for record in records):
        return records
    return await turns.paced(lambda record: fitted(registry, served, record), records)


def fitted_changes(registry: Registry, served: Served, changes: Sequence[Change]) -> list[Change]:
    since = registry.since(served)
    return [_fitted_change(registry, served, change) if _is_older(change, since) else change for change in changes]


def _is_older(change: Change, since: int) -> bool:
    return change.revision <= since or (change.previous is not None and change.previous.revision <= since)


def _fitted_change(registry: Registry, served: Served, change: Change) -> Change:
    states = (change.record, change.previous, change.final)
    fitting = [None if state is None else fitted(registry, served, state) for state in states]
    return Change(change.revision, change.key, *fitting) if change.key else change


def _version(value: bytes) -> str:
    """Of an object as it is stored: `{"apiVersion":"example.com/v1",` stands at its beginning."""
    return value[: value.index(b",")].rstrip(b'"').rpartition(b"/")[2].decode()


def _fit(stored: Served, value: bytes) -> bytes | None:
    """None if it is as the definition has it."""
    before: Any = orjson.loads(value)
    state: Object = orjson.loads(value)
    prune.prune(stored.schema, state)
    default.apply_defaults(stored.schema, state)
    return None if state == before else orjson.dumps(state)
