"""What kubeadm leaves in a simulated cluster is complete, wherever the process that was making it has ended."""

from __future__ import annotations

import datetime
from typing import cast

from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.providers.simulated import furnishing
from tests.kube.runtime.memory import MemoryClient

NOW = datetime.datetime(2026, 11, 17, tzinfo=datetime.UTC)
PODS = Resource("", "v1", "pods", "Pod")


async def test_a_pod_that_was_made_and_never_reported_on_is_ready_after_the_next_try() -> None:
    client = cast(Client, MemoryClient())
    for name in ("kube-apiserver-cp", "etcd-cp"):
        left: Object = {"metadata": {"name": name, "namespace": furnishing.NAMESPACE}, "status": {"phase": "Pending"}}
        await client.create(PODS, left)

    await furnishing.add_pods(client, "cp", "10.0.0.1", version="v1.34.4", with_etcd=True, now=NOW)

    pods = (await client.list(PODS, furnishing.NAMESPACE)).items
    assert {str(each["metadata"]["name"]): each["status"]["phase"] for each in pods} == {
        "kube-apiserver-cp": "Running",
        "kube-controller-manager-cp": "Running",
        "kube-scheduler-cp": "Running",
        "etcd-cp": "Running",
    }
