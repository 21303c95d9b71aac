"""Schemas and operations of OpenAPI version 3 as version 2 says them.

Version 2 knows neither alternatives nor null, and kubectl, which checks the items of a List against it, refuses every
field that a typed object does not name. So a schema says less wherever saying as much as version 3 would make kubectl
refuse what the server accepts: a value that may be null or hold unknown fields has no type, properties or items.
Defaults are left to version 3 too.
"""

from __future__ import annotations

from typing import Any, Final, cast

from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.server.openapi import components

_REFERENCE: Final = "#/definitions/"
_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_AS_IT_IS: Final = frozenset(
    {
        "description", "enum", "exclusiveMaximum", "exclusiveMinimum", "format", "maxItems", "maxLength",
        "maxProperties", "maximum", "minItems", "minLength", "minProperties", "minimum", "multipleOf", "pattern",
        "required", "title", "type", "uniqueItems",
    }
)  # fmt: skip
_UNTYPED: Final = (_PRESERVE, "x-kubernetes-int-or-string")
_SHAPE: Final = ("type", "items", "properties")


def definition(schema: Object) -> Object:
    """What stands under a name of its own. With unknown fields, not even the fields of every object are named."""
    if schema.get(_PRESERVE) is True:
        return {"type": "object", **({components.GVK: schema[components.GVK]} if components.GVK in schema else {})}
    return _schema(schema)


def _schema(schema: Object) -> Object:
    out: Object = {}
    inherited = objects.sequence(schema.get("allOf"))
    if inherited and "$ref" in inherited[0]:
        out["$ref"] = _reference(inherited[0]["$ref"])
    for keyword, value in schema.items():
        if keyword in _AS_IT_IS or keyword.startswith("x-"):
            if value is not None and value is not False:
                out[keyword] = value
        elif keyword == "$ref":
            out[keyword] = _reference(value)
        elif keyword == "properties":
            # An object whose properties are none is, to kubectl, one that may have none.
            if value:
                out[keyword] = {name: _schema(inner) for name, inner in cast("dict[str, Object]", value).items()}
        elif keyword == "items" or keyword == "additionalProperties":
            out[keyword] = value if isinstance(value, bool) else _schema(value)
    if "oneOf" in schema and "type" not in schema and not any(schema.get(each) for each in _UNTYPED):
        out["type"] = "string"
    _loosen(schema, out)
    return out


def _loosen(schema: Object, out: Object) -> None:
    if schema.get("nullable") is True:
        for keyword in _SHAPE:
            out.pop(keyword, None)
    if schema.get(_PRESERVE) is True:
        out.pop("items", None)
        out.pop("properties", None)
        if out.get("type") == "object":
            del out["type"]
    if out.get("type") == "array" and "items" not in out:
        del out["type"]
    if "required" in out:
        properties = objects.mapping(schema.get("properties"))
        required = [name for name in out["required"] if not _is_nullable(properties.get(name))]
        if required and not _is_nullable(schema.get("additionalProperties")):
            out["required"] = required
        else:
            del out["required"]


def _is_nullable(schema: Any) -> bool:
    return objects.mapping(schema).get("nullable") is True


def _reference(reference: str) -> str:
    return reference.replace(components.REFERENCE, _REFERENCE)


def path_item(item: Object) -> Object:
    """The operations of one path."""
    return {
        keyword: [_parameter(each) for each in value] if keyword == "parameters" else _operation(value)
        for keyword, value in item.items()
    }


def _operation(operation: Object) -> Object:
    body = objects.mapping(operation.get("requestBody"))
    content = objects.mapping(body.get("content"))
    parameters = [_parameter(each) for each in operation.get("parameters", ())]
    if content:
        described: Object = {"name": "body", "in": "body", "schema": _content_schema(content)}
        parameters.insert(0, {**described, "required": True} if body.get("required") else described)
    responses = cast("dict[str, Object]", operation["responses"])
    said = {name: value for name, value in operation.items() if name.startswith("x-")}
    return {
        "tags": operation["tags"],
        "operationId": operation["operationId"],
        "consumes": list(content) or ["*/*"],
        "produces": sorted({media for each in responses.values() for media in objects.mapping(each.get("content"))}),
        "schemes": ["https"],
        "parameters": parameters,
        "responses": {code: _response(each) for code, each in responses.items()},
        **said,
    }


def _parameter(parameter: Object) -> Object:
    said = {name: value for name, value in parameter.items() if name != "schema"}
    return {**said, **objects.mapping(parameter["schema"])}


def _response(response: Object) -> Object:
    content = objects.mapping(response.get("content"))
    described: Object = {"description": response["description"]}
    return {**described, "schema": _content_schema(content)} if content else described


def _content_schema(content: Object) -> Object:
    """The same for every media type."""
    first = next(iter(content.values()))
    return _schema(first["schema"])
