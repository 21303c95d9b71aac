"""A CRD may restrict metadata.name; the rest of the metadata is still every object's."""

from __future__ import annotations

from steelyard.kube.objects import Object
from steelyard.kube.schema import parse
from steelyard.kube.server.apply import apply

NOW = "2026-01-01T00:00:00Z"


def test_apply_takes_labels_and_namespace_where_the_schema_restricts_only_the_name() -> None:
    schema = parse.from_openapi(
        {
            "type": "object",
            "properties": {
                "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 10}}},
                "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
            },
        }
    )
    applied: Object = {
        "apiVersion": "example.com/v1",
        "kind": "Thing",
        "metadata": {"name": "a", "namespace": "b", "labels": {"team": "x"}},
        "spec": {"size": 1},
    }
    result = apply.apply(schema, None, applied, manager="me", force=False, api_version="example.com/v1", now=NOW)
    assert result["metadata"]["labels"] == {"team": "x"}
    assert result["metadata"]["managedFields"][0]["fieldsV1"] == {
        "f:metadata": {"f:labels": {"f:team": {}}},
        "f:spec": {"f:size": {}},
    }
