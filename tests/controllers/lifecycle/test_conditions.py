"""Conditions made from conditions: what a summary, an aggregate and a mirror say, and what a record changes."""

from __future__ import annotations

import datetime

import pytest

from steelyard.controllers.lifecycle import summary
from steelyard.kube.objects import Object
from steelyard.kube.runtime import verdicts
from steelyard.kube.runtime.verdicts import Verdict

NOW = datetime.datetime(2025, 1, 2, tzinfo=datetime.UTC)
LATER = NOW + datetime.timedelta(hours=1)
ORDER = ("Deleting", "A", "B")


def summarized(*parts: Verdict, optional: tuple[str, ...] = ()) -> tuple[str, str, str]:
    found = summary.summarize(
        "Ready", {part.type: part for part in parts}, ORDER, summary.READY, negative=("Deleting",), optional=optional
    )
    return found.status, found.reason, found.message


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        pytest.param(
            [verdicts.false("Deleting", "No"), verdicts.true("A", "Ok"), verdicts.true("B", "Ok")],
            ("True", "Ready", ""),
            id="all well",
        ),
        pytest.param(
            [verdicts.false("Deleting", "No"), verdicts.false("A", "Broken", "no disk"), verdicts.unknown("B", "Who")],
            ("False", "NotReady", "* A: no disk\n* B: Who"),
            id="what is wrong counts more than what is unknown",
        ),
        pytest.param(
            [verdicts.true("Deleting", "Yes", "going"), verdicts.true("A", "Ok"), verdicts.true("B", "Ok")],
            ("False", "NotReady", "* Deleting: going"),
            id="true is bad for a negative type",
        ),
        pytest.param(
            [verdicts.false("Deleting", "No"), verdicts.true("A", "Ok")],
            ("Unknown", "ReadyUnknown", "* B: Condition B not yet reported"),
            id="what is missing is unknown",
        ),
    ],
)
def test_a_summary_is_as_good_as_its_worst_part(parts: list[Verdict], expected: tuple[str, str, str]) -> None:
    assert summarized(*parts) == expected


def machine(name: str, status: verdicts.Status, message: str = "") -> Object:
    obj: Object = {"kind": "Machine", "metadata": {"name": name}}
    verdicts.record(obj, [Verdict("Ready", status, "Reason", message)], NOW)
    return obj


def test_an_aggregate_groups_equal_messages_and_names_three() -> None:
    machines = [machine(name, "False", "no disk") for name in "abcde"]
    machines.append(machine("f", "Unknown", "who knows"))
    machines.append(machine("g", "True"))
    found = summary.aggregate("MachinesReady", machines, "Ready", summary.READY)
    assert (found.status, found.reason) == ("False", "NotReady")
    assert found.message == "* Machines a, b, c, ... (2 more): no disk\n* Machine f: who knows"


def test_an_aggregate_of_exceptions_is_true_when_one_is() -> None:
    quiet, busy = machine("a", "False"), machine("b", "True", "Scaling up from 1 to 2 replicas")
    reasons = summary.Reasons("ScalingUp", "ScalingUpUnknown", "NotScalingUp")
    found = summary.aggregate("ScalingUp", [quiet, busy], "Ready", reasons, negative=True, target_is_negative=True)
    assert (found.status, found.reason) == ("True", "ScalingUp")


def test_a_mirror_falls_back_where_nothing_is_reported() -> None:
    fallback = verdicts.false("InfrastructureReady", "NotReady", "waiting")
    assert summary.mirror("InfrastructureReady", {}, "Ready", fallback) == fallback
    assert summary.mirror("InfrastructureReady", machine("a", "True"), "Ready", fallback).is_true


def test_the_transition_time_moves_only_with_the_status() -> None:
    obj: Object = {"metadata": {"generation": 3}}
    verdicts.record(obj, [verdicts.false("Ready", "Waiting", "for a")], NOW)
    verdicts.record(obj, [verdicts.false("Ready", "Waiting", "for b")], LATER)
    assert obj["status"]["conditions"] == [
        {
            "type": "Ready",
            "status": "False",
            "reason": "Waiting",
            "message": "for b",
            "lastTransitionTime": "2025-01-02T00:00:00Z",
            "observedGeneration": 3,
        }
    ]
    verdicts.record(obj, [verdicts.true("Ready", "Ready")], LATER)
    assert obj["status"]["conditions"][0]["lastTransitionTime"] == "2025-01-02T01:00:00Z"


def test_conditions_come_in_the_order_people_read_them() -> None:
    obj: Object = {}
    types = ("Paused", "NodeHealthy", "Ready", "Deleting", "Available", "BootstrapConfigReady")
    verdicts.record(obj, [verdicts.true(type_, "Any") for type_ in types], NOW)
    assert [condition["type"] for condition in obj["status"]["conditions"]] == [
        "Available",
        "Ready",
        "BootstrapConfigReady",
        "NodeHealthy",
        "Deleting",
        "Paused",
    ]
