"""CustomResourceDefinitions: what the server makes of one, and what it reports about it.

`served_versions` describes each version a definition serves; `prepare_create` and `prepare_update` fill in what a
definition may leave out. Its names and conditions are the matter of `crdstatus`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from steelyard.frozen import frozen
from steelyard.kube import fields, objects
from steelyard.kube.errors import Cause
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource, version_rank
from steelyard.kube.schema import formats, validate
from steelyard.kube.schema.model import MISSING, Schema
from steelyard.kube.server.definitions import crdrules, crdstatus
from steelyard.kube.server.definitions.described import Described
from steelyard.kube.server.webhooks import clientconfig
from steelyard.kube.server.webhooks.conversion import Conversion


@frozen
class ScalePaths:
    """JSON paths as the definition has them: `.spec.replicas`."""

    spec_replicas: str
    status_replicas: str
    label_selector: str = ""


@dataclass(frozen=True)
class ServedVersion:
    resource: Resource
    described: Described
    singular: str
    list_kind: str
    short_names: tuple[str, ...]
    categories: tuple[str, ...]
    has_status: bool
    scale: ScalePaths | None
    printer_columns: tuple[Object, ...]
    selectable_fields: tuple[str, ...]
    is_storage: bool
    storage_version: str
    deprecation_warning: str
    conversion: Conversion | None = None

    @property
    def openapi(self) -> Object:
        """The schema as the definition has it, for publishing."""
        return self.described.document

    @property
    def schema(self) -> Schema:
        return self.described.schema


def served_versions(crd: Object) -> tuple[ServedVersion, ...]:
    """What the definition serves, in its own order: nothing until its names are accepted."""
    spec = objects.mapping(crd.get("spec"))
    accepted = objects.mapping(objects.at(crd, "status", "acceptedNames"))
    if not crdstatus.is_accepted(crd):
        return ()
    versions = [objects.mapping(version) for version in objects.sequence(spec.get("versions"))]
    storage = next((str(version["name"]) for version in versions if version.get("storage")), "")
    return tuple(_served(spec, accepted, version, storage) for version in versions if version.get("served"))


def _served(spec: Object, accepted: Object, version: Object, storage: str) -> ServedVersion:
    openapi = objects.mapping(objects.at(version, "schema", "openAPIV3Schema"))
    name, group, kind = str(version["name"]), str(spec["group"]), str(accepted["kind"])
    subresources = objects.mapping(version.get("subresources"))
    selectable = map(objects.mapping, objects.sequence(version.get("selectableFields")))
    return ServedVersion(
        resource=Resource(group, name, str(accepted["plural"]), kind, namespaced=spec.get("scope") == "Namespaced"),
        described=Described(openapi),
        singular=str(accepted.get("singular") or ""),
        list_kind=str(accepted.get("listKind") or ""),
        short_names=tuple(map(str, objects.sequence(accepted.get("shortNames")))),
        categories=tuple(map(str, objects.sequence(accepted.get("categories")))),
        has_status=subresources.get("status") is not None,
        scale=_scale(subresources.get("scale")),
        printer_columns=tuple(map(objects.mapping, objects.sequence(version.get("additionalPrinterColumns")))),
        selectable_fields=tuple(str(field.get("jsonPath") or "") for field in selectable),
        is_storage=name == storage,
        storage_version=f"{group}/{storage}",
        deprecation_warning=_deprecation(version, spec, kind),
        conversion=_conversion(objects.mapping(spec.get("conversion"))),
    )


def _conversion(conversion: Object) -> Conversion | None:
    if conversion.get("strategy") != "Webhook":
        return None
    webhook = objects.mapping(conversion.get("webhook"))
    versions = tuple(map(str, objects.sequence(webhook.get("conversionReviewVersions"))))
    return Conversion(clientconfig.parse(objects.mapping(webhook.get("clientConfig"))), versions)


def _scale(scale: Any) -> ScalePaths | None:
    if not isinstance(scale, dict):
        return None
    paths = objects.mapping(cast(Object, scale))
    return ScalePaths(
        str(paths.get("specReplicasPath") or ""),
        str(paths.get("statusReplicasPath") or ""),
        str(paths.get("labelSelectorPath") or ""),
    )


def _deprecation(version: Object, spec: Object, kind: str) -> str:
    """Its own warning, or one that names the newest version to use instead."""
    if not version.get("deprecated"):
        return ""
    if version.get("deprecationWarning") is not None:
        return str(version["deprecationWarning"])
    group, name = spec["group"], str(version["name"])
    others = map(objects.mapping, objects.sequence(spec.get("versions")))
    better = [
        str(each["name"])
        for each in others
        if each.get("served") and not each.get("deprecated") and version_rank(str(each["name"])) > version_rank(name)
    ]
    instead = f"; use {group}/{max(better, key=version_rank)} {kind}" if better else ""
    return f"{group}/{name} {kind} is deprecated{instead}"


def validate_object(
    served: ServedVersion,
    obj: Object,
    old: Object | None = None,
    warnings: list[str] | None = None,
    *,
    subresource: str = "",
    found: Iterable[Cause] = (),
) -> list[Cause]:
    """A custom resource against its schema and what its scale subresource needs; metadata is judged elsewhere.

    `found` is what that found.
    """
    part = "status" if subresource == "status" else ""
    before = MISSING if old is None else old
    wrong = validate.validate(served.schema, obj, old=before, warnings=warnings, part=part, found=found)
    if served.scale is not None:
        wrong += validate_scale(served.scale, obj)
    return wrong


def validate_scale(scale: ScalePaths, obj: Object) -> list[Cause]:
    found: list[Cause] = []
    for path in (scale.spec_replicas, scale.status_replicas):
        if text := _access_problem(obj, path, int, "int64"):
            found.append(fields.invalid(path, 0, text))
            continue
        value = objects.at(obj, *_steps(path)) or 0
        if value < 0:
            found.append(fields.invalid(path, value, "should be a non-negative integer"))
        elif value > 2147483647:
            found.append(fields.invalid(path, value, "should be less than or equal to 2147483647"))
    if scale.label_selector and (text := _access_problem(obj, scale.label_selector, str, "string")):
        found.append(fields.invalid(scale.label_selector, "", text))
    return found


def _access_problem(obj: Object, path: str, wanted: type, go_name: str) -> str:
    """Why no value of the type is read at the path; empty if one is, or there is nothing."""
    holder = next((inner for inner in _holders(obj, _steps(path)) if not isinstance(inner, dict)), None)
    if holder is not None:
        value, go_name = holder, "map[string]interface{}"
    else:
        value = objects.at(obj, *_steps(path))
        if value is None or (isinstance(value, wanted) and not isinstance(value, bool)):
            return ""
    return f"{path} accessor error: {fields.go_value(value)} is of the type {fields.go_type(value)}, expected {go_name}"


def _steps(path: str) -> list[str]:
    return path.removeprefix(".").split(".")


def _holders(obj: Object, steps: Sequence[str]) -> Iterable[Any]:
    """What a path passes through, as far as it is there."""
    inner: Any = obj
    for step in steps[:-1]:
        inner = cast(Object, inner).get(step) if isinstance(inner, dict) else None
        if inner is not None:
            yield inner


def set_defaults(crd: Object) -> None:
    """The names and the conversion that a definition may leave out; in place."""
    spec = objects.mapping(crd.get("spec"))
    names = objects.mapping(spec.get("names"))
    kind = str(names.get("kind") or "")
    if kind:
        if not names.get("singular"):
            names["singular"] = kind.lower()
        if not names.get("listKind"):
            names["listKind"] = f"{kind}List"
    if not spec.get("conversion"):
        spec["conversion"] = {"strategy": "None"}
    service = objects.at(spec, "conversion", "webhook", "clientConfig", "service")
    if isinstance(service, dict):
        cast(Object, service).setdefault("port", 443)


def prepare_create(crd: Object) -> None:
    set_defaults(crd)
    crd["status"] = {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": None}
    _record_storage_version(crd)


def prepare_update(crd: Object, old: Object) -> None:
    set_defaults(crd)
    crd["status"] = objects.copy(objects.mapping(old.get("status")))
    _record_storage_version(crd)


def _record_storage_version(crd: Object) -> None:
    status = objects.mapping(crd["status"])
    stored = cast("list[str]", objects.sequence(status.get("storedVersions")))
    for version in map(objects.mapping, objects.sequence(objects.at(crd, "spec", "versions"))):
        if version.get("storage") is True:
            if version.get("name") not in stored:
                status["storedVersions"] = [*stored, str(version.get("name"))]
            return


def validate_create(crd: Object) -> list[Cause]:
    return crdrules.validate_create(crd)


def validate_update(crd: Object, old: Object) -> list[Cause]:
    return crdrules.validate_update(crd, old)


def warnings(crd: Object) -> tuple[str, ...]:
    """What a client is told about a definition that is accepted all the same."""
    found: dict[str, None] = {}
    for version in map(objects.mapping, objects.sequence(objects.at(crd, "spec", "versions"))):
        _collect_warnings(objects.mapping(objects.at(version, "schema", "openAPIV3Schema")), found)
    return tuple(found)


def _collect_warnings(document: Object, found: dict[str, None]) -> None:
    format_ = document.get("format")
    if format_ and document.get("type") == "string" and not formats.recognised(str(format_)):
        found[f"unrecognized format {fields.quote(str(format_))}"] = None
    for child in objects.mapping(document.get("properties")).values():
        _collect_warnings(objects.mapping(child), found)
    for key in ("items", "additionalProperties"):
        if isinstance(document.get(key), dict):
            _collect_warnings(objects.mapping(document[key]), found)
