"""What `describe` says in each state a claim can be in: the cause first, since when, and the command that helps."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from steelyard.api import state
from steelyard.cli import advice, describe
from steelyard.cli.advice import Picture
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object

NOW = datetime.datetime(2026, 1, 10, 12, 0, 0, tzinfo=datetime.UTC)
SOME_TIME_AGO = "2026-01-10T11:55:00Z"


def condition(type_: str, status: str, reason: str, message: str = "") -> Object:
    return {
        "type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": SOME_TIME_AGO,
    }  # fmt: skip


APPLIED = condition("Synced", "True", "ReconcileSuccess")


def claim(*conditions: Object, workers: tuple[int, int] = (2, 2), **metadata: Any) -> Object:
    return {
        "apiVersion": "compute.steelyard.dev/v1alpha1",
        "kind": "WorkloadCluster",
        "metadata": {
            "name": "shop", "namespace": "team", "uid": "u-1", "generation": 1,
            "creationTimestamp": "2026-01-10T11:50:00Z", **metadata,
        },
        "spec": {"parameters": {"environment": "dev"}},
        "status": {
            "observedGeneration": 1,
            "clusterRef": {"name": "shop", "namespace": "team"},
            "parameters": {
                "environment": "dev",
                "infrastructure": "simulated",
                "kubernetesVersion": "v1.32.1",
                "cpuCores": 8,
                "memoryGi": 32,
                "diskGb": 100,
            },
            "controlPlane": {"ready": 1, "desired": 1, "summary": "1/1"},
            "workers": {"ready": workers[0], "desired": workers[1], "summary": f"{workers[0]}/{workers[1]}"},
            "endpoint": "https://127.0.0.1:20001",
            "conditions": list(conditions),
        },
    }  # fmt: skip


def machine(name: str, *conditions: Object, control_plane: bool = False, **metadata: Any) -> Object:
    labels = {"cluster.x-k8s.io/cluster-name": "shop"}
    if control_plane:
        labels["cluster.x-k8s.io/control-plane"] = ""
    return {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Machine",
        "metadata": {
            "name": name, "namespace": "team", "uid": f"u-{name}", "creationTimestamp": "2026-01-10T11:51:00Z",
            "labels": labels, **metadata,
        },
        "spec": {"version": "v1.32.1"},
        "status": {
            "phase": "Running",
            "lastUpdated": "2026-01-10T11:52:00Z",
            "nodeRef": {"name": name},
            "conditions": list(conditions) or [condition("Ready", "True", "Ready")],
        },
    }  # fmt: skip


GONE = (
    condition("Ready", "False", "NotReady", "* NodeHealthy: ..."),
    condition("NodeReady", "False", "NodeDeleted", "Node has been deleted while the Machine still exists"),
)
NOT_READY = (condition("NodeReady", "False", "NodeNotReady", "* Node.Ready: kubelet stopped posting"),)
LOST_WORKER = machine("shop-md-0-a", *GONE)
SICK_WORKER = machine("shop-md-0-a", *NOT_READY)
STUCK = machine("shop-md-0-a", condition("InfrastructureReady", "False", "BootstrapFailed", "the token has expired"))
del STUCK["status"]["nodeRef"]
DRAINING = machine(
    "shop-md-0-a",
    condition("Deleting", "True", "DrainingNode", "Drain not completed yet: 2 Pods left"),
    deletionTimestamp=SOME_TIME_AGO,
)
HELD: Object = {
    "apiVersion": "cluster.x-k8s.io/v1beta2",
    "kind": "MachineDeployment",
    "metadata": {
        "name": "shop-md-0", "namespace": "team", "uid": "u-9", "deletionTimestamp": SOME_TIME_AGO,
        "finalizers": ["example.org/hold", "machinedeployment.cluster.x-k8s.io"],
    },
}  # fmt: skip
READY = (APPLIED, condition("Ready", "True", "Available", "control plane 1/1, workers 2/2"))
DEGRADED = "machine shop-md-0-a: its Node shop-md-0-a was deleted, since 2026-01-10T11:55:00Z"


def picture(obj: Object, *machines: Object, held: tuple[Object, ...] = ()) -> Picture:
    return Picture(obj, {"metadata": {"name": "shop", "namespace": "team"}}, machines, (), held)


@pytest.mark.parametrize(
    ("shown", "head", "expected", "unwanted"),
    [
        pytest.param(
            picture(claim()),
            "Pending for 10m",
            ["no controller has reported on it yet", "see whether the platform works: steelyard doctor"],
            ["wait for it"],
            id="nobody has looked at it",
        ),
        pytest.param(
            picture(claim(APPLIED, condition("Ready", "False", "Creating", "workers 1/2: waiting for machine a"))),
            "Creating for 5m",
            ["  workers 1/2: waiting for machine a", "wait for it: steelyard wait shop -n team"],
            ["kubeconfig"],
            id="creating",
        ),
        pytest.param(
            picture(claim(APPLIED, condition("Ready", "False", "Creating", "waiting")), STUCK),
            "Creating for 5m",
            ["machine shop-md-0-a: the token has expired"],
            ["delete machine"],
            id="creating, and a machine cannot come up",
        ),
        pytest.param(
            picture(claim(*READY)),
            "Ready for 5m",
            [
                "steelyard kubeconfig shop -n team > shop.kubeconfig",
                "kubectl --kubeconfig shop.kubeconfig get nodes",
                "add a worker: steelyard scale shop -n team --workers 3",
                "workers: 2 of 2 ready",
                "endpoint: https://127.0.0.1:20001",
                "dev on simulated machines, Kubernetes v1.32.1",
                "each node: 8 cores, 32 GiB memory, 100 GiB disk",
            ],
            ["wait"],
            id="ready",
        ),
        pytest.param(
            picture(claim(*READY, workers=(7, 7))),
            "Ready for 5m",
            ["--workers 8"],
            ["--workers 4", "--workers 3"],
            id="ready, and never told to scale down",
        ),
        pytest.param(
            picture(claim(*READY, workers=(100, 100))), "Ready for 5m", [], ["add a worker"], id="as large as can be"
        ),
        pytest.param(
            picture(
                claim(APPLIED, condition("Ready", "True", "Scaling", "workers 3/4: waiting for machine b")),
            ),
            "Scaling for 5m",
            [
                "  workers 3/4: waiting for machine b",
                "wait for it: steelyard wait shop -n team --for UpToDate",
                "steelyard kubeconfig shop -n team",
            ],
            ["add a worker"],
            id="scaling",
        ),
        pytest.param(
            picture(claim(APPLIED, condition("Ready", "True", "Updating", "waiting for machine b"))),
            "Updating for 5m",
            ["--for UpToDate"],
            ["add a worker"],
            id="updating",
        ),
        pytest.param(
            picture(claim(APPLIED, condition("Ready", "False", "Degraded", DEGRADED)), LOST_WORKER),
            "Degraded for 5m",
            [
                f"  {DEGRADED}",
                "worker   Lost",
                "replace machine shop-md-0-a:",
                "steelyard delete machine shop-md-0-a -n team --yes",
                "then wait for it: steelyard wait shop -n team",
            ],
            ["describe node", "add a worker"],
            id="a node deleted",
        ),
        pytest.param(
            picture(claim(APPLIED, condition("Ready", "False", "Degraded", "x")), SICK_WORKER),
            "Degraded for 5m",
            ["kubectl --kubeconfig shop.kubeconfig describe node shop-md-0-a", "steelyard delete machine shop-md-0-a"],
            [],
            id="a node not ready",
        ),
        pytest.param(
            picture(
                claim(APPLIED, condition("Ready", "False", "Degraded", "x")), machine("cp", *GONE, control_plane=True)
            ),
            "Degraded for 5m",
            ["bring machine cp back", "deleting it would lose"],
            ["steelyard delete machine"],
            id="the only control-plane machine",
        ),
        pytest.param(
            picture(
                claim(APPLIED, condition("Ready", "False", "Degraded", "x")),
                machine("cp-a", *GONE, control_plane=True),
                machine("cp-b", control_plane=True),
                machine("cp-c", control_plane=True),
            ),
            "Degraded for 5m",
            ["steelyard delete machine cp-a -n team --yes"],
            ["bring machine"],
            id="one of three control-plane machines",
        ),
        pytest.param(
            picture(
                claim(APPLIED, condition("Ready", "False", "Degraded", "x")),
                machine("cp-a", *GONE, control_plane=True),
                machine("cp-b", *GONE, control_plane=True),
                machine("cp-c", control_plane=True),
            ),
            "Degraded for 5m",
            ["bring machine cp-a back", "bring machine cp-b back"],
            ["steelyard delete machine"],
            id="two of three control-plane machines",
        ),
        pytest.param(
            picture(claim(APPLIED, condition("Ready", "False", "Degraded", "the control plane is not available"))),
            "Degraded for 5m",
            ["steelyard describe clusters.cluster.x-k8s.io shop -n team"],
            ["delete machine"],
            id="no machine to blame",
        ),
        pytest.param(
            picture(claim(APPLIED, condition("Ready", "False", "Recovering", "waiting for machine b"))),
            "Recovering for 5m",
            ["wait for it: steelyard wait shop -n team"],
            [],
            id="recovering",
        ),
        pytest.param(
            picture(
                claim(
                    condition("Synced", "False", "ReconcilePaused", "the claim has the annotation x"),
                    condition("Ready", "True", "Available"),
                    annotations={"cluster.x-k8s.io/paused": ""},
                )
            ),
            "Paused for 5m",
            [
                "the claim has the annotation x",
                "kubectl annotate workloadcluster.compute.steelyard.dev/shop -n team cluster.x-k8s.io/paused-",
            ],
            ["mend"],
            id="paused",
        ),
        pytest.param(
            picture(claim(condition("Synced", "False", "InfrastructureNotAvailable", "it cannot be made"))),
            "Refused for 5m",
            ["it cannot be made", "kubectl edit workloadcluster.compute.steelyard.dev/shop -n team"],
            ["wait"],
            id="refused",
        ),
        pytest.param(
            picture(claim(condition("Synced", "False", "ReconcileError", "Secret a/b: create the namespace a"))),
            "Failing for 5m",
            ["Secret a/b: create the namespace a", "tried again by itself"],
            [],
            id="failing",
        ),
        pytest.param(
            picture(
                claim(
                    APPLIED,
                    condition("Ready", "False", "Deleting", "waiting for the deletion of Cluster team/shop"),
                    deletionTimestamp="2026-01-10T11:59:00Z",
                ),
                DRAINING,
            ),
            "Deleting for 60s",
            [
                "waiting for the deletion of Cluster team/shop",
                "machine shop-md-0-a: Drain not completed yet: 2 Pods left",
                "wait for it: steelyard wait shop -n team --for deleted",
            ],
            ["kubeconfig"],
            id="deleting, and draining a machine",
        ),
        pytest.param(
            picture(
                claim(*READY, deletionTimestamp="2026-01-10T11:59:00Z", finalizers=["steelyard.dev/claim"]),
            ),
            "Deleting for 60s",
            ["its deletion has not begun yet"],
            [],
            id="deleting, and nobody has begun",
        ),
        pytest.param(
            picture(
                claim(
                    APPLIED,
                    condition(
                        "Ready", "False", "Deleting", "waiting for the deletion of MachineDeployment team/shop-md-0"
                    ),
                    deletionTimestamp="2026-01-10T11:59:00Z",
                ),
                held=(HELD,),
            ),
            "Deleting for 60s",
            [
                "MachineDeployment team/shop-md-0 is held by the finalizer example.org/hold",
                "kubectl edit machinedeployment.cluster.x-k8s.io/shop-md-0 -n team",
            ],
            ["machinedeployment.cluster.x-k8s.io,"],
            id="deletion held by a finalizer",
        ),
        pytest.param(
            picture(
                claim(
                    condition("Synced", "False", "ReconcilePaused", "the claim has the annotation x"),
                    deletionTimestamp="2026-01-10T11:59:00Z",
                    annotations={"crossplane.io/paused": "true"},
                )
            ),
            "Deleting for 60s",
            ["it is paused, so nothing is deleted", "crossplane.io/paused-"],
            [],
            id="deletion held by a pause",
        ),
    ],
)
@pytest.mark.parametrize("width", [0, 80, 120])
def test_each_state_names_the_cause_since_when_and_what_helps(
    shown: Picture, head: str, expected: list[str], unwanted: list[str], width: int
) -> None:
    text = describe.render(shown, NOW, width=width)

    assert text.startswith(f"WorkloadCluster team/shop: {head}\n")
    # A sentence goes on below where it does not fit, a command never.
    flowing = " ".join(text.split())
    for words in expected:
        assert " ".join(words.split()) in flowing
    advice = text.partition("\nNext\n")[2]
    for words in unwanted:
        assert words not in advice
    assert advice.strip()


@pytest.mark.parametrize("width", [80, 120])
def test_sentences_fit_the_terminal_and_commands_stay_whole(width: int) -> None:
    message = "the control plane is not available: " + "1 of 3 Machines are healthy; " * 5
    text = describe.render(picture(claim(APPLIED, condition("Ready", "False", "Degraded", message))), NOW, width=width)

    too_long = [line for line in text.splitlines() if len(line) > width]
    assert [line for line in too_long if "kubectl" not in line and "steelyard" not in line] == []


def test_what_was_said_above_is_not_said_again() -> None:
    obj = claim(APPLIED, condition("Ready", "False", "Degraded", DEGRADED))

    assert describe.render(picture(obj, LOST_WORKER), NOW).count("its Node shop-md-0-a was deleted") == 1


def test_a_change_that_nobody_has_looked_at_is_told() -> None:
    text = describe.render(picture(claim(*READY, generation=2)), NOW)

    assert "before the latest change, which nobody has looked at yet" in text


def test_deliveries_are_listed_with_what_each_waits_for() -> None:
    obj = claim(*READY)
    place = {"cluster": "mall", "namespace": "web", "delivery": "x"}
    obj["status"]["deliveries"] = [
        {**place, "clusterNamespace": "team", "name": "db", "ready": True},
        {
            **place, "clusterNamespace": "team-b", "name": "old", "ready": False,
            "message": "web/old in cluster mall: create namespace web in cluster mall of namespace team-b",
        },
    ]  # fmt: skip
    lines = [" ".join(line.split()) for line in describe.render(Picture(obj, None, [], []), NOW).splitlines()]
    start = lines.index("Deliveries")
    assert lines[start + 1 : start + 4] == [
        "CLUSTER SECRET READY MESSAGE",
        "mall web/db yes",
        "team-b/mall web/old no create namespace web in cluster mall of namespace team-b",
    ]


@pytest.mark.parametrize(
    ("secret", "told"),
    [
        pytest.param(
            {"name": "sessions", "namespace": "web"},
            """redis-cli -u "$(kubectl get secret sessions -n web -o jsonpath='{.data.uri}' | base64 -d)\"""",
            id="with a Secret it is used with what is in there",
        ),
        pytest.param(
            None,
            """kubectl patch redisinstance.cache.steelyard.dev/shop -n team --type merge -p """
            """'{"spec":{"writeConnectionSecretToRef":{"name":"shop-connection"}}}'""",
            id="without one there is a way to have it written",
        ),
    ],
)
def test_how_to_connect_to_a_cache_is_a_command_to_be_copied(secret: Object | None, told: str) -> None:
    cache: Object = {
        "apiVersion": "cache.steelyard.dev/v1alpha1",
        "kind": "RedisInstance",
        "metadata": claim()["metadata"],
        "spec": {"parameters": {"environment": "dev"}} | ({"writeConnectionSecretToRef": secret} if secret else {}),
        "status": {
            "observedGeneration": 1,
            "host": "127.0.0.1",
            "conditions": [APPLIED, condition("Ready", "True", "Available", "one server")],
        },
    }

    assert told in " ".join(advice.steps(Picture(cache, None, [], [])))


def test_events_are_shown_with_how_often_they_happened() -> None:
    event: Object = {
        "metadata": {"name": "e", "namespace": "team"},
        "involvedObject": {"kind": "Machine", "name": "shop-md-0-abc"},
        "type": "Warning",
        "reason": "BootFailed",
        "message": "no disk",
        "count": 3,
        "lastTimestamp": "2026-01-10T11:59:30Z",
    }
    text = describe.render(Picture(claim(*READY), None, [], [event]), NOW)
    assert "30s   Warning   BootFailed   machine/shop-md-0-abc   no disk (3 times)" in text


class _Api:
    """Answers what `gather` asks."""

    def __init__(self, events: list[Object]) -> None:
        self._events = events

    async def get(self, *_: object) -> Object:
        return {"metadata": {"name": "shop", "namespace": "team", "uid": "u-2"}}

    async def list(self, resource: Any, *_: object, **__: object) -> Any:
        class Listed:
            items = self._events if resource.kind == "Event" else [machine("shop-md-0-a")]

        return Listed


def event_of(name: str, uid: str) -> Object:
    return {"metadata": {"name": f"{name}-{uid}"}, "involvedObject": {"kind": "X", "name": name, "uid": uid}}


async def test_events_of_a_deleted_namesake_stay_out() -> None:
    api: Any = _Api([event_of("shop", "u-0"), event_of("shop", "u-1"), event_of("shop-md-0-a", "u-shop-md-0-a")])
    client: Client = api

    gathered = await describe.gather(client, claim(*READY))

    assert [each["involvedObject"]["uid"] for each in gathered.events] == ["u-1", "u-shop-md-0-a"]


async def test_events_of_one_second_are_in_the_order_in_which_they_happened() -> None:
    told = ("100", "99", "")
    events = [event_of("shop", "u-1") for _ in told]
    for event, version in zip(events, told, strict=True):
        event["metadata"] |= {"resourceVersion": version}
        event["lastTimestamp"] = "2026-01-10T11:59:30Z"
    events[-1]["lastTimestamp"] = "2026-01-10T11:59:31Z"
    client: Any = _Api(events)

    gathered = await describe.gather(client, claim(*READY))

    assert [each["metadata"]["resourceVersion"] for each in gathered.events] == ["99", "100", ""]


def test_every_state_has_a_word_that_a_listing_can_show() -> None:
    words = {
        value for name, value in vars(state).items() if name.isupper() and isinstance(value, str) and " " not in value
    }

    assert {
        "Pending",
        "Creating",
        "Ready",
        "Scaling",
        "Updating",
        "Degraded",
        "Recovering",
        "Paused",
        "Refused",
    } <= words
