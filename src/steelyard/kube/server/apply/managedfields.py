"""Reading and writing `metadata.managedFields`: one entry per manager, operation, version and subresource.

What the server stored itself is trusted (`stored`); what a client sent is checked and brought into canonical form
(`sent`), and ignored where it is not valid, so that a client which knows nothing of managed fields cannot destroy them.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final, Literal, NamedTuple, cast

import orjson

from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.server.apply import fieldset
from steelyard.kube.server.apply.fieldset import FieldSet, InvalidFields, Tree

Operation = Literal["Apply", "Update"]

MAX_UPDATE_ENTRIES: Final = 10
_IDENTIFYING: Final = ("manager", "operation", "apiVersion", "subresource")
_ANCIENT: Final = "ancient-changes"

_SERVER_METADATA: Final = (
    "name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation", "managedFields",
    "resourceVersion",
)  # fmt: skip
NEVER_MANAGED: Final = FieldSet.of(
    ("apiVersion",),
    ("kind",),
    ("metadata",),
    *(("metadata", name) for name in _SERVER_METADATA),
)


class Identity(NamedTuple):
    """Whose entry it is. An applier has one entry whatever version it applies in; so its version is left empty."""

    manager: str
    operation: Operation
    api_version: str
    subresource: str

    def sort_key(self) -> bytes:
        """Upstream sorts managers by this text."""
        entry = {"manager": self.manager, "operation": self.operation}
        if self.api_version:
            entry["apiVersion"] = self.api_version
        if self.subresource:
            entry["subresource"] = self.subresource
        return orjson.dumps(entry)

    def __str__(self) -> str:
        text = orjson.dumps(self.manager).decode()
        if self.subresource:
            text += f" with subresource {orjson.dumps(self.subresource).decode()}"
        return f"{text} using {self.api_version}" if self.operation == "Update" else text


@frozen
class Entry:
    """What one manager manages. `time` is RFC 3339 in UTC to the second, or empty."""

    identity: Identity
    api_version: str
    time: str
    fields: Tree

    def to_json(self) -> Object:
        identity = self.identity
        entry: Object = {
            "manager": identity.manager,
            "operation": identity.operation,
            "apiVersion": self.api_version,
        }
        if self.time:
            entry["time"] = self.time
        entry["fieldsType"] = "FieldsV1"
        entry["fieldsV1"] = self.fields
        if identity.subresource:
            entry["subresource"] = identity.subresource
        return entry


Managed = dict[Identity, Entry]


def identify(manager: str, operation: Operation, api_version: str, subresource: str) -> Identity:
    return Identity(manager or "unknown", operation, "" if operation == "Apply" else api_version, subresource)


def stored(obj: Object) -> Managed:
    """The entries of an object that the server has written."""
    managed: Managed = {}
    for entry in objects.sequence(objects.metadata(obj).get("managedFields")):
        api_version = str(entry.get("apiVersion") or "")
        operation: Operation = "Apply" if entry.get("operation") == "Apply" else "Update"
        identity = identify(entry.get("manager", ""), operation, api_version, entry.get("subresource", ""))
        managed[identity] = Entry(identity, api_version, entry.get("time") or "", entry.get("fieldsV1") or {})
    return managed


def sent(entries: Any) -> Managed | None:
    """The entries that a client sent; None if any of them is invalid."""
    managed: Managed = {}
    try:
        for entry in entries:
            decoded = _decode(entry)
            managed[decoded.identity] = decoded
    except (InvalidFields, ValueError, TypeError):
        return None
    return managed


def _decode(entry: Any) -> Entry:
    if type(entry) is not dict:
        raise InvalidFields("an entry must be an object")
    fields = cast(Object, entry)
    texts = {name: fields.get(name) or "" for name in ("manager", "operation", "apiVersion", "subresource", "time")}
    if not all(isinstance(text, str) for text in texts.values()):
        raise InvalidFields("manager, operation, apiVersion, subresource and time must be strings")
    if texts["operation"] not in ("Apply", "Update"):
        raise InvalidFields("operation must be `Apply` or `Update`")
    if not texts["apiVersion"]:
        raise InvalidFields("apiVersion must not be empty")
    if fields.get("fieldsType") != "FieldsV1":
        raise InvalidFields("fieldsType must be FieldsV1")
    operation: Operation = "Apply" if texts["operation"] == "Apply" else "Update"
    return Entry(
        Identity(
            texts["manager"], operation, "" if operation == "Apply" else texts["apiVersion"], texts["subresource"]
        ),
        texts["apiVersion"],
        _canonical_time(texts["time"]) if texts["time"] else "",
        FieldSet.from_json(fields.get("fieldsV1") or {}).tree,
    )


def _canonical_time(text: str) -> str:
    moment = datetime.datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise InvalidFields(f"time without zone: {text}")
    return moment.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def resets(entries: Any) -> bool:
    """Whether a client asks to forget all managers, with an empty list or a list of one empty entry."""
    return entries == [] or entries == [{}]


def encode(managed: Managed) -> list[Object]:
    return [entry.to_json() for entry in sorted(managed.values(), key=_order)]


def _order(entry: Entry) -> tuple[str, str, str, str, str]:
    identity = entry.identity
    return (identity.operation, entry.time, identity.manager, entry.api_version, identity.subresource)


def with_managed(obj: Object, entries: list[Object] | None) -> Object:
    """The object with these managed fields, or without any; the object itself is left as it is."""
    metadata = objects.metadata(obj).copy()
    if entries:
        metadata["managedFields"] = entries
    else:
        metadata.pop("managedFields", None)
    return {**obj, "metadata": metadata}


def cap(managed: Managed) -> Managed:
    """At most MAX_UPDATE_ENTRIES entries of updates: the oldest are merged into one per version."""
    updates = [entry for entry in managed.values() if entry.identity.operation == "Update"]
    surplus = len(updates) - MAX_UPDATE_ENTRIES
    if surplus <= 0:
        return managed
    updates.sort(key=lambda entry: (entry.time, entry.identity.sort_key()))
    capped = dict(managed)
    first_of_version: dict[str, Identity] = {}
    for entry in updates:
        if surplus <= 0:
            break
        version = entry.api_version
        bucket = Identity(_ANCIENT, "Update", version, "")
        first = first_of_version.setdefault(version, entry.identity)
        if entry.identity in (first, bucket):
            continue
        if bucket not in capped:
            capped[bucket] = replace(capped.pop(first), identity=bucket)
        merged = fieldset.union(entry.fields, capped[bucket].fields)
        del capped[entry.identity]
        # The merged entry's time: it is the more recent of the two.
        capped[bucket] = Entry(bucket, version, entry.time, merged)
        surplus -= 1
    return capped


def keep_times(before: Object, after: Object) -> Object:
    """`after`, or `before` itself where the two differ in nothing but the times of their managed fields.

    For a write that later stages (defaulting, admission) turned into no change at all.
    """
    old, new = objects.metadata(before), objects.metadata(after)
    if before.keys() != after.keys() or old.keys() != new.keys():
        return after
    if not all(objects.same(before[name], after[name]) for name in before if name != "metadata"):
        return after
    if any(old[name] != new[name] for name in old if name not in ("managedFields", "resourceVersion")):
        return after
    return before if _without_times(old) == _without_times(new) else after


def _without_times(metadata: Object) -> list[Object]:
    entries: Iterable[Object] = map(objects.mapping, objects.sequence(metadata.get("managedFields")))
    stripped = [{name: value for name, value in entry.items() if name != "time"} for entry in entries]
    return sorted(stripped, key=lambda entry: [str(entry.get(name)) for name in _IDENTIFYING])
