"""Built-in kinds that are one thing under two names: the events of the core group and of events.k8s.io.

Both are stored as the first and shown as whichever was asked for; the fields are the same with other names, and those
that the second no longer wants are called deprecated there.

    {"involvedObject": {...}, "message": "text", "count": 3}      v1
    {"regarding": {...}, "note": "text", "deprecatedCount": 3}    events.k8s.io/v1
"""

from __future__ import annotations

from typing import Final

import orjson

from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.builtin import encoding
from steelyard.kube.objects import Object
from steelyard.kube.store.record import Record

EVENTS_GROUP: Final = "events.k8s.io"
_RENAMED: Final = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_STORED: Final = {new: old for old, new in _RENAMED.items()}


@frozen
class Counterpart:
    """How objects of a kind are made from those that are stored, and the reverse."""

    shown_version: str
    shown_type: str
    stored_version: str
    stored_type: str

    def shown(self, record: Record) -> Record:
        obj = self.renamed(record.object)
        return Record(record.key, record.revision, orjson.dumps(obj), obj)

    def renamed(self, obj: Object) -> Object:
        """The stored object as it is shown."""
        return _renamed(obj, _RENAMED, self.shown_version, self.shown_type)

    def stored(self, obj: Object) -> Object:
        return _renamed(obj, _STORED, self.stored_version, self.stored_type)


EVENT: Final = Counterpart(f"{EVENTS_GROUP}/v1", "events/v1.Event", "v1", "core/v1.Event")


def of(group: str, plural: str) -> Counterpart | None:
    return EVENT if (group, plural) == (EVENTS_GROUP, "events") else None


def _renamed(obj: Object, names: dict[str, str], api_version: str, type_name: str) -> Object:
    """A copy with other names, in the form that Go writes."""
    given = objects.copy(obj)
    result: Object = {"apiVersion": api_version, "kind": given["kind"], "metadata": given["metadata"]}
    result |= {names.get(key, key): value for key, value in given.items() if key not in result}
    encoding.settle(type_name, result)
    return result
