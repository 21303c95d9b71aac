"""Whether a question about access is one: what upstream refuses in access reviews, with its words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import orjson

from steelyard.kube import fields, namerules, objects
from steelyard.kube.errors import Cause
from steelyard.kube.objects import Object

_BOTH: Final = "cannot be specified in combination with resourceAttributes"
_NEITHER: Final = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
_METADATA: Final = (
    "name", "generateName", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp",
    "deletionTimestamp", "deletionGracePeriodSeconds", "labels", "annotations", "ownerReferences", "finalizers",
    "managedFields",
)  # fmt: skip
"""The order in which Go writes it."""


def judge(kind: str, review: Object) -> Iterable[Cause]:
    spec = objects.mapping(review.get("spec"))
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and path is not None:
        yield _invalid("spec.nonResourceAttributes", _shown(path), _BOTH)
    if resource is None and path is None:
        yield _invalid("spec.resourceAttributes", None, _NEITHER)
    if kind != "SelfSubjectAccessReview" and not spec.get("user") and not spec.get("groups"):
        yield fields.invalid("spec.user", "", "at least one of user or group must be specified")
    for key, judge_one in (("fieldSelector", _field_requirement), ("labelSelector", _label_requirement)):
        selector = objects.mapping(resource).get(key)
        if selector is not None:
            yield from _selector(objects.mapping(selector), f"spec.resourceAttributes.{key}", judge_one)
    is_local = kind == "LocalSubjectAccessReview"
    metadata = objects.metadata(review)
    if set(metadata) - ({"managedFields", "namespace"} if is_local else {"managedFields"}):
        ordered = {key: metadata[key] for key in _METADATA if key in metadata}
        yield _invalid("metadata", ordered, "must be empty except for namespace" if is_local else "must be empty")
    if not is_local:
        return
    given: Any = objects.mapping(resource).get("namespace") or ""
    if resource is not None and given != metadata.get("namespace"):
        yield fields.invalid("spec.resourceAttributes.namespace", given, "must match metadata.namespace")
    if path is not None:
        yield _invalid("spec.nonResourceAttributes", _shown(path), "disallowed on this kind of request")


def _shown(path: Any) -> Object:
    """As Go writes a structure whose fields have no names of their own in JSON."""
    return {"Path": objects.mapping(path).get("path") or "", "Verb": objects.mapping(path).get("verb") or ""}


def _invalid(place: str, value: Any, text: str) -> Cause:
    return Cause(place, "FieldValueInvalid", f"Invalid value: {orjson.dumps(value).decode()}: {text}")


def _selector(selector: Object, place: str, judge_one: Any) -> Iterable[Cause]:
    raw, requirements = selector.get("rawSelector"), objects.sequence(selector.get("requirements"))
    if raw and requirements:
        yield fields.invalid(f"{place}.rawSelector", raw, "may not specified at the same time as requirements")
    if not raw and not requirements:
        text = f"when {place} is specified, requirements or rawSelector is required"
        yield fields.required(f"{place}.requirements", text)
    for index, requirement in enumerate(map(objects.mapping, requirements)):
        yield from _values(requirement, f"{place}.requirements[{index}]")
        yield from judge_one(requirement, f"{place}.requirements[{index}]")


def _values(requirement: Object, place: str) -> Iterable[Cause]:
    operator, values = requirement.get("operator"), objects.sequence(requirement.get("values"))
    if operator in ("In", "NotIn") and not values:
        yield fields.required(f"{place}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist") and values:
        yield fields.forbidden(f"{place}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")


def _field_requirement(requirement: Object, place: str) -> Iterable[Cause]:
    if not requirement.get("key"):
        yield fields.required(f"{place}.key", "must be specified")


def _label_requirement(requirement: Object, place: str) -> Iterable[Cause]:
    key = str(requirement.get("key") or "")
    for text in namerules.qualified_name(key):
        yield fields.invalid(f"{place}.key", key, text)
    for index, value in enumerate(map(str, objects.sequence(requirement.get("values")))):
        for text in namerules.label_value(value):
            yield fields.invalid(f"{place}.values[{index}]", value, text)
