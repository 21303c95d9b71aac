"""What kube-apiserver asks of a CustomResourceDefinition before it serves anything by it.

A schema, subresources or columns that all versions share are spoken of at `spec.validation`, `spec.subresources` and
`spec.additionalPrinterColumns`, as upstream does.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, cast
from urllib.parse import urlsplit

from steelyard.kube import fields, names, objects
from steelyard.kube.errors import Cause
from steelyard.kube.objects import Object
from steelyard.kube.schema import structural
from steelyard.kube.server import crdstatus
from steelyard.kube.server.admission import endpoint

_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS: Final = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_AT_ROOT_WITH_STATUS: Final = {
    "description": "Description", "type": "Type", "format": "Format", "title": "Title", "maximum": "Maximum",
    "exclusiveMaximum": "ExclusiveMaximum", "minimum": "Minimum", "exclusiveMinimum": "ExclusiveMinimum",
    "maxLength": "MaxLength", "minLength": "MinLength", "pattern": "Pattern", "maxItems": "MaxItems",
    "minItems": "MinItems", "uniqueItems": "UniqueItems", "multipleOf": "MultipleOf", "required": "Required",
    "items": "Items", "properties": "Properties", "externalDocs": "ExternalDocs", "example": "Example",
    "x-kubernetes-preserve-unknown-fields": "XPreserveUnknownFields", "x-kubernetes-validations": "XValidations",
}  # fmt: skip
_APPROVAL: Final = "api-approved.kubernetes.io"
_SEE: Final = "see https://github.com/kubernetes/enhancements/pull/1111"
_MAX_SELECTABLE: Final = 8


def validate_create(crd: Object) -> list[Cause]:
    """All but the metadata that every object has, whose name must be `<plural>.<group>`."""
    spec = objects.mapping(crd.get("spec"))
    wanted = f"{objects.at(spec, 'names', 'plural') or ''}.{spec.get('group') or ''}"
    found: list[Cause] = []
    if objects.name(crd) and objects.name(crd) != wanted:
        text = 'must be spec.names.plural+"."+spec.group'
        found.append(fields.invalid("metadata.name", objects.name(crd), text))
    return [*found, *_validate(crd, spec), *_approval(crd, spec, None)]


def validate_update(crd: Object, old: Object) -> list[Cause]:
    spec, before = objects.mapping(crd.get("spec")), objects.mapping(old.get("spec"))
    found = [*_validate(crd, spec), *_approval(crd, spec, old)]
    immutable: list[tuple[str, tuple[str, ...]]] = [
        ("spec.group", ("group",)),
        ("spec.names.plural", ("names", "plural")),
    ]
    if crdstatus.is_condition_true(old, "Established"):
        immutable += [("spec.scope", ("scope",)), ("spec.names.kind", ("names", "kind"))]
    for place, path in immutable:
        if objects.at(spec, *path) != objects.at(before, *path):
            found.append(fields.invalid(place, objects.at(spec, *path), "field is immutable"))
    return found


def _validate(crd: Object, spec: Object) -> list[Cause]:
    found = [*_spec(spec), *_stored_versions(crd, spec)]
    if spec.get("preserveUnknownFields") is True:
        text = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        found.append(fields.invalid("spec.preserveUnknownFields", True, text))
    return found


def _spec(spec: Object) -> Iterable[Cause]:
    group = str(spec.get("group") or "")
    if not group:
        yield fields.required("spec.group")
    elif wrong := names.dns_subdomain(group):
        yield fields.invalid("spec.group", group, ",".join(wrong))
    elif "." not in group:
        yield fields.invalid("spec.group", group, "should be a domain with at least one dot")
    yield from _one_of("spec.scope", spec.get("scope"), ("Cluster", "Namespaced"))
    versions = [objects.mapping(version) for version in objects.sequence(spec.get("versions"))]
    yield from _versions(versions)
    given = objects.mapping(spec.get("names"))
    for key in ("plural", "singular", "kind", "listKind"):
        if not given.get(key):
            yield fields.required(f"spec.names.{key}")
    yield from _names(given, "spec.names")
    yield from _conversion(objects.mapping(spec.get("conversion")))


def _one_of(path: str, value: Any, accepted: tuple[str, ...]) -> Iterable[Cause]:
    if not value:
        yield fields.required(path)
    elif value not in accepted:
        yield fields.not_supported(path, value, accepted)


def _versions(versions: list[Object]) -> Iterable[Cause]:
    for index, version in enumerate(versions):
        place = f"spec.versions[{index}]"
        name = str(version.get("name") or "")
        if wrong := names.dns1035_label(name):
            yield fields.invalid(f"{place}.name", name, ",".join(wrong))
        if not isinstance(objects.at(version, "schema", "openAPIV3Schema"), dict):
            yield fields.required(f"{place}.schema.openAPIV3Schema")
        warning = version.get("deprecationWarning")
        if warning is not None and not version.get("deprecated"):
            yield fields.invalid(f"{place}.deprecationWarning", warning, "can only be set for deprecated versions")
        elif warning is not None and not 0 < len(str(warning)) <= 256:
            text = "must be <= 256 characters long" if warning else "must not be an empty string"
            yield fields.invalid(f"{place}.deprecationWarning", warning, text)
    listed = [str(version.get("name") or "") for version in versions]
    for place, version in _places(versions, "schema", "validation"):
        has_status = isinstance(objects.at(version, "subresources", "status"), dict)
        yield from _schema(objects.mapping(objects.at(version, "schema", "openAPIV3Schema")), place, has_status)
    for place, version in _places(versions, "subresources", "subresources"):
        yield from _subresources(objects.mapping(version.get("subresources")), place)
    for place, version in _places(versions, "additionalPrinterColumns", "additionalPrinterColumns"):
        for index, column in enumerate(objects.sequence(version.get("additionalPrinterColumns"))):
            yield from _column(objects.mapping(column), f"{place}[{index}]")
    for place, version in _places(versions, "selectableFields", "selectableFields"):
        yield from _selectable(version, place)
    if len(set(listed)) != len(listed):
        yield fields.invalid("spec.versions", versions, "must contain unique version names")
    if sum(version.get("storage") is True for version in versions) != 1:
        yield fields.invalid("spec.versions", versions, "must have exactly one version marked as storage version")


def _places(versions: list[Object], key: str, shared: str) -> Iterable[tuple[str, Object]]:
    """Where something of each version is spoken of; once, if all versions say the same."""
    having = [(index, version) for index, version in enumerate(versions) if version.get(key)]
    if having and len(having) == len(versions) and all(version[key] == having[0][1][key] for _, version in having):
        return [(f"spec.{shared}", having[0][1])]
    return [(f"spec.versions[{index}].{key}", version) for index, version in having]


def _schema(document: Object, path: str, has_status: bool) -> Iterable[Cause]:
    if not document:
        return
    place = f"{path}.openAPIV3Schema"
    if has_status:
        if document.get("type") not in (None, "", "object"):
            text = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
            yield fields.invalid(f"{place}.type", document["type"], text)
        elif any(value and key not in _AT_ROOT_WITH_STATUS for key, value in document.items()):
            allowed = " ".join(_AT_ROOT_WITH_STATUS.values())
            text = f"only [{allowed}] fields are allowed at the root of the schema if the status subresource is enabled"
            yield fields.invalid(place, document, text)
    if document.get("nullable") is True:
        yield fields.forbidden(f"{place}.nullable", "nullable cannot be true at the root")
    try:
        yield from structural.check(document, place)
    except RecursionError:
        yield fields.forbidden(place, "the schema is nested too deeply")


def _subresources(subresources: Object, path: str) -> Iterable[Cause]:
    if subresources.get("scale") is None:
        return
    scale = objects.mapping(subresources["scale"])
    paths: tuple[tuple[str, tuple[str, ...], str], ...] = (
        ("specReplicasPath", (".spec.",), ".spec"),
        ("statusReplicasPath", (".status.",), ".status"),
        ("labelSelectorPath", (".spec.", ".status."), "either .spec or .status"),
    )
    for key, roots, described in paths:
        place, value = f"{path}.scale.{key}", str(scale.get(key) or "")
        if not value and key != "labelSelectorPath":
            yield fields.required(place)
        elif value and not value.startswith("."):
            yield fields.invalid(place, value, "must be a simple json path starting with .")
        elif value and not value.startswith(roots):
            yield fields.invalid(place, value, f"should be a json path under {described}")


def _column(column: Object, path: str) -> Iterable[Cause]:
    if not column.get("name"):
        yield fields.required(f"{path}.name")
    type_, format_, json_path = column.get("type"), column.get("format"), str(column.get("jsonPath") or "")
    if not type_:
        yield fields.required(f"{path}.type", f"must be one of {','.join(_COLUMN_TYPES)}")
    elif type_ not in _COLUMN_TYPES:
        yield fields.invalid(f"{path}.type", type_, f"must be one of {','.join(_COLUMN_TYPES)}")
    if format_ and format_ not in _COLUMN_FORMATS:
        yield fields.invalid(f"{path}.format", format_, f"must be one of {','.join(_COLUMN_FORMATS)}")
    if not json_path:
        yield fields.required(f"{path}.JSONPath")
    elif not json_path.startswith("."):
        yield fields.invalid(f"{path}.JSONPath", json_path, "must be a simple json path starting with .")


def _selectable(version: Object, path: str) -> Iterable[Cause]:
    seen: set[str] = set()
    schema = objects.mapping(objects.at(version, "schema", "openAPIV3Schema"))
    for index, entry in enumerate(objects.sequence(version.get("selectableFields"))):
        place = f"{path}[{index}].jsonPath"
        json_path = str(objects.mapping(entry).get("jsonPath") or "")
        if not json_path:
            yield fields.required(place)
            continue
        steps = json_path.removeprefix(".").split(".")
        if steps[0] == "metadata":
            yield fields.invalid(place, json_path, "must not point to fields in metadata")
        node: Any = schema
        for step in steps:
            node = objects.at(node, "properties", step)
        if objects.mapping(node).get("type") not in ("string", "boolean", "integer"):
            text = (
                "must point to a field of type string, boolean or integer. "
                "Enum string fields and strings with formats are allowed."
            )
            yield fields.invalid(place, json_path, text)
        if json_path in seen:
            yield fields.duplicate(place, json_path)
        seen.add(json_path)
    if len(seen) > _MAX_SELECTABLE:
        yield fields.too_many(path, len(seen), _MAX_SELECTABLE)


def _names(given: Object, path: str) -> Iterable[Cause]:
    for key in ("plural", "singular"):
        text = str(given.get(key) or "")
        if text and (wrong := names.dns1035_label(text)):
            yield fields.invalid(f"{path}.{key}", text, ",".join(wrong))
    for key in ("kind", "listKind"):
        text = str(given.get(key) or "")
        if text and (wrong := names.dns1035_label(text.lower())):
            detail = "may have mixed case, but should otherwise match: " + ",".join(wrong)
            yield fields.invalid(f"{path}.{key}", text, detail)
    for key in ("shortNames", "categories"):
        for index, text in enumerate(cast("list[str]", objects.sequence(given.get(key)))):
            if wrong := names.dns1035_label(text):
                yield fields.invalid(f"{path}.{key}[{index}]", text, ",".join(wrong))
    if given.get("kind") and given.get("kind") == given.get("listKind"):
        yield fields.invalid(f"{path}.listKind", given["listKind"], "kind and listKind may not be the same")


def _conversion(conversion: Object) -> Iterable[Cause]:
    if not conversion:
        return
    yield from _one_of("spec.conversion.strategy", conversion.get("strategy"), ("None", "Webhook"))
    webhook = conversion.get("webhook")
    if conversion.get("strategy") != "Webhook":
        if webhook is not None:
            text = "should not be set when strategy is not set to Webhook"
            yield fields.forbidden("spec.conversion.webhookClientConfig", text)
        return
    client = objects.mapping(objects.at(webhook, "clientConfig"))
    place = "spec.conversion.webhookClientConfig"
    if not client:
        yield fields.required(place, "required when strategy is set to Webhook")
    else:
        yield from endpoint.validate(client, place)
    versions = cast("list[str]", objects.sequence(objects.at(webhook, "conversionReviewVersions")))
    place = "spec.conversion.conversionReviewVersions"
    if not versions:
        yield fields.required(place)
    elif not {"v1", "v1beta1"} & set(versions):
        yield fields.invalid(place, versions, "must include at least one of v1, v1beta1")


def _stored_versions(crd: Object, spec: Object) -> Iterable[Cause]:
    stored = cast("list[str]", objects.sequence(objects.at(crd, "status", "storedVersions")))
    path = "status.storedVersions"
    if not stored:
        yield fields.invalid(path, stored, "must have at least one stored version")
        return
    versions = [objects.mapping(version) for version in objects.sequence(spec.get("versions"))]
    present = {str(version.get("name")) for version in versions}
    for version in versions:
        if version.get("storage") is True and version.get("name") not in stored:
            yield fields.invalid(path, stored, f"must have the storage version {version.get('name')}")
    for index, name in enumerate(stored):
        if name not in present:
            text = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in "
                f"spec.versions until a storage migration ensures no data remains persisted in {name} and removes "
                f"{name} from status.storedVersions"
            )
            yield fields.invalid(f"{path}[{index}]", name, text)


def _approval(crd: Object, spec: Object, old: Object | None) -> Iterable[Cause]:
    """Groups of the Kubernetes project itself need a reference to the review of the API."""
    group = str(spec.get("group") or "")
    if not f".{group}".endswith((".k8s.io", ".kubernetes.io")):
        return
    value = objects.annotations(crd).get(_APPROVAL, "")
    if old is not None and objects.annotations(old).get(_APPROVAL, "") == value:
        return
    place = f"metadata.annotations[{_APPROVAL}]"
    parts = urlsplit(value)
    if not value:
        text = f"protected groups must have approval annotation {fields.quote(_APPROVAL)}, {_SEE}"
        yield fields.required(place, text)
    elif not value.startswith("unapproved") and not (parts.scheme and parts.netloc):
        text = (
            f"protected groups must have approval annotation {fields.quote(_APPROVAL)} "
            f'with either a URL or a reason starting with "unapproved", {_SEE}'
        )
        yield fields.invalid(place, value, text)
