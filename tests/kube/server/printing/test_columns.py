"""What tables show, and the small languages behind it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from steelyard.kube import ages, jsonpath
from steelyard.kube.objects import Object
from steelyard.kube.server.catalogue import registry
from steelyard.kube.server.printing import columns

NOW = datetime(2026, 1, 2, tzinfo=UTC)
OBJECT: Object = {
    "metadata": {"name": "a", "annotations": {"example.com/size": "big"}},
    "spec": {"ports": [{"name": "x", "port": 1}, {"name": "y", "port": 2}], "on": True},
}


@pytest.mark.parametrize(
    "path, found",
    [
        (".metadata.name", ["a"]),
        ("{.metadata.name}", ["a"]),
        ("$.metadata.name", ["a"]),
        (r".metadata.annotations.example\.com/size", ["big"]),
        (".metadata.annotations['example.com/size']", ["big"]),
        (".spec.ports[1].port", [2]),
        (".spec.ports[-1].port", [2]),
        (".spec.ports[*].name", ["x", "y"]),
        ('.spec.ports[?(@.name=="y")].port', [2]),
        (".spec.ports[?(@.port>=2)].name", ["y"]),
        (".spec.ports[?(@.port!=2)].name", ["x"]),
        (".spec.ports[?(@.absent)].name", []),
        (".spec.ports[7]", []),
        (".spec.absent.deeper", []),
        (".spec.on.deeper", []),
        (".spec[0]", []),
    ],
)
def test_paths(path: str, found: list[Any]) -> None:
    assert jsonpath.find_all(jsonpath.compile_path(path), OBJECT) == found


@pytest.mark.parametrize("path", [".a[", "a b", ".a[?(@.b==c)]", ".a]"])
def test_paths_that_do_not_parse(path: str) -> None:
    with pytest.raises(ValueError):
        jsonpath.compile_path(path)


@pytest.mark.parametrize(
    "seconds, text",
    [
        (-5, "<invalid>"), (-1, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (312, "5m12s"), (3599, "59m"),
        (10800, "3h"), (12000, "3h20m"), (86400, "24h"), (172800, "2d"), (190000, "2d4h"), (8 * 86400, "8d"),
        (400 * 86400, "400d"), (800 * 86400, "2y70d"), (3000 * 86400, "8y"),
    ],
)  # fmt: skip
def test_spans(seconds: int, text: str) -> None:
    assert ages.human(seconds) == text


@pytest.mark.parametrize(
    "type_, value, shown",
    [
        ("string", "x", "x"),
        ("string", {"a": 1}, '{"a":1}'),
        ("integer", 3.0, 3),
        ("integer", "x", None),
        ("number", 1.5, 1.5),
        ("boolean", True, True),
        ("boolean", "true", None),
        ("date", "2026-01-01T23:59:00Z", "60s"),
        ("date", "yesterday", "<unknown>"),
        ("string", None, None),
    ],
)
def test_declared_columns_are_typed(type_: str, value: Any, shown: Any) -> None:
    declared = columns.from_crd([{"name": "X", "type": type_, "jsonPath": ".x"}])
    assert [column.name for column in declared] == ["Name", "X"]
    assert declared[1].cell({"x": value}, NOW) == shown


def test_kinds_without_columns_show_name_and_age() -> None:
    assert [column.name for column in columns.from_crd([])] == ["Name", "Age"]


def test_nodes() -> None:
    node: Object = {
        "metadata": {
            "name": "n",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"node-role.kubernetes.io/control-plane": ""},
        },
        "spec": {"unschedulable": True},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"kubeletVersion": "v1.34.4"},
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        },
    }
    shown = {column.name: column.cell(node, NOW) for column in columns.builtin("", "nodes")}
    assert shown["Status"] == "Ready,SchedulingDisabled"
    assert (shown["Roles"], shown["Version"], shown["Age"]) == ("control-plane", "v1.34.4", "24h")
    assert (shown["Internal-IP"], shown["External-IP"]) == ("10.0.0.1", "<none>")


WEIRD: list[Any] = [None, {}, [], "x", 5, True, [{}], [None], {"a": None}]


@pytest.mark.parametrize("value", WEIRD, ids=repr)
def test_no_column_of_any_kind_fails_on_an_odd_object(value: Any) -> None:
    """Objects are checked before they are stored, but an older server may have been more lenient."""
    fields = ("metadata", "spec", "status", "data", "roleRef", "involvedObject", "type", "series", "source")
    obj: Object = dict.fromkeys(fields, value)
    nested: Object = {field: {"conditions": value, "ports": value, "containers": value} for field in fields}
    for served in registry.builtin().values():
        for column in served.columns:
            column.cell(obj, NOW)
            column.cell(nested, NOW)
