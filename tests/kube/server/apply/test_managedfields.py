"""Reading and writing managed fields: order, cap, reset, and what clients send."""

from typing import Any, Final

import pytest

from steelyard.kube.objects import Object
from steelyard.kube.schema import model
from steelyard.kube.server.apply import apply, managedfields

_V1: Final = "example.com/v1"


def entry(manager: str, operation: str = "Update", time: str = "2024-01-01T00:00:00Z", **rest: Any) -> Object:
    return {
        "manager": manager,
        "operation": operation,
        "apiVersion": _V1,
        "time": time,
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {f"f:{manager}": {}}},
        **rest,
    }


def test_entries_are_ordered_by_operation_then_time_then_name() -> None:
    entries = [
        entry("z", time="2024-01-01T00:00:01Z"),
        entry("b", time="2024-01-01T00:00:02Z"),
        entry("a", time="2024-01-01T00:00:02Z"),
        entry("a", time="2024-01-01T00:00:02Z", subresource="status"),
        entry("late", "Apply", time="2030-01-01T00:00:00Z"),
    ]
    managed = managedfields.sent(entries)
    assert managed is not None
    ordered = [(found["manager"], found.get("subresource", "")) for found in managedfields.encode(managed)]
    assert ordered == [("late", ""), ("z", ""), ("a", ""), ("a", "status"), ("b", "")]


def test_an_entry_is_written_as_it_was_read() -> None:
    given = entry("a", subresource="status")
    managed = managedfields.sent([given])
    assert managed is not None
    assert managedfields.encode(managed) == [given]
    assert list(managedfields.encode(managed)[0]) == list(given)


def test_times_are_brought_to_utc() -> None:
    managed = managedfields.sent([entry("a", time="2024-01-01T02:00:00.5+02:00")])
    assert managed is not None
    assert managedfields.encode(managed)[0]["time"] == "2024-01-01T00:00:00Z"


@pytest.mark.parametrize(
    "entries",
    [
        pytest.param("x", id="a text"),
        pytest.param([1], id="a number"),
        pytest.param([{**entry("a"), "manager": 1}], id="a number for the manager"),
        pytest.param([{**entry("a"), "operation": ""}], id="no operation"),
        pytest.param([{**entry("a"), "apiVersion": ""}], id="no version"),
        pytest.param([{**entry("a"), "fieldsType": ""}], id="no type of fields"),
        pytest.param([entry("a", fieldsV1={"spec": None})], id="no field set"),
        pytest.param([{**entry("a"), "time": "yesterday"}], id="no time"),
        pytest.param([{**entry("a"), "time": "2024-01-01T00:00:00"}], id="a time without zone"),
        pytest.param(17, id="no list at all"),
    ],
)
def test_entries_that_are_not_valid_are_ignored_as_a_whole(entries: Any) -> None:
    assert managedfields.sent(entries) is None
    before: Object = {"metadata": {"uid": "1", "managedFields": [entry("a")]}, "spec": {"a": 1}}
    after: Object = {"metadata": {"uid": "1", "managedFields": entries}, "spec": {"a": 1}}
    tracked = apply.track_update(model.ANY, before, after, manager="b", api_version=_V1, now="2024-01-01T00:00:00Z")
    assert tracked == before


@pytest.mark.parametrize("request_to_reset", [[], [{}]])
def test_a_reset_forgets_all_managers_until_the_next_apply(request_to_reset: Any) -> None:
    before: Object = {"metadata": {"uid": "1", "managedFields": [entry("a")]}, "spec": {"a": 1}}
    after: Object = {"metadata": {"uid": "1", "managedFields": request_to_reset}, "spec": {"a": 2}}
    reset = apply.track_update(model.ANY, before, after, manager="b", api_version=_V1, now="2024-01-01T00:00:00Z")
    assert reset == {"metadata": {"uid": "1"}, "spec": {"a": 2}}
    still = apply.track_update(
        model.ANY,
        reset,
        {**reset, "spec": {"a": 3}},
        manager="b",
        api_version=_V1,
        now="2024-01-01T00:00:00Z",
    )
    assert "managedFields" not in still["metadata"]


def test_a_subresource_cannot_change_managed_fields() -> None:
    before: Object = {"metadata": {"uid": "1", "managedFields": [entry("a")]}, "spec": {"a": 1}}
    after: Object = {"metadata": {"uid": "1", "managedFields": [{}]}, "spec": {"a": 1}}
    tracked = apply.track_update(
        model.ANY, before, after, manager="b", api_version=_V1, now="2024-01-01T00:00:00Z", subresource="status"
    )
    assert tracked == before


def test_the_oldest_updates_are_merged_beyond_ten_and_appliers_are_not_counted() -> None:
    updates = [entry(f"m{number:02}", time=f"2024-01-01T00:00:{number:02}Z") for number in range(12)]
    appliers = [entry(f"a{number}", "Apply") for number in range(5)]
    managed = managedfields.sent([*updates, *appliers])
    assert managed is not None
    capped = managedfields.encode(managedfields.cap(managed))
    names = [found["manager"] for found in capped]
    assert names == [*(f"a{n}" for n in range(5)), "ancient-changes", *(f"m{n:02}" for n in range(3, 12))]
    ancient = capped[5]
    assert ancient["fieldsV1"] == {"f:spec": {"f:m00": {}, "f:m01": {}, "f:m02": {}}}
    assert ancient["time"] == "2024-01-01T00:00:02Z"


def test_a_manager_without_name_is_unknown() -> None:
    tracked = apply.track_update(
        model.ANY, None, {"metadata": {}, "spec": {"a": 1}}, manager="", api_version=_V1, now="2024-01-01T00:00:00Z"
    )
    assert tracked["metadata"]["managedFields"][0]["manager"] == "unknown"
