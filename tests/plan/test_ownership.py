"""As much of an object as its composition answers for, and what a claim becomes when it is applied."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.kube.objects import Object
from steelyard.plan import fielddiff, ownership
from steelyard.plan.marks import FIELD_MANAGER


def observed(spec: Object, fields: Object | None, manager: str = FIELD_MANAGER, operation: str = "Apply") -> Object:
    entries = [{"manager": manager, "operation": operation, "fieldsV1": {"f:spec": fields}}] if fields else []
    return {"metadata": {"name": "x", "managedFields": [*entries, {"manager": "other", "fieldsV1": {}}]}, "spec": spec}


@pytest.mark.parametrize(
    ("have", "held", "want", "expected"),
    [
        pytest.param({"a": 1, "theirs": 2}, {"f:a": {}}, {"a": 1}, [], id="what others set is theirs"),
        pytest.param({"a": 1, "b": 2}, {"f:a": {}, "f:b": {}}, {"a": 1}, [("spec.b", 2, None)], id="not composed now"),
        pytest.param({"a": 2}, {}, {"a": 1}, [("spec.a", 2, 1)], id="changed by somebody else"),
        pytest.param({"a": {"x": 1, "y": 2}}, {"f:a": {"f:x": {}}}, {"a": {"x": 3}}, [("spec.a.x", 1, 3)], id="below"),
        pytest.param(
            {"l": [{"name": "a", "v": 1}, {"name": "theirs", "v": 1}]},
            {"f:l": {'k:{"name":"a"}': {"f:v": {}}}},
            {"l": [{"name": "a", "v": 2}]},
            [("spec.l[a].v", 1, 2)],
            id="one item of a list",
        ),
        pytest.param(
            {"l": [{"name": "a", "v": 1}, {"name": "b", "v": 1}]},
            {"f:l": {'k:{"name":"a"}': {"f:v": {}}, 'k:{"name":"b"}': {"f:v": {}, "f:name": {}}}},
            {"l": [{"name": "a", "v": 1}]},
            [("spec.l[b].name", "b", None), ("spec.l[b].v", 1, None)],
            id="an item that goes",
        ),
        pytest.param({"l": ["a"]}, {"f:l": {}}, {"l": ["b"]}, [("spec.l", ["a"], ["b"])], id="a plain list"),
    ],
)
def test_what_is_compared(have: Object, held: Object, want: Object, expected: list[tuple[str, Any, Any]]) -> None:
    desired: Object = {"metadata": {"name": "x"}, "spec": want}
    before = ownership.covered(observed(have, held or {"f:other": {}}), desired)
    assert [(each.path, each.before, each.after) for each in fielddiff.of(before, desired)] == expected


def test_a_manifest_that_nobody_applied_is_compared_wholly() -> None:
    manifest: Object = {"metadata": {"name": "x"}, "spec": {"a": 1, "more": 2}}
    assert ownership.covered(manifest, {"metadata": {"name": "x"}, "spec": {"a": 1}}) == manifest


@pytest.mark.parametrize(
    ("have", "held", "operation", "said", "expected"),
    [
        pytest.param({"a": 1}, {}, "Apply", {"a": 2}, {"a": 2}, id="what is said counts"),
        pytest.param({"a": 1, "b": 2}, {"f:b": {}}, "Apply", {"a": 1}, {"a": 1}, id="what is left out goes"),
        pytest.param({"a": 1, "b": 2}, {"f:b": {}}, "Update", {"a": 1}, {"a": 1, "b": 2}, id="what was scaled stays"),
        pytest.param({"p": {"a": 1, "b": 2}}, {"f:p": {"f:a": {}}}, "Apply", {"p": {}}, {"p": {"b": 2}}, id="below"),
        pytest.param({"l": [1, 2]}, {"f:l": {}}, "Apply", {"l": [3]}, {"l": [3]}, id="a list is said as a whole"),
    ],
)
def test_a_claim_once_it_is_applied(have: Object, held: Object, operation: str, said: Object, expected: Object) -> None:
    live = observed(have, held, "cli", operation)
    wanted: Object = {"metadata": {"name": "x", "annotations": {"a": "1"}}, "spec": said}
    after = ownership.applied_over(live, wanted, "cli")
    assert after["spec"] == expected
    assert after["metadata"]["annotations"] == {"a": "1"}
