"""What may be done with the thing that a managed resource stands for: its deletionPolicy and managementPolicies."""

from __future__ import annotations

from typing import Final

from steelyard.kube import objects
from steelyard.kube.objects import Object

ALL: Final = "*"


def allows(obj: Object, action: str) -> bool:
    """`action` is Observe, Create, Update, Delete or LateInitialize."""
    policies = objects.at(obj, "spec", "managementPolicies")
    given = ["*"] if policies is None else objects.sequence(policies)
    return ALL in given or action in given


def is_managed(obj: Object) -> bool:
    """False where the list of policies is empty, which pauses the object."""
    policies = objects.at(obj, "spec", "managementPolicies")
    return policies is None or bool(objects.sequence(policies))


def is_deleted_with(obj: Object) -> bool:
    """Whether the thing goes with the object. Where managementPolicies say other than all, they decide."""
    policies = objects.at(obj, "spec", "managementPolicies")
    if policies is not None and ALL not in objects.sequence(policies):
        return allows(obj, "Delete")
    return objects.at(obj, "spec", "deletionPolicy") != "Orphan"
