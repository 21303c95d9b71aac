"""A kind's declaration to its CustomResourceDefinition, as kube-apiserver demands it: structural, without $ref.

Guarantees: descriptions, bounds, patterns and enums of the models arrive in the schema; an optional field is an
optional property (never `anyOf` with null); unknown fields are left to pruning.
"""

from __future__ import annotations

import functools
from typing import Any, cast

import orjson

from steelyard.api import schemas
from steelyard.api.model import ApiModel, Kind
from steelyard.kube import objects
from steelyard.kube.objects import Object

_KEPT_AS_THEY_ARE = frozenset(
    {
        "type", "format", "description", "enum", "pattern", "minimum", "maximum", "minLength", "maxLength", "minItems",
        "maxItems", "maxProperties", "uniqueItems", "required", "x-kubernetes-list-type", "x-kubernetes-list-map-keys",
        "x-kubernetes-map-type", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations",
    }
)  # fmt: skip


def definition(kind: Kind) -> Object:
    """The CRD object, ready to be applied."""
    resource = kind.resource
    metadata: Object = {"name": resource.group_resource}
    if kind.labels:
        metadata["labels"] = dict(kind.labels)
    names: Object = {
        "kind": resource.kind,
        "listKind": f"{resource.kind}List",
        "plural": resource.plural,
        "singular": kind.singular,
    }
    if kind.short_names:
        names["shortNames"] = list(kind.short_names)
    if kind.categories:
        names["categories"] = list(kind.categories)
    version: Object = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": object_schema(kind)},
        "additionalPrinterColumns": [column.to_json() for column in kind.columns],
    }
    if kind.status is not None:
        version["subresources"] = {"status": {}}
        if kind.scale is not None:
            version["subresources"]["scale"] = kind.scale.to_json()
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": {
            "group": resource.group,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "names": names,
            "versions": [version],
        },
    }


def object_schema(kind: Kind) -> Object:
    """The schema of whole objects of the kind."""
    metadata: Object = {"type": "object"}
    if kind.name_schema:
        metadata["properties"] = {"name": {"type": "string", **kind.name_schema}}
    spec = model_schema(kind.spec)
    properties: Object = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": metadata,
        "spec": spec,
    }
    if kind.status is not None:
        properties["status"] = model_schema(kind.status)
    schema: Object = {"type": "object", "description": kind.description, "properties": properties}
    if spec.get("required"):
        schema["required"] = ["spec"]
    for place, rules in kind.rules.items():
        node = _at(schema, place)
        node["x-kubernetes-validations"] = [
            *objects.sequence(node.get("x-kubernetes-validations")),
            *map(objects.copy, rules),
        ]
    return schema


def _at(schema: Object, place: str) -> Object:
    """The schema of a field: `spec.parameters`; of the whole object where the place is empty."""
    for step in filter(None, place.split(".")):
        schema = cast(Object, schema["properties"][step])
    return schema


def model_schema(model: type[ApiModel]) -> Object:
    """The structural schema of one model."""
    # Read anew each time, which also parts what definitions used twice would share, and YAML would print as anchors.
    return cast(Object, orjson.loads(schemas.find(model) or generated_schema(model)))


@functools.cache
def generated_schema(model: type[ApiModel]) -> bytes:
    """The same as JSON, from the model itself."""
    # Not needed where the table has it.
    from pydantic import TypeAdapter

    generated = TypeAdapter(model).json_schema(by_alias=True)
    return orjson.dumps(_structural(generated, objects.mapping(generated.get("$defs"))))


def _structural(node: Object, definitions: Object) -> Object:
    if "$ref" in node:
        target = objects.mapping(definitions[str(node["$ref"]).rpartition("/")[2]])
        # What is said where a type is used outranks what the type says of itself.
        return _structural({**target, **{key: value for key, value in node.items() if key != "$ref"}}, definitions)
    if "anyOf" in node:
        alternatives = [option for option in map(objects.mapping, node["anyOf"]) if option.get("type") != "null"]
        if len(alternatives) != 1:
            raise ValueError(f"a structural schema has no place for a union of types: {node}")
        rest = {key: value for key, value in node.items() if key != "anyOf"}
        return _structural({**alternatives[0], **rest}, definitions)
    result: Object = {key: value for key, value in node.items() if key in _KEPT_AS_THEY_ARE}
    if "description" in result:
        result["description"] = " ".join(str(result["description"]).split())
    if "const" in node:
        result["enum"] = [node["const"]]
    if node.get("default") is not None:
        result["default"] = node["default"]
    properties = objects.mapping(node.get("properties"))
    if properties:
        result["properties"] = {key: _structural(value, definitions) for key, value in properties.items()}
    if "items" in node:
        result["items"] = _structural(objects.mapping(node["items"]), definitions)
    values: Any = node.get("additionalProperties")
    if isinstance(values, dict):
        result["additionalProperties"] = _structural(cast(Object, values), definitions)
    return result
