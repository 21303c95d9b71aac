"""Which objects a list, a watch or a deletion of a collection is about: scope, label selector, field selector."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from steelyard.frozen import frozen
from steelyard.kube import errors, jsonpath, objects, selectors, turns
from steelyard.kube.objects import Object
from steelyard.kube.server.call import Call
from steelyard.kube.server.catalogue.registry import Served
from steelyard.kube.store.record import Change, Record
from steelyard.kube.store.store import Store

_MOST_NEEDLES = 4
_BRIEF = 16 * 1024
"""Bytes of an object that are looked through in no time."""
_METADATA_FIELDS = {"metadata.name": ("metadata", "name"), "metadata.namespace": ("metadata", "namespace")}


@frozen
class Selection:
    labels: selectors.LabelSelector
    fields: selectors.FieldSelector
    paths: Mapping[str, jsonpath.Path]
    name: str = ""
    """The one name that can match, where the field selector or the path says so."""
    needles: tuple[bytes, ...] = ()
    """Labels as they stand in the JSON of whatever matches: most of what does not is told without reading it."""

    def __bool__(self) -> bool:
        return bool(self.labels) or bool(self.fields)

    def among(self, store: Store, prefix: str, *, is_flat: bool) -> list[Record]:
        """The records that may match. `is_flat` says that names follow the prefix: then a name is looked up, and a
        thousand who each wait for one object of many do not go through all."""
        if not self.name or not is_flat:
            return store.scan(prefix)
        record = store.get(f"{prefix}{self.name}")
        return [record] if record is not None else []

    def matches(self, record: Record) -> bool:
        if self.name and not record.key.endswith(f"/{self.name}"):
            return False
        if self.needles:
            value = record.value
            if any(needle not in value for needle in self.needles):
                return False
        obj = record.read()
        if self.labels and not self.labels.matches(objects.labels(obj)):
            return False
        return not self.fields or self.fields.matches(lambda field: self._value(obj, field))

    def may_concern(self, change: Change) -> bool:
        """Quick, and no only where neither state can match: what has no key, such as a bookmark, concerns everybody."""
        states = [state for state in (change.record, change.previous) if state is not None]
        return not states or any(map(self._may_match, states))

    def _may_match(self, record: Record) -> bool:
        value = record.value_at_hand
        return value is None or len(value) > _BRIEF or all(needle in value for needle in self.needles)

    async def choose(self, records: Sequence[Record]) -> list[Record]:
        """Those that match, with pauses where there are many to look at."""
        kept = await turns.paced(self.matches, records)
        return list(itertools.compress(records, kept))

    def _value(self, obj: Object, field: str) -> str:
        metadata = _METADATA_FIELDS.get(field)
        value = objects.at(obj, *metadata) if metadata else jsonpath.find(self.paths[field], obj)
        return _text(value)


_EVERYTHING = Selection(selectors.EVERYTHING, selectors.FieldSelector(), {})


def of(call: Call, served: Served) -> Selection:
    options = call.options
    if not options:
        return _EVERYTHING
    labels = selectors.parse_labels(options.get("labelSelector", ""))
    fields = selectors.parse_fields(options.get("fieldSelector", ""))
    if not labels and not fields:
        return _EVERYTHING
    for wanted in fields.requirements:
        if wanted.field not in _METADATA_FIELDS and wanted.field not in served.fields:
            raise errors.BadRequest(_unknown(served, wanted.field))
    return Selection(labels, fields, served.fields, fields.exact("metadata.name"), _needles(labels))


def _needles(labels: selectors.LabelSelector) -> tuple[bytes, ...]:
    exact = [each for each in labels.requirements if each.operator in ("=", "in") and len(each.values) == 1]
    present = [each for each in labels.requirements if each.operator == "exists"]
    needles = [f'"{each.key}":"{next(iter(each.values))}"' for each in exact] + [f'"{each.key}":' for each in present]
    return tuple(needle.encode() for needle in needles[:_MOST_NEEDLES])


def _unknown(served: Served, field: str) -> str:
    if served.custom or served.fields:
        return f"field label not supported: {field}"
    return f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"'


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
