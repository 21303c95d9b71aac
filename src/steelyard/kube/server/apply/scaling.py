"""Who manages the number of replicas, told in terms of an object's Scale and back.

A write to the scale subresource is tracked on the Scale: the entries of the object that hold its replicas become those
of the Scale (`to_scale`), and what the write makes of them goes back (`to_parent`). As upstream has it, an entry that
comes back has the time of one of the same manager that was there before, or none; and since a Scale has a version of
its own, an update's entry never finds itself again: the replicas move out of it into one of their own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from steelyard.kube.objects import Object
from steelyard.kube.server.apply import fieldset, managedfields
from steelyard.kube.server.apply.fieldset import FieldSet
from steelyard.kube.server.apply.managedfields import Entry, Managed

API_VERSION: Final = "autoscaling/v1"
_REPLICAS: Final = FieldSet.of(("spec", "replicas"))


def to_scale(managed: Managed, replicas: FieldSet) -> list[Object]:
    """`replicas` is where the object keeps its number: a set of that one field."""
    return managedfields.encode(
        {
            identity: Entry(identity, API_VERSION, entry.time, _REPLICAS.tree)
            for identity, entry in managed.items()
            if fieldset.intersection(entry.fields, replicas.tree)
        }
    )


def to_parent(managed: Managed, scale: Managed, replicas: FieldSet, api_version: str) -> list[Object]:
    """The object's entries after a write that left the Scale with these."""
    left = dict(scale)
    result: Managed = {}
    for identity, entry in managed.items():
        has_replicas = bool(fieldset.intersection(entry.fields, replicas.tree))
        if not has_replicas or left.pop(identity, None) is not None:
            result[identity] = entry
        elif fields := fieldset.difference(entry.fields, replicas.tree):
            result[identity] = replace(entry, fields=fields)
    for identity, entry in left.items():
        if fieldset.intersection(entry.fields, _REPLICAS.tree):
            time = managed[identity].time if identity in managed else ""
            result[identity] = Entry(identity, api_version, time, replicas.tree)
    return managedfields.encode(result)
