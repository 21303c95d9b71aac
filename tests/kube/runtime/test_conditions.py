from __future__ import annotations

import datetime

import pytest

from steelyard.kube.objects import Object
from steelyard.kube.runtime import conditions

NOW = datetime.datetime(2025, 5, 1, 12, 0, 0, 999, tzinfo=datetime.UTC)
LATER = NOW + datetime.timedelta(hours=1)


def test_first_condition_gets_the_time_and_the_generation() -> None:
    assert conditions.set_([], "Ready", "False", "Waiting", "for machines", now=NOW, observed_generation=3) == [
        {
            "type": "Ready",
            "status": "False",
            "reason": "Waiting",
            "message": "for machines",
            "observedGeneration": 3,
            "lastTransitionTime": "2025-05-01T12:00:00Z",
        }
    ]


def test_setting_the_same_again_returns_the_very_list() -> None:
    once = conditions.set_([], "Ready", True, "Done", now=NOW, observed_generation=1)
    assert conditions.set_(once, "Ready", True, "Done", now=LATER, observed_generation=1) is once


@pytest.mark.parametrize(
    ("status", "reason", "moves"),
    [
        pytest.param("True", "Other", False, id="another reason keeps the transition time"),
        pytest.param("False", "Done", True, id="another status moves it"),
    ],
)
def test_transition_time_moves_with_the_status_alone(status: conditions.Status, reason: str, moves: bool) -> None:
    once = conditions.set_([], "Ready", "True", "Done", now=NOW)
    again = conditions.set_(once, "Ready", status, reason, now=LATER)
    assert again is not once
    assert once[0]["reason"] == "Done"
    assert again[0]["lastTransitionTime"] == ("2025-05-01T13:00:00Z" if moves else "2025-05-01T12:00:00Z")


def test_conditions_are_sorted_with_the_summaries_first() -> None:
    found: list[Object] = []
    for type_ in ("Synced", "Ready", "Deleting", "Available"):
        found = conditions.set_(found, type_, True, "Done", now=NOW)
    assert [each["type"] for each in found] == ["Available", "Ready", "Deleting", "Synced"]


def test_conditions_are_read_from_an_object_or_a_list() -> None:
    obj: Object = {"status": {"conditions": conditions.set_([], "Ready", True, "Done", "all well", now=NOW)}}
    assert conditions.is_true(obj, "Ready")
    assert conditions.reason_of(obj, "Ready") == "Done"
    assert conditions.message_of(obj, "Ready") == "all well"
    assert not conditions.is_true({}, "Ready")
    assert not conditions.is_false({}, "Ready")
    assert conditions.status_of([], "Ready") == "Unknown"


def test_setting_on_an_object_leaves_the_object_alone() -> None:
    obj: Object = {"status": {"conditions": []}}
    assert len(conditions.set_(obj, "Ready", True, "Done", now=NOW)) == 1
    assert obj == {"status": {"conditions": []}}


def test_merge_keeps_conditions_of_others() -> None:
    mine = conditions.set_([], "Ready", True, "Done", now=NOW)
    both = conditions.merge(mine, [{"type": "Synced", "status": "True", "reason": "Applied", "message": ""}], now=LATER)
    assert [each["type"] for each in both] == ["Ready", "Synced"]
    assert conditions.remove(both, "Synced") == mine
    assert conditions.remove(mine, "Synced") is mine
