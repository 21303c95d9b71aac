"""What kube-apiserver asks of a CustomResourceDefinition before it serves anything by it.

Everything is told, in upstream's order and words. What all versions share is spoken of at the places that earlier
versions of the API had for it: `spec.validation`, `spec.subresources`, `spec.additionalPrinterColumns`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, cast

from steelyard.kube import fields, namerules, objects
from steelyard.kube.errors import Cause
from steelyard.kube.objects import Object
from steelyard.kube.schema import structural
from steelyard.kube.server.definitions import crdstatus, crdvalues
from steelyard.kube.server.webhooks import clientconfig

_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS: Final = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_AT_ROOT_WITH_STATUS: Final = (
    "Description", "Type", "Format", "Title", "Maximum", "ExclusiveMaximum", "Minimum", "ExclusiveMinimum", "MaxLength",
    "MinLength", "Pattern", "MaxItems", "MinItems", "UniqueItems", "MultipleOf", "Required", "Items", "Properties",
    "ExternalDocs", "Example", "XPreserveUnknownFields", "XValidations",
)  # fmt: skip
_AT_ROOT: Final = "at the root of the schema if the status subresource is enabled"
_MAX_SELECTABLE: Final = 8


def validate_create(crd: Object) -> list[Cause]:
    """All but the metadata that every object has, whose name must be `<plural>.<group>`."""
    spec = objects.mapping(crd.get("spec"))
    wanted = f"{objects.at(spec, 'names', 'plural') or ''}.{spec.get('group') or ''}"
    found: list[Cause] = []
    if objects.name(crd) and objects.name(crd) != wanted:
        text = 'must be spec.names.plural+"."+spec.group'
        found.append(fields.invalid("metadata.name", objects.name(crd), text))
    return [*found, *_spec(spec), *_status(crd, spec, None)]


def validate_update(crd: Object, old: Object) -> list[Cause]:
    spec, before = objects.mapping(crd.get("spec")), objects.mapping(old.get("spec"))
    stored = {each.get("name"): _document(each) for each in _versions_of(before)}
    known = {each.get("name") for each in _versions_of(spec) if _document(each) == stored.get(each.get("name"))}
    found = list(_spec(spec, known))
    immutable: list[tuple[str, tuple[str, ...]]] = []
    if crdstatus.is_condition_true(old, "Established"):
        immutable += [("spec.scope", ("scope",)), ("spec.names.kind", ("names", "kind"))]
    immutable += [("spec.group", ("group",)), ("spec.names.plural", ("names", "plural"))]
    for place, path in immutable:
        if objects.at(spec, *path) != objects.at(before, *path):
            found.append(fields.invalid(place, objects.at(spec, *path), "field is immutable"))
    return [*found, *_status(crd, spec, old)]


def _status(crd: Object, spec: Object, old: Object | None) -> Iterable[Cause]:
    yield from _stored_versions(crd, spec)
    yield from _approval(crd, old)
    if spec.get("preserveUnknownFields") is True:
        text = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        yield fields.invalid("spec.preserveUnknownFields", True, text)


def _versions_of(spec: Object) -> list[Object]:
    return [objects.mapping(version) for version in objects.sequence(spec.get("versions"))]


def _spec(spec: Object, known: Collection[Any] = ()) -> Iterable[Cause]:
    """`known` are the versions whose schemas are stored already."""
    group = str(spec.get("group") or "")
    if not group:
        yield fields.required("spec.group")
    elif wrong := namerules.dns_subdomain(group):
        yield fields.invalid("spec.group", group, ",".join(wrong))
    elif "." not in group:
        yield fields.invalid("spec.group", group, "should be a domain with at least one dot")
    yield from _one_of("spec.scope", spec.get("scope"), ("Cluster", "Namespaced"))
    versions = _versions_of(spec)
    yield from _versions(versions, known)
    given = objects.mapping(spec.get("names"))
    for key in ("plural", "singular", "kind", "listKind"):
        if not given.get(key):
            yield fields.required(f"spec.names.{key}")
    yield from _names(given, "spec.names")
    if versions:
        has_status = any(_has_status(version) for version in versions)
        is_known = versions[0].get("name") in known
        yield from _parts(versions[0], has_status, "spec", dict(crdvalues.SHARED), _shared(versions), is_known)
    if spec.get("preserveUnknownFields") is True and objects.at(spec, "conversion", "strategy") != "None":
        strategy = objects.at(spec, "conversion", "strategy")
        text = "must be None if spec.preserveUnknownFields is true"
        yield fields.invalid("spec.conversion.strategy", strategy, text)
    yield from _conversion(objects.mapping(spec.get("conversion")))


def _one_of(path: str, value: Any, accepted: tuple[str, ...]) -> Iterable[Cause]:
    if not value:
        yield fields.required(path)
    elif value not in accepted:
        yield fields.not_supported(path, value, accepted)


def _versions(versions: list[Object], known: Collection[Any]) -> Iterable[Cause]:
    if not (versions and crdvalues.is_shared(versions, "schema") and _document(versions[0])):
        for index, version in enumerate(versions):
            if not _document(version):
                yield fields.required(f"spec.versions[{index}].schema.openAPIV3Schema")
    own = {key for key, _ in crdvalues.SHARED} - _shared(versions)
    for index, version in enumerate(versions):
        place = f"spec.versions[{index}]"
        name = str(version.get("name") or "")
        if wrong := namerules.dns1035_label(name):
            yield fields.invalid(f"{place}.name", name, ",".join(wrong))
        for text in _deprecation(version):
            yield fields.invalid(f"{place}.deprecationWarning", version.get("deprecationWarning"), text)
        names_of = {key: key for key, _ in crdvalues.SHARED}
        yield from _parts(version, _has_status(version), place, names_of, own, name in known)
    listed = [str(version.get("name") or "") for version in versions]
    if len(set(listed)) != len(listed):
        yield fields.invalid("spec.versions", crdvalues.of_versions(versions), "must contain unique version names")
    if sum(version.get("storage") is True for version in versions) != 1:
        text = "must have exactly one version marked as storage version"
        yield fields.invalid("spec.versions", crdvalues.of_versions(versions), text)
    if listed and listed[0] and (wrong := namerules.dns1035_label(listed[0])):
        yield fields.invalid("spec.version", listed[0], ",".join(wrong))


def _shared(versions: list[Object]) -> set[str]:
    return {key for key, _ in crdvalues.SHARED if crdvalues.is_shared(versions, key)}


def _document(version: Object) -> Any:
    return objects.at(version, "schema", "openAPIV3Schema")


def _has_status(version: Object) -> bool:
    return isinstance(objects.at(version, "subresources", "status"), dict)


def _deprecation(version: Object) -> Iterable[str]:
    warning = version.get("deprecationWarning")
    if warning is None:
        return
    if not version.get("deprecated"):
        yield "can only be set for deprecated versions"
        return
    if len(str(warning).encode()) > 256:
        yield "must be <= 256 characters long"
    if not warning:
        yield "must not be an empty string"
    index = 0
    for char in str(warning):
        if not char.isprintable():
            yield f"must only contain printable UTF-8 characters; non-printable character found at index {index}"
            return
        index += len(char.encode())


def _parts(
    version: Object,
    has_status: bool,
    place: str,
    names_of: Mapping[str, str],
    wanted: Collection[str],
    is_known: bool,
) -> Iterable[Cause]:
    """What a version says, or what all of them say: then `place` is the spec, which has other names for it."""
    places = {key: f"{place}.{name}" for key, name in names_of.items() if key in wanted and version.get(key)}
    if "schema" in places:
        yield from _schema(objects.mapping(_document(version)), places["schema"], has_status, is_known)
    if "subresources" in places:
        yield from _subresources(objects.mapping(version.get("subresources")), places["subresources"])
    if "additionalPrinterColumns" in places:
        for index, column in enumerate(objects.sequence(version.get("additionalPrinterColumns"))):
            yield from _column(objects.mapping(column), f"{places['additionalPrinterColumns']}[{index}]")
    if "selectableFields" in places:
        yield from _selectable(version, places["selectableFields"])


def _schema(document: Object, path: str, has_status: bool, is_known: bool) -> Iterable[Cause]:
    if not document:
        return
    place = f"{path}.openAPIV3Schema"
    if has_status:
        yield from _root_with_status(document, place)
    if document.get("nullable") is True:
        yield fields.forbidden(f"{place}.nullable", "nullable cannot be true at the root")
    try:
        yield from structural.check(document, place, is_known=is_known)
    except RecursionError:
        yield fields.forbidden(place, "the schema is nested too deeply")


def _root_with_status(document: Object, place: str) -> Iterable[Cause]:
    """The first field of the root, in the order of upstream's declaration, that leaves no room for a status apart."""
    for name, key in crdvalues.SCHEMA_FIELDS:
        if not crdvalues.is_given(document.get(key)):
            continue
        if name == "Type":
            if document["type"] != "object":
                text = f'only "object" is allowed as the type {_AT_ROOT}'
                yield fields.invalid(f"{place}.type", document["type"], text)
                return
        elif name not in _AT_ROOT_WITH_STATUS:
            allowed = " ".join(_AT_ROOT_WITH_STATUS)
            text = f"only [{allowed}] fields are allowed {_AT_ROOT}"
            yield fields.invalid(place, crdvalues.of_schema(document), text)
            return


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
    schema = objects.mapping(_document(version))
    if not schema:
        yield fields.invalid(path, "", "may only be set when `version.schema.openAPIV3Schema` is not included")
        return
    for index, entry in enumerate(objects.sequence(version.get("selectableFields"))):
        place = f"{path}[{index}].jsonPath"
        json_path = str(objects.mapping(entry).get("jsonPath") or "")
        if not json_path:
            yield fields.required(place)
            continue
        node, problem = _followed(schema, json_path)
        if problem:
            yield fields.invalid(place, json_path, f"is an invalid path: {problem}")
            continue
        if json_path.split(".")[1] == "metadata":
            yield fields.invalid(place, json_path, "must not point to fields in metadata")
        if node.get("type") not in ("string", "boolean", "integer"):
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


def _followed(schema: Object, path: str) -> tuple[Object, str]:
    """The schema at a path of names, or why there is none."""
    node = schema
    tokens = re.findall(r"[.\[\]]|[^.\[\]]+", path)
    while tokens:
        mark = tokens.pop(0)
        if mark == "[":
            return {}, "array notation is not allowed"
        if mark != ".":
            return {}, f"expected [ or . but got: {mark}"
        if not tokens:
            return {}, "unexpected end of JSON path"
        name = tokens.pop(0)
        properties, additional = objects.mapping(node.get("properties")), node.get("additionalProperties")
        if properties:
            if name not in properties:
                return {}, "does not refer to a valid field"
            node = objects.mapping(properties[name])
        elif additional is not None:
            node = objects.mapping(additional)
        else:
            return {}, "does not refer to a valid field"
    return node, ""


def _names(given: Object, path: str) -> Iterable[Cause]:
    for key in ("plural", "singular"):
        text = str(given.get(key) or "")
        if text and (wrong := namerules.dns1035_label(text)):
            yield fields.invalid(f"{path}.{key}", text, ",".join(wrong))
    for key in ("kind", "listKind"):
        text = str(given.get(key) or "")
        if text and (wrong := namerules.dns1035_label(text.lower())):
            detail = "may have mixed case, but should otherwise match: " + ",".join(wrong)
            yield fields.invalid(f"{path}.{key}", text, detail)
    yield from _labels(given, "shortNames", path)
    if given.get("kind") and given.get("kind") == given.get("listKind"):
        yield fields.invalid(f"{path}.listKind", given["listKind"], "kind and listKind may not be the same")
    yield from _labels(given, "categories", path)


def _labels(given: Object, key: str, path: str) -> Iterable[Cause]:
    for index, text in enumerate(cast("list[str]", objects.sequence(given.get(key)))):
        if wrong := namerules.dns1035_label(text):
            yield fields.invalid(f"{path}.{key}[{index}]", text, ",".join(wrong))


def _conversion(conversion: Object) -> Iterable[Cause]:
    if not conversion:
        return
    yield from _one_of("spec.conversion.strategy", conversion.get("strategy"), ("None", "Webhook"))
    webhook = conversion.get("webhook")
    client = objects.at(webhook, "clientConfig")
    versions = cast("list[str]", objects.sequence(objects.at(webhook, "conversionReviewVersions")))
    if conversion.get("strategy") != "Webhook":
        text = "should not be set when strategy is not set to Webhook"
        if client is not None:
            yield fields.forbidden("spec.conversion.webhookClientConfig", text)
        if versions:
            yield fields.forbidden("spec.conversion.conversionReviewVersions", text)
        return
    place = "spec.conversion.webhookClientConfig"
    if client is None:
        yield fields.required(place, "required when strategy is set to Webhook")
    else:
        yield from clientconfig.validate(objects.mapping(client), place)
        yield from clientconfig.validate_authority(objects.mapping(client), place)
    yield from _review_versions(versions, "spec.conversion.conversionReviewVersions")


def _review_versions(versions: list[str], place: str) -> Iterable[Cause]:
    if not versions:
        yield fields.required(place)
        return
    for index, version in enumerate(versions):
        if version in versions[:index]:
            yield fields.invalid(f"{place}[{index}]", version, "duplicate version")
        else:
            for text in namerules.dns1035_label(version):
                yield fields.invalid(f"{place}[{index}]", version, text)
    if not {"v1", "v1beta1"} & set(versions):
        yield fields.invalid(place, versions, "must include at least one of v1, v1beta1")


def _stored_versions(crd: Object, spec: Object) -> Iterable[Cause]:
    stored = cast("list[str]", objects.sequence(objects.at(crd, "status", "storedVersions")))
    path = "status.storedVersions"
    if not stored:
        yield fields.invalid(path, None, "must have at least one stored version")
        return
    versions = _versions_of(spec)
    unseen = set(stored)
    for version in versions:
        # A name that comes a second time, which is wrong already, finds nothing left.
        if version.get("storage") is True and version.get("name") not in unseen:
            yield fields.invalid(path, stored, f"must have the storage version {version.get('name')}")
        unseen.discard(str(version.get("name")))
    for index, name in enumerate(stored):
        if name in unseen:
            text = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in "
                f"spec.versions until a storage migration ensures no data remains persisted in {name} and removes "
                f"{name} from status.storedVersions"
            )
            yield fields.invalid(f"{path}[{index}]", name, text)


def _approval(crd: Object, old: Object | None) -> Iterable[Cause]:
    """Groups of the Kubernetes project itself need a reference to the review of the API."""
    state, text = crdstatus.approval(crd)
    if old is not None and crdstatus.approval(old)[0] == state:
        return
    place = f"metadata.annotations[{crdstatus.APPROVAL}]"
    if state == "Missing":
        yield fields.required(place, text)
    elif state == "Invalid":
        yield fields.invalid(place, objects.annotations(crd).get(crdstatus.APPROVAL), text)
