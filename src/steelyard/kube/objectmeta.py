"""What may stand in an object's metadata: the fields, their types, and the rules for their values.

Used for the metadata of every stored object (`kube.server.strategies.metadata`) and of objects embedded in custom
resources (`kube.schema.embedded`).
"""

from __future__ import annotations

from typing import Any, Final, cast

from steelyard.kube import fields, namerules, objects, resources
from steelyard.kube.errors import Cause
from steelyard.kube.objects import Object
from steelyard.kube.schema.model import ANY, Schema

MAX_ANNOTATIONS: Final = 256 * 1024

_TEXT: Final = Schema(type="string")
_TIME: Final = Schema(type="string", format="date-time")
_FLAG: Final = Schema(type="boolean")
_NUMBER: Final = Schema(type="integer", format="int64")
_TEXTS: Final = Schema(type="object", additional=_TEXT)

SCHEMA: Final = Schema(
    type="object",
    properties={
        "name": _TEXT,
        "generateName": _TEXT,
        "namespace": _TEXT,
        "selfLink": _TEXT,
        "uid": _TEXT,
        "resourceVersion": _TEXT,
        "generation": _NUMBER,
        "creationTimestamp": _TIME,
        "deletionTimestamp": _TIME,
        "deletionGracePeriodSeconds": _NUMBER,
        "labels": _TEXTS,
        "annotations": _TEXTS,
        "finalizers": Schema(type="array", items=_TEXT, list_type="set"),
        "ownerReferences": Schema(
            type="array",
            list_type="map",
            list_map_keys=("uid",),
            items=Schema(
                type="object",
                map_type="atomic",
                properties={
                    "apiVersion": _TEXT,
                    "kind": _TEXT,
                    "name": _TEXT,
                    "uid": _TEXT,
                    "controller": _FLAG,
                    "blockOwnerDeletion": _FLAG,
                },
            ),
        ),
        "managedFields": Schema(
            type="array",
            items=Schema(
                type="object",
                properties={
                    "manager": _TEXT,
                    "operation": _TEXT,
                    "apiVersion": _TEXT,
                    "time": _TIME,
                    "fieldsType": _TEXT,
                    "fieldsV1": ANY,
                    "subresource": _TEXT,
                },
            ),
        ),
    },
)
"""The fields of ObjectMeta. It has no constraints: those need more than a schema can say."""


def validate_new(
    meta: Object, *, namespaced: bool, rule: namerules.Rule = namerules.dns_subdomain, path: str = "metadata"
) -> list[Cause]:
    """The metadata of an object about to be created, after its name was generated. Types were checked before."""
    found: list[Cause] = []
    prefix, name, namespace = meta.get("generateName"), meta.get("name"), meta.get("namespace")
    if prefix:
        found += [
            fields.invalid(f"{path}.generateName", prefix, text) for text in namerules.generated(rule)(str(prefix))
        ]
    if not name:
        found.append(fields.required(f"{path}.name", "name or generateName is required"))
    else:
        found += [fields.invalid(f"{path}.name", name, text) for text in rule(str(name))]
    if namespaced and not namespace:
        found.append(fields.required(f"{path}.namespace"))
    elif namespaced:
        found += [fields.invalid(f"{path}.namespace", namespace, text) for text in namerules.dns_label(str(namespace))]
    elif namespace:
        found.append(fields.forbidden(f"{path}.namespace", "not allowed on this type"))
    return found + validate_values(meta, path)


def validate_values(meta: Object, path: str = "metadata", *, whole: bool = True) -> list[Cause]:
    """The rules for what is neither name nor namespace.

    Without `whole`, generation and finalizers are left out: upstream judges an update twice, once without them.
    """
    found: list[Cause] = []
    generation = meta.get("generation")
    if whole and isinstance(generation, int) and generation < 0:
        found.append(fields.invalid(f"{path}.generation", generation, "must be greater than or equal to 0"))
    if labels := objects.mapping(meta.get("labels")):
        found += validate_labels(labels, f"{path}.labels")
    if annotations := objects.mapping(meta.get("annotations")):
        found += validate_annotations(annotations, f"{path}.annotations")
    if owners := objects.sequence(meta.get("ownerReferences")):
        found += _validate_owners(owners, f"{path}.ownerReferences")
    if whole and (finalizers := objects.sequence(meta.get("finalizers"))):
        found += _validate_finalizers(finalizers, f"{path}.finalizers")
    if managers := objects.sequence(meta.get("managedFields")):
        found += _validate_managers(managers, f"{path}.managedFields")
    return found


def validate_labels(labels: Object, path: str) -> list[Cause]:
    found: list[Cause] = []
    for key, value in labels.items():
        found += [fields.invalid(path, key, text) for text in namerules.qualified_name(key)]
        found += [fields.invalid(path, value, text) for text in namerules.label_value(str(value))]
    return found


def validate_annotations(annotations: Object, path: str) -> list[Cause]:
    found: list[Cause] = []
    size = 0
    for key, value in annotations.items():
        found += [fields.invalid(path, key, text) for text in namerules.qualified_name(key.lower())]
        size += len(key.encode()) + len(str(value).encode())
    if size > MAX_ANNOTATIONS:
        found.append(fields.too_long(path, MAX_ANNOTATIONS))
    return found


def _validate_finalizers(finalizers: list[Any], path: str) -> list[Cause]:
    found = [fields.invalid(path, name, text) for name in finalizers for text in namerules.qualified_name(str(name))]
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        found.append(fields.invalid(path, finalizers, "finalizer orphan and foregroundDeletion cannot be both set"))
    return found


def _validate_owners(owners: list[Any], path: str) -> list[Cause]:
    """Upstream says nothing about which of the references it means."""
    found: list[Cause] = []
    controller = ""
    for owner in map(objects.mapping, owners):
        api_version = str(owner.get("apiVersion") or "")
        if api_version.count("/") > 1 or not resources.split_api_version(api_version)[1]:
            found.append(fields.invalid(f"{path}.apiVersion", api_version, "version must not be empty"))
        found += [
            fields.invalid(f"{path}.{key}", "", "must not be empty")
            for key in ("kind", "name", "uid")
            if not owner.get(key)
        ]
        if api_version == "v1" and owner.get("kind") == "Event":
            found.append(fields.invalid(path, _shown(owner), "/v1, Kind=Event is disallowed from being an owner"))
        if owner.get("controller"):
            this = f"{owner.get('kind', '')}/{owner.get('name', '')}"
            if controller:
                text = (
                    "Only one reference can have Controller set to true. "
                    f'Found "true" in references for {controller} and {this}'
                )
                found.append(fields.invalid(path, fields.Ordered([_shown(each).value for each in owners]), text))
            else:
                controller = this
    return found


def _shown(owner: Object) -> fields.Ordered:
    """A reference as Go prints it: the four parts that it always has, then the rest."""
    parts = {key: owner.get(key) or "" for key in ("apiVersion", "kind", "name", "uid")}
    flags = {key: owner[key] for key in ("controller", "blockOwnerDeletion") if owner.get(key) is not None}
    return fields.Ordered(parts | flags)


def _validate_managers(managers: list[Any], path: str) -> list[Cause]:
    found: list[Cause] = []
    for index, entry in enumerate(managers):
        manager = objects.mapping(entry)
        place = f"{path}[{index}]"
        operation = manager.get("operation") or ""
        if operation not in ("Apply", "Update"):
            found.append(fields.invalid(f"{place}.operation", operation, "must be `Apply` or `Update`"))
        if manager.get("fieldsType") not in (None, "", "FieldsV1"):
            found.append(fields.invalid(f"{place}.fieldsType", manager["fieldsType"], "must be `FieldsV1`"))
        if len(cast(str, manager.get("manager") or "").encode()) > 128:
            found.append(fields.too_long(f"{place}.manager", 128))
        if len(cast(str, manager.get("subresource") or "").encode()) > 256:
            found.append(fields.too_long(f"{place}.subresource", 256))
    return found
