from __future__ import annotations

import datetime

from steelyard.cli import describe
from steelyard.kube.objects import Object

NOW = datetime.datetime(2026, 1, 10, 12, 0, 0, tzinfo=datetime.UTC)


def _claim(ready: str, message: str, **metadata: str) -> Object:
    return {
        "apiVersion": "compute.steelyard.dev/v1alpha1",
        "kind": "WorkloadCluster",
        "metadata": {"name": "shop", "namespace": "team", "creationTimestamp": "2026-01-10T11:58:00Z", **metadata},
        "spec": {"parameters": {"environment": "dev"}},
        "status": {
            "parameters": {
                "environment": "dev",
                "infrastructure": "simulated",
                "kubernetesVersion": "v1.32.1",
                "cpuCores": 8,
                "memoryGi": 32,
                "diskGb": 100,
            },
            "controlPlane": {"ready": 1, "desired": 1, "summary": "1/1"},
            "workers": {"ready": 1, "desired": 2, "summary": "1/2"},
            "endpoint": "https://127.0.0.1:20001",
            "conditions": [
                {"type": "Synced", "status": "True", "reason": "ReconcileSuccess", "message": "",
                 "lastTransitionTime": "2026-01-10T11:58:00Z"},
                {"type": "Ready", "status": ready, "reason": "Creating", "message": message,
                 "lastTransitionTime": "2026-01-10T11:58:00Z"},
            ],
        },
    }  # fmt: skip


MACHINE: Object = {
    "apiVersion": "cluster.x-k8s.io/v1beta2",
    "kind": "Machine",
    "metadata": {
        "name": "shop-md-0-abc",
        "namespace": "team",
        "creationTimestamp": "2026-01-10T11:59:00Z",
        "labels": {"cluster.x-k8s.io/cluster-name": "shop"},
    },
    "spec": {"version": "v1.32.1"},
    "status": {
        "phase": "Provisioning",
        "conditions": [{"type": "Ready", "status": "False", "message": "the machine's disk is full"}],
    },
}


def test_a_ready_cluster_tells_how_to_use_it() -> None:
    text = describe.render(describe.Picture(_claim("True", ""), None, [], []), NOW)
    assert text.startswith("WorkloadCluster team/shop: Ready\n")
    assert "dev on simulated machines, Kubernetes v1.32.1, each node 8 cores, 32 GiB memory, 100 GiB disk" in text
    assert "workers: 1 of 2 ready" in text
    assert "endpoint: https://127.0.0.1:20001" in text
    assert "age: 2m" in text
    assert "steelyard kubeconfig shop -n team > shop.kubeconfig" in text


def test_a_cluster_that_is_not_ready_says_why_and_which_machine() -> None:
    picture = describe.Picture(_claim("False", "workers 1/2"), None, [MACHINE], [])
    text = describe.render(picture, NOW)
    assert text.startswith("WorkloadCluster team/shop: not ready: workers 1/2\n")
    assert "shop-md-0-abc   worker   Provisioning   -" in text
    assert "machine shop-md-0-abc: the machine's disk is full" in text


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
    text = describe.render(describe.Picture(_claim("False", "x"), None, [], [event]), NOW)
    assert "30s   Warning   BootFailed   machine/shop-md-0-abc   no disk (3 times)" in text


def test_a_cluster_being_deleted_says_so() -> None:
    claim = _claim("False", "", deletionTimestamp="2026-01-10T11:59:59Z")
    text = describe.render(describe.Picture(claim, None, [], []), NOW)
    assert text.startswith("WorkloadCluster team/shop: being deleted\n")
    assert "steelyard wait shop -n team --for deleted" in text
