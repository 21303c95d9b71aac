"""Strategies of kinds that describe the cluster itself: definitions and classes."""

from __future__ import annotations

from typing import Final, cast

from steelyard.kube import fields, namerules, objects
from steelyard.kube.errors import Cause
from steelyard.kube.objects import Object
from steelyard.kube.server.definitions import customresources
from steelyard.kube.server.strategies.base import Strategy, default, immutable

_PREEMPTION: Final = ("PreemptLowerPriority", "Never")
_HIGHEST_PRIORITY: Final = 1000000000
_SYSTEM_PRIORITIES: Final = {"system-node-critical": 2000001000, "system-cluster-critical": 2000000000}


class DefinitionStrategy(Strategy):
    """CustomResourceDefinition; `crds.Definitions` then sees to its names."""

    tracks_generation = True
    is_judged_by_schema = False

    def prepare_create(self, obj: Object) -> None:
        customresources.prepare_create(obj)

    def prepare_update(self, obj: Object, old: Object) -> None:
        customresources.prepare_update(obj, old)

    def validate_create(self, obj: Object) -> list[Cause]:
        return customresources.validate_create(obj)

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        return customresources.validate_update(obj, old)

    def warnings(self, obj: Object, old: Object | None = None) -> tuple[str, ...]:
        known = customresources.warnings(old) if old is not None else ()
        return tuple(text for text in customresources.warnings(obj) if text not in known)


class PriorityClassStrategy(Strategy):
    is_judged_by_schema = False

    def prepare_create(self, obj: Object) -> None:
        default(obj, "preemptionPolicy", "PreemptLowerPriority")
        obj.setdefault("value", 0)

    def complete_create(self, obj: Object) -> None:
        """Its generation never grows."""
        cast(Object, obj["metadata"])["generation"] = 1

    def validate_create(self, obj: Object) -> list[Cause]:
        name, value, policy = objects.name(obj), int(obj.get("value") or 0), obj.get("preemptionPolicy")
        found: list[Cause] = []
        if name.startswith("system-"):
            if _SYSTEM_PRIORITIES.get(name) != value:
                text = (
                    "priority class names with 'system-' prefix are reserved for system use only. "
                    f"error: {name} is not a known system priority class"
                )
                found.append(fields.forbidden("metadata.name", text))
        elif value > _HIGHEST_PRIORITY:
            text = f"maximum allowed value of a user defined priority is {_HIGHEST_PRIORITY}"
            found.append(fields.forbidden("value", text))
        if policy not in _PREEMPTION:
            found.append(fields.not_supported("preemptionPolicy", policy, _PREEMPTION))
        return found

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        found: list[Cause] = []
        if obj.get("value") != old.get("value"):
            found.append(fields.forbidden("value", "may not be changed in an update."))
        return found + immutable(obj, old, ("preemptionPolicy",))


class StorageClassStrategy(Strategy):
    def prepare_create(self, obj: Object) -> None:
        default(obj, "reclaimPolicy", "Delete")
        default(obj, "volumeBindingMode", "Immediate")

    def validate_create(self, obj: Object) -> list[Cause]:
        provisioner = str(obj.get("provisioner") or "")
        found = [fields.required("provisioner")] if not provisioner else []
        if provisioner:
            wrong = namerules.qualified_name(provisioner.lower())
            found += [fields.invalid("provisioner", provisioner.lower(), text) for text in wrong]
        for key, accepted in (
            ("reclaimPolicy", ("Delete", "Retain")),
            ("volumeBindingMode", ("Immediate", "WaitForFirstConsumer")),
        ):
            if obj.get(key) not in accepted:
                found.append(fields.not_supported(key, obj.get(key), accepted))
        return found

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        return immutable(obj, old, ("parameters",), ("provisioner",), ("reclaimPolicy",), ("volumeBindingMode",))
