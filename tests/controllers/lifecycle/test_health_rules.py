"""Health checks decided as tables: who is unhealthy and when, how many may be, and which machine goes first."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from steelyard.api.clusterapi import wellknown
from steelyard.controllers.lifecycle import marks
from steelyard.controllers.lifecycle.machinehealthcheck import checks, limits
from steelyard.controllers.lifecycle.machinehealthcheck.checks import Checks, Finding
from steelyard.controllers.lifecycle.machineset import remediation, status
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.runtime import clock as clocks

NOW = datetime.datetime(2025, 1, 2, tzinfo=datetime.UTC)
CHECKS = Checks(600, [("Ready", "Unknown", 300), ("Ready", "False", 600), ("DiskPressure", "True", 60)])


def ago(seconds: float) -> str:
    return clocks.rfc3339(NOW - datetime.timedelta(seconds=seconds))


def condition(type_: str, status_: str, seconds: float = 0, reason: str = "R") -> Object:
    return {"type": type_, "status": status_, "reason": reason, "message": "", "lastTransitionTime": ago(seconds)}


def machine(
    name: str = "m",
    *found: Object,
    age: float = 10_000,
    node: str = "",
    labels: dict[str, str] | None = None,
    going: bool = False,
    mark: str = "",
) -> Object:
    metadata: Object = {"name": name, "creationTimestamp": ago(age), "labels": labels or {}}
    if mark:
        metadata["annotations"] = {mark: ""}
    if going:
        metadata["deletionTimestamp"] = ago(1)
    seen = {"conditions": list(found)} | ({"nodeRef": {"name": node}} if node else {})
    return {"kind": "Machine", "metadata": metadata, "status": seen}


def cluster(*, infrastructure: float | None = 9000, initialized: float | None = 8000) -> Object:
    found: list[Object] = []
    if infrastructure is not None:
        found.append(condition("InfrastructureReady", "True", infrastructure))
    if initialized is not None:
        found.append(condition("ControlPlaneInitialized", "True", initialized))
    return {"status": {"conditions": found, "initialization": {"controlPlaneInitialized": initialized is not None}}}


def node(*found: Object) -> Object:
    return {"metadata": {"name": "n", "creationTimestamp": ago(5000)}, "status": {"conditions": list(found)}}


def said(finding: Finding) -> tuple[str, float | None]:
    if finding.is_healthy:
        return "healthy", finding.look_again
    return (finding.verdict.reason if finding.verdict else "not judged"), finding.look_again


READY = condition("Ready", "True")
CONTROL_PLANE = {wellknown.CONTROL_PLANE_LABEL: ""}


@pytest.mark.parametrize(
    ("one", "has", "of", "expected"),
    [
        pytest.param(machine(node="n"), node(READY), cluster(), ("healthy", None), id="a Node that is ready"),
        pytest.param(machine(node="n"), node(), cluster(), ("healthy", None), id="a Node that says nothing"),
        pytest.param(
            machine(node="n"), node(condition("Ready", "Unknown", 299)), cluster(), ("not judged", 1.0), id="silent"
        ),
        pytest.param(
            machine(node="n"),
            node(condition("Ready", "Unknown", 300)),
            cluster(),
            ("UnhealthyNode", None),
            id="silent for too long",
        ),
        pytest.param(
            machine(node="n"), node(condition("Ready", "False", 400)), cluster(), ("not judged", 200.0), id="not ready"
        ),
        pytest.param(
            machine(node="n"),
            node(condition("Ready", "False", 400), condition("DiskPressure", "True", 30)),
            cluster(),
            ("not judged", 30.0),
            id="the first time to run out counts",
        ),
        pytest.param(machine(node="n"), None, cluster(), ("NodeDeleted", None), id="its Node is gone"),
        pytest.param(
            machine(node="n", going=True), node(READY), cluster(), ("not judged", None), id="healthy and on its way out"
        ),
        pytest.param(machine(age=50), None, cluster(), ("not judged", 550.0), id="still starting"),
        pytest.param(machine(age=600), None, cluster(), ("NodeStartupTimeout", None), id="never started"),
        pytest.param(
            machine("m", condition("InfrastructureReady", "True", 100)),
            None,
            cluster(),
            ("not judged", 500.0),
            id="counted from when its infrastructure was there",
        ),
        pytest.param(
            machine("m", condition("InfrastructureReady", "False", 100)),
            None,
            cluster(),
            ("NodeStartupTimeout", None),
            id="infrastructure that is gone is no excuse",
        ),
        pytest.param(
            machine(), None, cluster(initialized=100), ("not judged", 500.0), id="counted from the control plane's"
        ),
        pytest.param(
            machine(), None, cluster(initialized=None), ("not judged", None), id="a worker before there is a cluster"
        ),
        pytest.param(
            machine(labels=CONTROL_PLANE),
            None,
            cluster(initialized=None),
            ("NodeStartupTimeout", None),
            id="the first control-plane machine",
        ),
        pytest.param(
            machine(labels=CONTROL_PLANE),
            None,
            cluster(infrastructure=None, initialized=None),
            ("not judged", None),
            id="before there is an infrastructure",
        ),
        pytest.param(
            machine(node="n", mark=wellknown.REMEDIATE_MACHINE_ANNOTATION),
            node(READY),
            cluster(),
            ("HasRemediateAnnotation", None),
            id="marked by somebody",
        ),
    ],
)
def test_a_machine_is_judged_by_its_node_and_its_time(
    one: Object, has: Object | None, of: Object, expected: tuple[str, float | None]
) -> None:
    assert said(checks.examine(one, has, of, CHECKS, NOW)) == expected


def test_without_a_startup_timeout_a_node_may_take_its_time() -> None:
    assert said(checks.examine(machine(), None, cluster(), Checks(0), NOW)) == ("not judged", None)


def test_paused_and_exempt_machines_are_no_targets() -> None:
    every = [
        machine("a"),
        machine("b", mark=wellknown.PAUSED_ANNOTATION),
        machine("c", mark=wellknown.SKIP_REMEDIATION_ANNOTATION),
    ]
    assert [objects.name(each) for each in checks.targets(every)] == ["a"]


def check(**trigger: Any) -> Object:
    return {"spec": {"remediation": {"triggerIf": trigger}}}


@pytest.mark.parametrize(
    ("trigger", "total", "healthy", "count", "refused"),
    [
        pytest.param({}, 3, 0, 3 - 3, False, id="all may be, unless told otherwise"),
        pytest.param({"unhealthyLessThanOrEqualTo": 1}, 3, 2, 0, False, id="as many as allowed"),
        pytest.param({"unhealthyLessThanOrEqualTo": 1}, 3, 1, 0, True, id="one too many"),
        pytest.param({"unhealthyLessThanOrEqualTo": "40%"}, 5, 3, 0, False, id="a share"),
        pytest.param({"unhealthyLessThanOrEqualTo": "40%"}, 4, 3, 0, False, id="a share is rounded down"),
        pytest.param({"unhealthyLessThanOrEqualTo": "40%"}, 4, 2, 0, True, id="more than the share"),
        pytest.param({"unhealthyLessThanOrEqualTo": 0}, 2, 2, 0, False, id="none unhealthy, none allowed"),
        pytest.param({"unhealthyInRange": "[1-3]"}, 5, 3, 1, False, id="in the range"),
        pytest.param({"unhealthyInRange": "[1-3]"}, 5, 5, 0, True, id="below the range"),
        pytest.param({"unhealthyInRange": "[1-3]"}, 5, 1, 0, True, id="above the range"),
    ],
)
def test_too_many_unhealthy_machines_are_left_alone(
    trigger: Object, total: int, healthy: int, count: int, refused: bool
) -> None:
    found = limits.allowance(check(**trigger), total, healthy)
    assert (found.count, bool(found.refusal)) == (count, refused)


@pytest.mark.parametrize(
    "trigger", [{"unhealthyLessThanOrEqualTo": "many"}, {"unhealthyInRange": "[3-1]"}, {"unhealthyInRange": "[1-x]"}]
)
def test_a_limit_that_cannot_be_read_is_told(trigger: Object) -> None:
    with pytest.raises(limits.BadLimit, match="correct it"):
        limits.allowance(check(**trigger), 3, 3)


BAD = condition(marks.HEALTH_CHECK, "False")
ASKED = condition(marks.OWNER_REMEDIATED, "False", reason="WaitingForRemediation")
UNDER_WAY = condition(marks.OWNER_REMEDIATED, "False", reason="MachineDeleting")


def owner(revision: int, **spec: Any) -> Object:
    return {
        "metadata": {"annotations": {wellknown.REVISION_ANNOTATION: str(revision)}},
        "spec": {"replicas": 4, **spec},
    }


@pytest.mark.parametrize(
    ("machines", "limit", "deleted", "reasons"),
    [
        pytest.param([machine("a", BAD), machine("b")], None, [], {}, id="nobody is asked"),
        pytest.param([machine("a", BAD, ASKED)], None, ["a"], {"a": "MachineDeleting"}, id="one"),
        pytest.param(
            [machine("a", BAD, ASKED, age=9), machine("b", BAD, ASKED, age=5), machine("c", BAD, ASKED, age=5)],
            2,
            ["b", "c"],
            {"b": "MachineDeleting", "c": "MachineDeleting", "a": "RemediationDeferred"},
            id="the newest first",
        ),
        pytest.param(
            [
                machine("a", BAD, ASKED, age=9, mark=wellknown.REMEDIATE_MACHINE_ANNOTATION),
                machine("b", BAD, ASKED, age=5),
            ],
            1,
            ["a"],
            {"a": "MachineDeleting", "b": "RemediationDeferred"},
            id="the marked one before",
        ),
        pytest.param(
            [machine("a", BAD, UNDER_WAY, going=True), machine("b", BAD, ASKED)],
            "25%",
            [],
            {"b": "RemediationDeferred"},
            id="one is under way, which is all",
        ),
        pytest.param([machine("a", BAD, ASKED)], 0, [], {"a": "RemediationDeferred"}, id="none at all"),
        pytest.param([machine("a", BAD, ASKED)], "some", [], {"a": "RemediationDeferred"}, id="no number"),
    ],
)
def test_a_machine_set_replaces_no_more_at_a_time_than_it_may(
    machines: list[Object], limit: object, deleted: list[str], reasons: dict[str, str]
) -> None:
    spec = {} if limit is None else {"remediation": {"maxInFlight": limit}}
    decided = remediation.decide(machines, owner(2), owner(2, **spec))
    assert list(decided.delete) == deleted
    assert {name: each.reason for name, each in decided.told.items()} == reasons


def test_machines_of_an_older_revision_go_with_the_rollout() -> None:
    decided = remediation.decide([machine("a", BAD, ASKED)], owner(1), owner(2))
    assert (decided.delete, decided.told["a"].reason) == ((), "CannotBeRemediated")


def test_nothing_is_deleted_where_nothing_could_take_its_place() -> None:
    decided = remediation.decide([machine("a", BAD, ASKED)], owner(2), owner(2), ["the control plane is upgrading"])
    assert (decided.delete, decided.told["a"].message) == ((), "* the control plane is upgrading")


def test_of_a_machine_that_has_recovered_nothing_is_asked_any_more() -> None:
    well = condition(marks.HEALTH_CHECK, "True")
    decided = remediation.decide([machine("a", well, ASKED), machine("b", well)], owner(2), None)
    assert (decided.recovered, dict(decided.told)) == (["a"], {})


def test_a_set_tells_what_is_replaced_and_what_nobody_replaces() -> None:
    assert status.remediating([machine("a")]).reason == "NotRemediating"
    found = status.remediating([machine("a", BAD)])
    assert (found.status, found.message) == ("False", "Machine a is not healthy (not to be remediated by the owner)")
    found = status.remediating([machine("a", BAD, {**UNDER_WAY, "message": "Machine is deleting"}), machine("b", BAD)])
    assert (found.status, found.message) == ("True", "* Machine a: Machine is deleting")
