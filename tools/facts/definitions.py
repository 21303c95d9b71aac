"""An upstream CustomResourceDefinition, reduced to facts: one version, without descriptions and without rules in CEL.

What remains is names, types, bounds, defaults, list types, subresources and printer columns.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias, cast

Json: TypeAlias = dict[str, Any]

_DROPPED: Final = frozenset({"description", "x-kubernetes-validations"})
_MAPS_OF_SCHEMAS: Final = frozenset({"properties", "patternProperties", "definitions"})
_SCHEMAS: Final = frozenset({"items", "additionalProperties", "not"})
_LISTS_OF_SCHEMAS: Final = frozenset({"allOf", "anyOf", "oneOf"})


def bare(schema: Any) -> Any:
    """The schema without prose and rules. Keywords are told from fields of the same name by where they stand."""
    if not isinstance(schema, dict):
        return schema
    kept: Json = {}
    for keyword, value in sorted(cast(Json, schema).items()):
        if keyword in _DROPPED:
            continue
        if keyword in _MAPS_OF_SCHEMAS:
            kept[keyword] = {name: bare(inner) for name, inner in sorted(value.items())}
        elif keyword in _SCHEMAS:
            kept[keyword] = bare(value)
        elif keyword in _LISTS_OF_SCHEMAS:
            kept[keyword] = [bare(inner) for inner in value]
        else:
            kept[keyword] = value
    return kept


def definition(upstream: Json, version_name: str, labels: dict[str, str] | None = None) -> Json:
    spec = upstream["spec"]
    version = next(version for version in spec["versions"] if version["name"] == version_name)
    columns = [
        {key: column[key] for key in ("name", "type", "format", "jsonPath", "priority") if key in column}
        for column in version.get("additionalPrinterColumns", [])
    ]
    served: Json = {
        "name": version_name,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": bare(version["schema"]["openAPIV3Schema"])},
    }
    if version.get("subresources"):
        served["subresources"] = version["subresources"]
    if columns:
        served["additionalPrinterColumns"] = columns
    metadata: Json = {"name": upstream["metadata"]["name"]}
    if labels:
        metadata["labels"] = labels
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": {"group": spec["group"], "names": spec["names"], "scope": spec["scope"], "versions": [served]},
    }
