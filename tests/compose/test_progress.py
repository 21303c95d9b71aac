"""Whether a cluster is ready, and what is said of it, in every state that its machines and its Cluster can be in."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.api import troubles
from steelyard.compose.composed import Composed, Observed
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.settings import Platform
from tests.compose import cases

CAME_UP = "2026-01-10T10:00:00Z"
LATER = "2026-01-10T11:00:00Z"


def condition(type_: str, status: str, reason: str, message: str = "", since: str = LATER) -> Object:
    return {"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": since}


def machine(name: str, *conditions: Object, **metadata: Any) -> Object:
    """A machine that has come up, and reports these conditions since."""
    return {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Machine",
        "metadata": {"name": name, "namespace": "crossplane-system", **metadata},
        "spec": {"infrastructureRef": {"kind": "SimulatedMachine", "name": name}},
        "status": {
            "phase": "Running",
            "lastUpdated": CAME_UP,
            "nodeRef": {"name": name},
            "conditions": list(conditions) or [condition("Ready", "True", "Ready", since=CAME_UP)],
        },
    }


NODE_DELETED = machine(
    "a",
    condition("Ready", "False", "NotReady", "* NodeHealthy: Node a has been deleted while the Machine still exists"),
    condition("NodeReady", "False", "NodeDeleted", "Node a has been deleted while the Machine still exists"),
    condition("NodeHealthy", "False", "NodeDeleted", "Node a has been deleted while the Machine still exists"),
)
NODE_NOT_READY = machine(
    "a",
    condition("Ready", "False", "NotReady", "* NodeHealthy: * Node.Ready: kubelet stopped posting"),
    condition("NodeReady", "False", "NodeNotReady", "* Node.Ready: kubelet stopped posting"),
)
NODE_UNKNOWN = machine("a", condition("NodeReady", "Unknown", "NodeReadyUnknown", "* Node.Ready: no news of it"))
DISK_FULL = machine(
    "a",
    condition("NodeReady", "True", "NodeReady", since=CAME_UP),
    condition("NodeHealthy", "False", "NodeNotHealthy", "* Node.DiskPressure: the disk is full"),
)
INFRASTRUCTURE_GONE = machine(
    "a", condition("InfrastructureReady", "False", "ObjectDeleted", "SimulatedMachine has been deleted while ...")
)
COMPONENT_DOWN = machine(
    "a",
    condition("NodeReady", "True", "NodeReady", since=CAME_UP),
    condition("NodeHealthy", "True", "NodeHealthy", since=CAME_UP),
    condition("Ready", "False", "NotReady", "* EtcdMemberHealthy: no leader"),
)
FAILED = machine("a", condition("Ready", "False", "NotReady", "no room on any host"))
FAILED["status"]["phase"] = "Failed"
COMING_UP = machine(
    "a",
    condition("NodeReady", "False", "NodeNotReady", "* Node.Ready: no network plug-in yet", since=CAME_UP),
    condition("Ready", "False", "NotReady", "", since=CAME_UP),
)


@pytest.mark.parametrize(
    ("obj", "words"),
    [
        pytest.param(machine("a"), None, id="well"),
        pytest.param(COMING_UP, None, id="joined, and never ready yet"),
        pytest.param(NODE_DELETED, f"machine a: its Node a was deleted, since {LATER}", id="Node deleted"),
        pytest.param(
            NODE_NOT_READY,
            f"machine a: its Node a is not ready: kubelet stopped posting, since {LATER}",
            id="Node not ready",
        ),
        pytest.param(NODE_UNKNOWN, f"machine a: its Node a is not ready: no news of it, since {LATER}", id="no news"),
        pytest.param(
            DISK_FULL,
            f"machine a: its Node a is not healthy: Node.DiskPressure: the disk is full, since {LATER}",
            id="disk full",
        ),
        pytest.param(
            INFRASTRUCTURE_GONE, f"machine a: its SimulatedMachine was deleted, since {LATER}", id="machine gone"
        ),
        pytest.param(
            COMPONENT_DOWN, f"machine a: it is not ready: EtcdMemberHealthy: no leader, since {LATER}", id="component"
        ),
        pytest.param(FAILED, f"machine a: it has failed: no room on any host, since {LATER}", id="failed"),
    ],
)
def test_the_trouble_of_a_machine_is_named_with_its_time(obj: Object, words: str | None) -> None:
    found = troubles.of(obj)

    assert (str(found) if found else None) == words


def test_a_machine_that_is_being_deleted_is_in_no_trouble() -> None:
    leaving = {**NODE_DELETED, "metadata": {**NODE_DELETED["metadata"], "deletionTimestamp": LATER}}

    assert troubles.of(leaving) is None


def compose(
    before: str,
    *machines: Object,
    ready: int = 2,
    up_to_date: int | None = None,
    replicas: int | None = None,
    asked: int = 2,
    reported: int = 2,
    cluster: tuple[Object, ...] = (),
) -> Composed:
    """The ready cluster of the golden case with other numbers of workers. `before` is the reason of Ready so far, with
    a minus in front where it was not ready."""
    claim = cases.load("ready", "claim.yaml")
    claim["spec"]["parameters"]["workerReplicas"] = asked
    parameters = cases.compose(claim, cases.observed("ready"), Platform()).status["parameters"]
    status = "False" if before.startswith("-") else "True"
    claim["status"] = {
        "parameters": parameters,
        "controlPlane": {"ready": 1, "desired": 1},
        "workers": {"ready": reported, "desired": reported},
        "conditions": [condition("Ready", status, before.removeprefix("-"))] if before else [],
    }
    observed = cases.observed("ready")
    workers = objects.copy(observed.resources["workers"])
    workers["spec"]["replicas"] = asked
    total = ready if replicas is None else replicas
    workers["status"] |= {
        "replicas": total,
        "readyReplicas": ready,
        "upToDateReplicas": total if up_to_date is None else up_to_date,
    }
    whole = objects.copy(observed.resources["cluster"])
    whole["status"]["conditions"] = list(cluster)
    found = Observed(
        {**observed.resources, "workers": workers, "cluster": whole}, {**observed.required, "machines": machines}
    )
    return cases.compose(claim, found, Platform())


def told(composed: Composed) -> tuple[str, str, str]:
    ready = next(each for each in composed.conditions if each.type == "Ready")
    return ready.status, ready.reason, ready.message


LEAVING = machine("b", deletionTimestamp=LATER)
NEW = machine("c", condition("Ready", "False", "NotReady", since=CAME_UP))
del NEW["status"]["nodeRef"]
NO_WORKERS_AVAILABLE = (
    condition("Available", "False", "NotAvailable", "* WorkersAvailable: too few"),
    condition("WorkersAvailable", "False", "NotAvailable", "too few"),
)
NO_CONTROL_PLANE = (
    condition("ControlPlaneAvailable", "False", "NotAvailable", "* 0 of 1 Machines are healthy"),
    condition("Available", "False", "NotAvailable", "* ControlPlaneAvailable: ..."),
)


@pytest.mark.parametrize(
    ("composed", "expected"),
    [
        pytest.param(compose(""), ("True", "Available", "control plane 1/1, workers 2/2"), id="as asked for"),
        pytest.param(
            compose("", NEW, ready=1),
            ("False", "Creating", "control plane 1/1, workers 1/2: waiting for machine c"),
            id="creating",
        ),
        pytest.param(
            compose("-Creating", NEW, ready=1),
            ("False", "Creating", "control plane 1/1, workers 1/2: waiting for machine c"),
            id="still creating",
        ),
        pytest.param(
            compose("Available", NEW, ready=2, replicas=4, asked=4, cluster=NO_WORKERS_AVAILABLE),
            ("True", "Scaling", "control plane 1/1, workers 2/4: waiting for machine c"),
            id="scaling up what serves",
        ),
        pytest.param(
            compose("Scaling", NEW, ready=3, replicas=4, asked=4, reported=2),
            ("True", "Scaling", "control plane 1/1, workers 3/4: waiting for machine c"),
            id="scaling up further",
        ),
        pytest.param(
            compose("Available", LEAVING, ready=2, replicas=3, asked=2, reported=3),
            ("True", "Scaling", "control plane 1/1, workers 2/2: waiting for the removal of machine b"),
            id="scaling down",
        ),
        pytest.param(
            compose("Available", NEW, ready=2, replicas=3, up_to_date=1),
            ("True", "Updating", "control plane 1/1, workers 2/2: waiting for machine c"),
            id="replacing machines",
        ),
        pytest.param(
            compose("Available", NODE_DELETED, ready=1, replicas=2),
            (
                "False",
                "Degraded",
                f"machine a: its Node a was deleted, since {LATER}",
            ),
            id="a node lost",
        ),
        pytest.param(
            compose("Scaling", NODE_NOT_READY, NEW, ready=1, replicas=4, asked=4),
            (
                "False",
                "Degraded",
                f"machine a: its Node a is not ready: kubelet stopped posting, since {LATER}",
            ),
            id="a node lost while scaling",
        ),
        pytest.param(
            compose("Available", NODE_DELETED, machine("b", *NODE_DELETED["status"]["conditions"]), ready=0),
            (
                "False",
                "Degraded",
                f"machine a: its Node a was deleted, since {LATER}; 1 more in trouble",
            ),
            id="two nodes lost",
        ),
        pytest.param(
            compose("Available", cluster=NO_CONTROL_PLANE),
            (
                "False",
                "Degraded",
                f"the control plane is not available: 0 of 1 Machines are healthy, since {LATER}",
            ),
            id="control plane lost",
        ),
        pytest.param(
            compose("-Degraded", NEW, ready=1, replicas=2),
            ("False", "Recovering", "control plane 1/1, workers 1/2: waiting for machine c"),
            id="the lost node's successor comes",
        ),
        pytest.param(
            compose("Available", NEW, ready=1, replicas=2),
            ("False", "Recovering", "control plane 1/1, workers 1/2: waiting for machine c"),
            id="a machine deleted by hand",
        ),
        pytest.param(
            compose("-Recovering"), ("True", "Available", "control plane 1/1, workers 2/2"), id="all there again"
        ),
        pytest.param(
            compose("", NODE_NOT_READY, ready=1),
            (
                "False",
                "Creating",
                "control plane 1/1, workers 1/2: "
                f"machine a: its Node a is not ready: kubelet stopped posting, since {LATER}",
            ),
            id="trouble before it was ever ready",
        ),
    ],
)
def test_ready_says_whether_the_cluster_serves_and_why_not(composed: Composed, expected: tuple[str, str, str]) -> None:
    assert told(composed) == expected


def test_a_machine_that_cannot_come_up_says_why() -> None:
    stuck = machine("c", condition("InfrastructureReady", "False", "BootstrapFailed", "the token has expired"))
    del stuck["status"]["nodeRef"]

    assert told(compose("", stuck, ready=1))[2].endswith("waiting for machine c: the token has expired")
    coming = machine("b", condition("Ready", "False", "NotReady"))
    del coming["status"]["nodeRef"]
    assert told(compose("", coming, stuck, ready=1))[2].endswith("waiting for machine c: the token has expired"), (
        "whatever comes before it"
    )


@pytest.mark.parametrize(
    ("running", "environment", "used", "words"),
    [
        pytest.param("", "v1.35.0", "v1.35.0", "", id="a new cluster"),
        pytest.param("v1.32.1", "v1.33.0", "v1.33.0", "", id="one step"),
        pytest.param("v1.32.1", "v1.35.0", "v1.32.1", "from v1.32 go to v1.33 first", id="several steps"),
        pytest.param("v1.32.1", "v1.31.0", "v1.32.1", "cannot go back", id="back"),
    ],
)
def test_another_platform_file_skips_no_version(running: str, environment: str, used: str, words: str) -> None:
    platform = Platform.model_validate({"environments": {"dev": {"kubernetesVersion": environment}}})
    claim = cases.load("ready", "claim.yaml")
    del claim["spec"]["parameters"]["kubernetesVersion"]
    if running:
        claim["status"] = {"parameters": {"kubernetesVersion": running}}

    composed = cases.compose(claim, cases.observed("ready"), platform)

    assert composed.status["parameters"]["kubernetesVersion"] == used
    up_to_date = next(each for each in composed.conditions if each.type == "UpToDate")
    if words and running == "v1.32.1":
        assert (up_to_date.status, up_to_date.reason) == ("False", "VersionHeldBack")
        assert words in up_to_date.message
