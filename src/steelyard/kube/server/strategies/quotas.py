"""Strategies of ResourceQuota and LimitRange. Nothing here counts or limits; what they say is kept for those who do."""

from __future__ import annotations

from typing import Any, Final

from steelyard.kube import fields, namerules, objects
from steelyard.kube.builtin import quantities
from steelyard.kube.errors import Cause
from steelyard.kube.objects import Object
from steelyard.kube.server.strategies.base import Strategy

_COUNTED: Final = frozenset(
    {
        "pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps",
        "persistentvolumeclaims", "services.nodeports", "services.loadbalancers",
    }
)  # fmt: skip
_COMPUTE: Final = ("cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory")
_QUOTA: Final = _COUNTED | {
    *_COMPUTE, "ephemeral-storage", "requests.storage", "requests.ephemeral-storage", "limits.ephemeral-storage",
}  # fmt: skip
_STANDARD: Final = _QUOTA | {"storage"}
_SCOPES: Final = (
    "Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "PriorityClass", "VolumeAttributesClass",
    "CrossNamespacePodAffinity",
)  # fmt: skip
_CONFLICTING: Final = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_LIMITED: Final = ("Pod", "Container", "PersistentVolumeClaim")


def amounts(given: Object, place: str) -> list[Cause]:
    """`place` is that of the map; each amount is told of by its key behind a dot."""
    return [cause for name, value in given.items() for cause in amount(name, value, f"{place}.{name}")]


def amount(name: str, value: Any, place: str) -> list[Cause]:
    found: list[Cause] = []
    number = quantities.amount(value)
    if number < 0:
        found.append(fields.invalid(place, value, "must be greater than or equal to 0"))
    if name in _COUNTED and (number * 1000) % 1000 != 0:
        found.append(fields.invalid(place, value, "must be an integer"))
    return found


class ResourceQuotaStrategy(Strategy):
    is_judged_by_schema = False

    def validate_create(self, obj: Object) -> list[Cause]:
        target = objects.mapping(obj.get("spec"))
        found: list[Cause] = []
        for name, value in objects.mapping(target.get("hard")).items():
            place = f"spec.hard[{name}]"
            found += _resource(name, place)
            if "/" not in name and not (name in _QUOTA or _is_huge(name)):
                found.append(fields.invalid(place, name, "must be a standard resource for quota"))
            found += amount(name, value, place)
        return found + _validate_scopes(target)


def _validate_scopes(target: Object) -> list[Cause]:
    scopes = objects.sequence(target.get("scopes"))
    found: list[Cause] = []
    limited = [name for name in sorted(objects.mapping(target.get("hard"))) if name in _QUOTA]
    for scope in scopes:
        if scope not in _SCOPES:
            found.append(fields.invalid("spec.scopes", scopes, "unsupported scope"))
        text = "unsupported scope applied to resource"
        found += [fields.invalid("spec.scopes", scopes, text) for name in limited if not _applies(scope, name)]
    found += [fields.invalid("spec.scopes", scopes, "conflicting scopes") for pair in _CONFLICTING if pair <= {*scopes}]
    return found


def _applies(scope: str, name: str) -> bool:
    match scope:
        case "BestEffort":
            return name == "pods"
        case "VolumeAttributesClass":
            return name in ("persistentvolumeclaims", "requests.storage")
        case _ if scope in _SCOPES:
            return name == "pods" or name in _COMPUTE
        case _:
            return True


class LimitRangeStrategy(Strategy):
    names_itself = True
    is_judged_by_schema = False
    creates_on_update = True

    def prepare_create(self, obj: Object) -> None:
        for limit in map(objects.mapping, objects.sequence(objects.at(obj, "spec", "limits"))):
            if limit.get("type") == "Container":
                usual = {**objects.mapping(limit.get("max")), **objects.mapping(limit.get("default"))}
                least = {**objects.mapping(limit.get("min")), **usual, **objects.mapping(limit.get("defaultRequest"))}
                limit |= {key: value for key, value in (("default", usual), ("defaultRequest", least)) if value}

    def validate_create(self, obj: Object) -> list[Cause]:
        found: list[Cause] = []
        seen: set[str] = set()
        for index, limit in enumerate(map(objects.mapping, objects.sequence(objects.at(obj, "spec", "limits")))):
            place, type_ = f"spec.limits[{index}]", str(limit.get("type") or "")
            found += _limit_type(type_, f"{place}.type")
            if type_ in seen:
                found.append(fields.duplicate(f"{place}.type", type_))
            seen.add(type_)
            found += _validate_limit(limit, type_, place)
        return found


def _limit_type(type_: str, place: str) -> list[Cause]:
    found = [fields.invalid(place, type_, text) for text in namerules.qualified_name(type_)]
    if not found and "/" not in type_ and type_ not in _LIMITED:
        found.append(fields.invalid(place, type_, "must be a standard limit type or fully qualified"))
    return found


def _validate_limit(limit: Object, type_: str, place: str) -> list[Cause]:
    found: list[Cause] = []
    is_pod = type_ == "Pod"
    if is_pod:
        text = "may not be specified when `type` is 'Pod'"
        found += [fields.forbidden(f"{place}.{key}", text) for key in ("default", "defaultRequest") if limit.get(key)]
    parts = ("max", "min") if is_pod else ("max", "min", "default", "defaultRequest")
    given = {part: objects.mapping(limit.get(part)) for part in (*parts, "maxLimitRequestRatio")}
    for part, values in given.items():
        found += [cause for name in values for cause in _resource(name, f"{place}.{part}[{name}]")]
    if type_ == "PersistentVolumeClaim" and "storage" not in {**given["min"], **given["max"]}:
        text = "either minimum or maximum storage value is required, but neither was provided"
        found.append(fields.required(f"{place}.limits", text))
    for name in sorted({name for values in given.values() for name in values}):
        found += _validate_order({part: values[name] for part, values in given.items() if name in values}, name, place)
    return found


_REQUEST: Final = ("defaultRequest", "defaultRequest")
_ORDER: Final = (
    ("min", "max", "min", "min", "min value {} is greater than max value {}"),
    ("min", "defaultRequest", *_REQUEST, "min value {} is greater than default request value {}"),
    ("defaultRequest", "max", *_REQUEST, "default request value {} is greater than max value {}"),
    ("defaultRequest", "default", *_REQUEST, "default request value {} is greater than default limit value {}"),
    ("min", "default", "default", "min", "min value {} is greater than default value {}"),
    ("default", "max", "default", "max", "default value {} is greater than max value {}"),
)
"""What may not exceed what, where it is told of, which of the values is shown, and how."""


def _validate_order(given: Object, name: str, place: str) -> list[Cause]:
    found: list[Cause] = []
    for less, more, where, shown, text in _ORDER:
        if less in given and more in given and quantities.amount(given[less]) > quantities.amount(given[more]):
            told = text.format(given[less], given[more])
            found.append(fields.invalid(f"{place}.{where}[{name}]", given[shown], told))
    ratio = given.get("maxLimitRequestRatio")
    if ratio is not None and quantities.amount(ratio) < 1:
        found.append(fields.invalid(f"{place}.maxLimitRequestRatio[{name}]", ratio, f"ratio {ratio} is less than 1"))
    return found


def _resource(name: str, place: str) -> list[Cause]:
    found = [fields.invalid(place, name, text) for text in namerules.qualified_name(name)]
    if not found and "/" not in name and not (name in _STANDARD or _is_huge(name)):
        found.append(fields.invalid(place, name, "must be a standard resource type or fully qualified"))
    return found


def _is_huge(name: str) -> bool:
    return name.removeprefix("requests.").startswith("hugepages-")
