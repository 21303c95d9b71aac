"""What a change of an object does whatever kind of claim it belongs to, where the kind itself does not say.

Deleting what holds data loses it; an object that is made anew under another name is gone for a while; and some fields
the API lets nobody change, so that the object would have to go first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from steelyard.compose.effects import Disruption, Effect
from steelyard.plan.fielddiff import FieldChange
from steelyard.plan.inventory import Entry

_HOLDS_DATA: Final = {
    ("cluster.x-k8s.io", "Cluster"): "its machines are deleted, with all that is on them",
    ("postgresql.sql.crossplane.io", "Database"): "it is dropped, with everything in it",
    ("helm.crossplane.io", "Release"): "it is uninstalled, with everything in it",
    ("kubevirt.io", "VirtualMachine"): "it is deleted, with its disks",
    ("cdi.kubevirt.io", "DataVolume"): "it is deleted, with what is on it",
    ("", "PersistentVolumeClaim"): "it is deleted, with what is on it",
}
_IMMUTABLE: Final = {
    ("", "Secret"): ("type",),
    ("", "PersistentVolumeClaim"): ("spec.storageClassName", "spec.accessModes"),
    ("apps", "Deployment"): ("spec.selector",),
    ("apps", "StatefulSet"): ("spec.selector", "spec.serviceName", "spec.volumeClaimTemplates"),
    ("cluster.x-k8s.io", "MachineDeployment"): ("spec.selector", "spec.clusterName"),
    ("rbac.authorization.k8s.io", "RoleBinding"): ("roleRef",),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): ("roleRef",),
    ("cdi.kubevirt.io", "DataVolume"): ("spec",),
}
"""By group and kind: fields that no API server changes."""


def of_deletion(entry: Entry) -> Effect | None:
    loss = _HOLDS_DATA.get(_kind(entry))
    return Effect(Disruption.DATA_LOSS, _subject(entry), loss, entry.resource_name) if loss else None


def of_replacement(old: Entry, new: Entry) -> Effect:
    reason = f"it is deleted, and {new.name} is made in its place"
    return of_deletion(old) or Effect(Disruption.RECREATE, _subject(old), reason, old.resource_name)


def of_change(entry: Entry, fields: Iterable[FieldChange]) -> Effect | None:
    fixed = _IMMUTABLE.get(_kind(entry), ())
    changed = [each.path for each in fields if any(_is_within(each.path, path) for path in fixed)]
    if not changed:
        return None
    reason = f"{changed[0]} cannot be changed: it has to be deleted first, and is then made anew"
    loss = of_deletion(entry)
    disruption = loss.disruption if loss is not None else Disruption.RECREATE
    return Effect(disruption, _subject(entry), reason, entry.resource_name)


def all_of(told: Sequence[Effect], general: Iterable[Effect]) -> list[Effect]:
    """What the kind tells, and of what is generally so only what is worse, the worst first."""
    worst: dict[str, Disruption] = {}
    for each in told:
        worst[each.part] = max(each.disruption, worst.get(each.part, Disruption.NONE))
    more = [each for each in general if each.disruption > worst.get(each.part, Disruption.NONE)]
    return sorted((*told, *more), key=lambda each: -each.disruption)


def _kind(entry: Entry) -> tuple[str, str]:
    return entry.api_version.rpartition("/")[0], entry.kind


def _subject(entry: Entry) -> str:
    return f"{entry.kind} {entry.name}"


def _is_within(path: str, fixed: str) -> bool:
    return path == fixed or path.startswith((f"{fixed}.", f"{fixed}["))
