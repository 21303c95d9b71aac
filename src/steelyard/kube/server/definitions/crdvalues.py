"""How kube-apiserver prints parts of a CustomResourceDefinition when it refuses one.

It prints the Go structures that it has read the definition into: every field by its Go name, in the order of its
declaration, whether it was given or not. What all versions share has been moved out of them by then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from steelyard.kube import fields, objects
from steelyard.kube.objects import Object

SHARED: Final = (
    ("schema", "validation"),
    ("subresources", "subresources"),
    ("additionalPrinterColumns", "additionalPrinterColumns"),
    ("selectableFields", "selectableFields"),
)
"""Fields of a version, and where in the spec they are spoken of if all versions say the same."""


def is_shared(versions: Iterable[Object], key: str) -> bool:
    given = [version.get(key) or None for version in versions]
    return bool(given) and all(each == given[0] for each in given)


def of_versions(versions: list[Object]) -> fields.Ordered:
    shared = {key for key, _ in SHARED if is_shared(versions, key)}
    own = [{key: value for key, value in each.items() if key not in shared} for each in versions]
    return fields.Ordered([_version(each) for each in own])


def of_schema(schema: Object) -> fields.Ordered:
    return fields.Ordered(_schema(schema))


def _version(version: Object) -> Object:
    schema, subresources = version.get("schema"), version.get("subresources")
    return {
        "Name": version.get("name") or "",
        "Served": version.get("served") is True,
        "Storage": version.get("storage") is True,
        "Deprecated": version.get("deprecated") is True,
        "DeprecationWarning": version.get("deprecationWarning"),
        "Schema": None if schema is None else {"OpenAPIV3Schema": _maybe(_schema)(schema.get("openAPIV3Schema"))},
        "Subresources": None if subresources is None else _subresources(subresources),
        "AdditionalPrinterColumns": [_column(each) for each in version["additionalPrinterColumns"]]
        if version.get("additionalPrinterColumns")
        else None,
        "SelectableFields": [{"JSONPath": each.get("jsonPath") or ""} for each in version["selectableFields"]]
        if version.get("selectableFields")
        else None,
    }


def _subresources(subresources: Object) -> Object:
    scale = subresources.get("scale")
    return {
        "Status": None if subresources.get("status") is None else {},
        "Scale": None
        if scale is None
        else {
            "SpecReplicasPath": scale.get("specReplicasPath") or "",
            "StatusReplicasPath": scale.get("statusReplicasPath") or "",
            "LabelSelectorPath": scale.get("labelSelectorPath"),
        },
    }


def _column(column: Object) -> Object:
    return {
        "Name": column.get("name") or "",
        "Type": column.get("type") or "",
        "Format": column.get("format") or "",
        "Description": column.get("description") or "",
        "Priority": column.get("priority") or 0,
        "JSONPath": column.get("jsonPath") or "",
    }


def _rule(rule: Object) -> Object:
    return {
        "Rule": rule.get("rule") or "",
        "Message": rule.get("message") or "",
        "MessageExpression": rule.get("messageExpression") or "",
        "Reason": rule.get("reason"),
        "FieldPath": rule.get("fieldPath") or "",
        "OptionalOldSelf": rule.get("optionalOldSelf"),
    }


def _schema(schema: Object) -> Object:
    return {name: read(schema.get(key)) for name, key, read in _SCHEMA}


def _text(value: Any) -> str:
    return value or ""


def _flag(value: Any) -> bool:
    return value is True


def _given(value: Any) -> Any:
    return value


def _some(value: Any) -> Any:
    return value or None


def _maybe(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else read(value)


def _schemas(value: Any) -> Any:
    return [_schema(objects.mapping(each)) for each in value] if value else None


def _named(value: Any) -> Any:
    return {key: _schema(objects.mapping(each)) for key, each in sorted(value.items())} if value else None


def _or_list(value: Any) -> Any:
    if isinstance(value, list):
        return {"Schema": None, "JSONSchemas": _schemas(value)}
    return {"Schema": _schema(objects.mapping(value)), "JSONSchemas": None}


def _or_flag(value: Any) -> Any:
    if isinstance(value, bool):
        return {"Allows": value, "Schema": None}
    return {"Allows": True, "Schema": _schema(objects.mapping(value))}


def _docs(value: Any) -> Any:
    return {"Description": value.get("description") or "", "URL": value.get("url") or ""}


def _rules(value: Any) -> Any:
    return [_rule(objects.mapping(each)) for each in value] if value else None


_SCHEMA: Final[tuple[tuple[str, str, Callable[[Any], Any]], ...]] = (
    ("ID", "id", _text),
    ("Schema", "$schema", _text),
    ("Ref", "$ref", _given),
    ("Description", "description", _text),
    ("Type", "type", _text),
    ("Nullable", "nullable", _flag),
    ("Format", "format", _text),
    ("Title", "title", _text),
    ("Default", "default", _given),
    ("Maximum", "maximum", _given),
    ("ExclusiveMaximum", "exclusiveMaximum", _flag),
    ("Minimum", "minimum", _given),
    ("ExclusiveMinimum", "exclusiveMinimum", _flag),
    ("MaxLength", "maxLength", _given),
    ("MinLength", "minLength", _given),
    ("Pattern", "pattern", _text),
    ("MaxItems", "maxItems", _given),
    ("MinItems", "minItems", _given),
    ("UniqueItems", "uniqueItems", _flag),
    ("MultipleOf", "multipleOf", _given),
    ("Enum", "enum", _some),
    ("MaxProperties", "maxProperties", _given),
    ("MinProperties", "minProperties", _given),
    ("Required", "required", _some),
    ("Items", "items", _maybe(_or_list)),
    ("AllOf", "allOf", _schemas),
    ("OneOf", "oneOf", _schemas),
    ("AnyOf", "anyOf", _schemas),
    ("Not", "not", _maybe(_schema)),
    ("Properties", "properties", _named),
    ("AdditionalProperties", "additionalProperties", _maybe(_or_flag)),
    ("PatternProperties", "patternProperties", _named),
    ("Dependencies", "dependencies", _some),
    ("AdditionalItems", "additionalItems", _maybe(_or_flag)),
    ("Definitions", "definitions", _named),
    ("ExternalDocs", "externalDocs", _maybe(_docs)),
    ("Example", "example", _given),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", _given),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", _flag),
    ("XIntOrString", "x-kubernetes-int-or-string", _flag),
    ("XListMapKeys", "x-kubernetes-list-map-keys", _some),
    ("XListType", "x-kubernetes-list-type", _given),
    ("XMapType", "x-kubernetes-map-type", _given),
    ("XValidations", "x-kubernetes-validations", _rules),
)
SCHEMA_FIELDS: Final = tuple((name, key) for name, key, _ in _SCHEMA)
"""The Go names of a schema's fields, in the order of their declaration, with their JSON names."""


def is_given(value: Any) -> bool:
    """Whether Go tells the value of a schema's field from an absent one."""
    return value is not None and value not in ("", False) and not (isinstance(value, list | dict) and not value)
