"""Decisions as tables: which machine next, how many where, what counts as out of date."""

from __future__ import annotations

import datetime

import pytest

from steelyard.api.clusterapi import wellknown
from steelyard.controllers.lifecycle.kubeadmcontrolplane import comparison
from steelyard.controllers.lifecycle.kubeadmcontrolplane import plan as control_plane
from steelyard.controllers.lifecycle.kubeadmcontrolplane.plan import Member
from steelyard.controllers.lifecycle.machinedeployment import plan as rollout
from steelyard.controllers.lifecycle.machinedeployment import status as rollout_status
from steelyard.controllers.lifecycle.machinedeployment.plan import Group, Strategy
from steelyard.controllers.lifecycle.machineset import plan as scaling
from steelyard.kube import objects
from steelyard.kube.objects import Object

NOW = datetime.datetime(2025, 1, 2, tzinfo=datetime.UTC)


def member(name: str, **fields: object) -> Member:
    return Member(name=name, created=name, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("members", "replicas", "expected"),
    [
        pytest.param([], 1, ("initialize", ""), id="the first machine initializes"),
        pytest.param([], 0, ("nothing", ""), id="none wanted"),
        pytest.param([member("a")], 1, ("nothing", ""), id="as many as wanted"),
        pytest.param([member("a")], 3, ("add", ""), id="one at a time"),
        pytest.param([member("a"), member("b"), member("c")], 1, ("remove", "a"), id="the oldest goes first"),
        pytest.param(
            [member("a"), member("b", is_marked=True), member("c")], 1, ("remove", "b"), id="the marked one before"
        ),
        pytest.param([member("a", is_outdated=True)], 1, ("add", ""), id="a rollout adds before it removes"),
        pytest.param([member("a", is_outdated=True), member("b")], 1, ("remove", "a"), id="then the outdated one goes"),
        pytest.param(
            [member("a"), member("b", is_outdated=True), member("c", is_outdated=True, problems=("etcd",))],
            2,
            ("remove", "c"),
            id="an unhealthy outdated one goes before a healthy one",
        ),
        pytest.param(
            [member("a", failure_domain="x"), member("b", failure_domain="y"), member("c", failure_domain="y")],
            1,
            ("remove", "b"),
            id="the fullest failure domain gives one up",
        ),
    ],
)
def test_a_control_plane_changes_by_one_machine(
    members: list[Member], replicas: int, expected: tuple[str, str]
) -> None:
    step = control_plane.next_step(members, replicas)
    assert (step.action, step.machine) == expected


@pytest.mark.parametrize(
    ("members", "replicas"),
    [
        pytest.param([member("a", has_node=False)], 3, id="a machine has no Node yet"),
        pytest.param([member("a"), member("b", is_going=True)], 3, id="a machine is on its way out"),
        pytest.param([member("a", problems=("EtcdPodHealthy is false",))], 3, id="a component is not well"),
        pytest.param([member("a"), member("b"), member("c", has_node=False)], 1, id="another one is not well"),
    ],
)
def test_a_control_plane_that_is_not_well_is_not_changed(members: list[Member], replicas: int) -> None:
    assert control_plane.next_step(members, replicas).blocked_by


def test_the_machine_that_goes_may_be_unwell_itself() -> None:
    step = control_plane.next_step([member("a", is_marked=True, has_node=False), member("b")], 1)
    assert (step.machine, step.blocked_by) == ("a", ())


def test_a_new_machine_goes_to_the_emptiest_failure_domain() -> None:
    members = [member("a", failure_domain="x"), member("b", failure_domain="y")]
    assert control_plane.next_step(members, 3, failure_domains=["x", "y", "z"]).failure_domain == "z"


@pytest.mark.parametrize(
    ("replicas", "new", "old", "expected"),
    [
        pytest.param(3, Group("new", 1, 1, 1), [], {"new": 3}, id="scaling up creates at once"),
        pytest.param(1, Group("new", 3, 3, 3), [], {"new": 1}, id="scaling down deletes at once"),
        pytest.param(3, Group("new", 3, 3, 1), [], {}, id="at rest"),
        pytest.param(3, Group("new", 1, 1, 0), [Group("old", 3, 3, 3)], {}, id="waits for the first new machine"),
        pytest.param(
            3, Group("new", 1, 1, 1), [Group("old", 3, 3, 3)], {"old": 2}, id="one old machine per available new one"
        ),
        pytest.param(
            3, Group("new", 1, 1, 1), [Group("old", 2, 3, 3)], {}, id="waits until the old machine is really gone"
        ),
        pytest.param(3, Group("new", 1, 1, 1), [Group("old", 2, 2, 2)], {"new": 2}, id="then the next new one"),
        pytest.param(
            3,
            Group("new", 1, 1, 0),
            [Group("old", 3, 3, 2)],
            {},
            id="nothing goes below the wanted number even when old ones are unavailable",
        ),
        pytest.param(3, Group("new", 3, 3, 3), [Group("old", 1, 1, 1)], {"old": 0}, id="the last old one"),
    ],
)
def test_a_rolling_update_keeps_the_wanted_number_available(
    replicas: int, new: Group, old: list[Group], expected: dict[str, int]
) -> None:
    assert rollout.scale(replicas, new, old, Strategy()) == expected


def test_a_rolling_update_reaches_its_end_and_never_leaves_its_bounds() -> None:
    for surge, unavailable in ((1, 0), (0, 1), (2, 1), (3, 3)):
        strategy = Strategy(max_surge=surge, max_unavailable=unavailable)
        groups = {"new": 0, "old": 5}
        for _ in range(40):
            new = Group("new", groups["new"], groups["new"], groups["new"])
            old = Group("old", groups["old"], groups["old"], groups["old"])
            targets = rollout.scale(5, new, [old], strategy)
            groups |= targets
            assert groups["new"] + old.wanted <= 5 + surge or not targets
            assert min(groups["old"], old.wanted) + new.available >= 5 - unavailable
        assert groups == {"new": 5, "old": 0}


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        pytest.param(Group("new", 0), [Group("old", 3, 3, 3)], {}, id="nothing happens by itself"),
        pytest.param(Group("new", 0), [Group("old", 3, 3, 2, going=1)], {"old": 2}, id="a deleted one is given up"),
        pytest.param(Group("new", 0), [Group("old", 2, 2, 2)], {"new": 1}, id="and made anew from the new template"),
    ],
)
def test_on_delete_replaces_only_what_somebody_deletes(new: Group, old: list[Group], expected: dict[str, int]) -> None:
    assert rollout.scale(3, new, old, Strategy(rollout.ON_DELETE)) == expected


@pytest.mark.parametrize(
    ("rolling", "replicas", "expected"),
    [
        pytest.param({}, 3, (1, 0), id="one more, none less by default"),
        pytest.param({"maxSurge": "25%", "maxUnavailable": "25%"}, 10, (3, 2), id="percentages round apart"),
        pytest.param({"maxSurge": 0, "maxUnavailable": 0}, 3, (0, 1), id="standing still is not a strategy"),
    ],
)
def test_the_strategy_is_read_with_upstreams_defaults(
    rolling: Object, replicas: int, expected: tuple[int, int]
) -> None:
    spec: Object = {"replicas": replicas, "rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": rolling}}}
    found = rollout.strategy_of({"spec": spec})
    assert (found.max_surge, found.max_unavailable) == expected


def test_machines_of_an_older_template_are_out_of_date_before_they_say_so() -> None:
    def template(version: str) -> Object:
        return {"spec": {"clusterName": "shop", "version": version}}

    def machine_set(name: str, version: str, count: int) -> Object:
        counts = dict.fromkeys(("replicas", "readyReplicas", "availableReplicas", "upToDateReplicas"), count)
        spec = {"replicas": count, "template": template(version)}
        return {"kind": "MachineSet", "metadata": {"name": name}, "spec": spec, "status": counts}

    deployment: Object = {"metadata": {"name": "md"}, "spec": {"replicas": 2, "template": template("v1.35.0")}}
    old, new = machine_set("md-old", "v1.34.1", 2), machine_set("md-new", "v1.35.0", 1)
    now = datetime.datetime(2025, 1, 2, tzinfo=datetime.UTC)
    rollout_status.update(deployment, [old, new], [], blocked_by=[], now=now)
    assert [deployment["status"][each] for each in ("replicas", "readyReplicas", "upToDateReplicas")] == [3, 3, 1]
    rollout_status.update(deployment, [old], [], blocked_by=[], now=now)
    assert [deployment["status"][each] for each in ("replicas", "readyReplicas", "upToDateReplicas")] == [2, 2, 0]


def test_the_number_of_machines_alone_makes_no_new_revision() -> None:
    template: Object = {"spec": {"clusterName": "c", "version": "v1.34.4", "infrastructureRef": {"name": "a"}}}
    machine_set: Object = {"metadata": {"name": "c-1"}, "spec": {"replicas": 1, "template": template}}
    deployment: Object = {"metadata": {"name": "c", "uid": "1"}, "spec": {"replicas": 9, "template": template}}
    assert rollout.split(deployment, [machine_set]) == (machine_set, [])
    deployment["spec"]["template"] = {"spec": {**template["spec"], "nodeDrainTimeoutSeconds": 1, "version": "v1.35.0"}}
    assert rollout.split(deployment, [machine_set]) == (None, [machine_set])


def machine(name: str, *, annotations: Object | None = None, age: int = 0, **status: object) -> Object:
    created = (NOW - datetime.timedelta(days=age)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "metadata": {"name": name, "annotations": annotations or {}, "creationTimestamp": created},
        "status": {"nodeRef": {"name": name}, **status},
    }


@pytest.mark.parametrize(
    ("machines", "order", "expected"),
    [
        pytest.param([machine("a", age=1), machine("b", age=9)], "Oldest", ("b",), id="oldest"),
        pytest.param([machine("a", age=1), machine("b", age=9)], "Newest", ("a",), id="newest"),
        pytest.param([machine("b"), machine("a")], "Random", ("a",), id="any, but always the same"),
        pytest.param([machine("a"), machine("b", nodeRef=None)], "Oldest", ("b",), id="without a Node first"),
        pytest.param(
            [machine("a", nodeRef=None), machine("b", annotations={wellknown.DELETE_MACHINE_ANNOTATION: ""})],
            "Random",
            ("b",),
            id="marked before unhealthy",
        ),
        pytest.param(
            [machine("a"), {**machine("b"), "metadata": {"name": "b", "deletionTimestamp": "2025-01-01T00:00:00Z"}}],
            "Random",
            (),
            id="one on its way out counts",
        ),
    ],
)
def test_the_machine_to_delete_follows_the_deletion_order(
    machines: list[Object], order: str, expected: tuple[str, ...]
) -> None:
    assert scaling.next_step(1, machines, order, NOW) == scaling.Step(delete=expected)


def test_missing_machines_are_created_only_when_those_leaving_are_gone() -> None:
    leaving: Object = {"metadata": {"name": "a", "deletionTimestamp": "2025-01-01T00:00:00Z"}}
    assert scaling.next_step(1, [leaving], "Random", NOW) == scaling.Step()
    assert scaling.next_step(3, [leaving], "Random", NOW) == scaling.Step(create=2)


CONTROL_PLANE: Object = {
    "spec": {
        "version": "v1.34.4",
        "machineTemplate": {"spec": {"infrastructureRef": {"apiGroup": "g", "kind": "KindTemplate", "name": "t"}}},
        "kubeadmConfigSpec": {
            "clusterConfiguration": {"apiServer": {"certSANs": ["a"]}},
            "initConfiguration": {"nodeRegistration": {"criSocket": "x"}},
            "joinConfiguration": {"nodeRegistration": {"criSocket": "x"}},
        },
    }
}


def as_made() -> tuple[Object, Object, Object]:
    """A machine, its config and its infrastructure as that control plane makes them, filled in for the join."""
    annotation = comparison.cluster_configuration_annotation(CONTROL_PLANE["spec"]["kubeadmConfigSpec"])
    made: Object = {
        "metadata": {"name": "m", "annotations": {wellknown.CLUSTER_CONFIGURATION_ANNOTATION: annotation}},
        "spec": {"version": "v1.34.4"},
    }
    config: Object = {
        "spec": {
            "clusterConfiguration": {"apiServer": {"certSANs": ["a"]}},
            "joinConfiguration": {
                "nodeRegistration": {"criSocket": "x"},
                "controlPlane": {},
                "discovery": {"bootstrapToken": {"token": "abcdef.0123456789abcdef"}},
            },
        }
    }
    annotations = {wellknown.CLONED_FROM_NAME_ANNOTATION: "t", wellknown.CLONED_FROM_KIND_ANNOTATION: "KindTemplate.g"}
    return made, config, {"kind": "Kind", "metadata": {"annotations": annotations}}


def test_a_machine_as_it_was_made_is_up_to_date() -> None:
    assert comparison.differences(CONTROL_PLANE, *as_made(), NOW) == []


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        pytest.param(("version",), "v1.35.0", "Version v1.34.4, v1.35.0 required", id="version"),
        pytest.param(
            ("machineTemplate", "spec", "infrastructureRef", "name"), "u", "Kind is not up-to-date", id="template"
        ),
        pytest.param(
            ("kubeadmConfigSpec", "clusterConfiguration", "apiServer", "certSANs"),
            ["b"],
            "KubeadmConfig is not up-to-date",
            id="cluster configuration",
        ),
        pytest.param(
            ("kubeadmConfigSpec", "joinConfiguration", "nodeRegistration", "criSocket"),
            "y",
            "KubeadmConfig is not up-to-date",
            id="join configuration",
        ),
        pytest.param(("kubeadmConfigSpec", "files"), [{"path": "/x"}], "KubeadmConfig is not up-to-date", id="files"),
        pytest.param(("kubeadmConfigSpec", "initConfiguration"), {}, "", id="the init part of a joined machine"),
        pytest.param(("kubeadmConfigSpec", "users"), [], "", id="an empty list is an absent one"),
        pytest.param(("replicas",), 5, "", id="the number of machines"),
    ],
)
def test_only_a_difference_that_can_be_seen_replaces_a_machine(
    path: tuple[str, ...], value: object, expected: str
) -> None:
    changed = objects.copy(CONTROL_PLANE)
    inner: Object = changed["spec"]
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    assert comparison.differences(changed, *as_made(), NOW) == ([expected] if expected else [])
