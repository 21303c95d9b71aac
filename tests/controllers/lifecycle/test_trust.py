"""What the platform believes of a cluster's kubeconfig Secret, which whoever may write Secrets can write."""

from __future__ import annotations

import base64
from typing import Any

import pytest
import yaml

from steelyard.api.clusterapi import resources as capi
from steelyard.controllers.lifecycle import kubeconfig
from steelyard.kube import resources
from steelyard.kube.client.kubeconfig import InvalidKubeconfig
from steelyard.kube.objects import Object
from steelyard.kube.runtime import conditions
from tests.controllers.lifecycle import world as worlds
from tests.controllers.lifecycle.world import World, until

CLUSTER: Object = {"metadata": {"name": "c"}, "spec": {"controlPlaneEndpoint": {"host": "10.0.0.1", "port": 6443}}}


def secret(text: str) -> Object:
    return {"data": {"value": base64.b64encode(text.encode()).decode()}}


def told(server: str = "https://10.0.0.1:6443", *, authority: str = "THEIRS", **user: Any) -> str:
    cluster = {"server": server, "certificate-authority-data": base64.b64encode(authority.encode()).decode()}
    return yaml.safe_dump(
        {
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": "t", **user}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        }
    )


def test_clusters_own_authority_counts_over_the_kubeconfigs() -> None:
    assert kubeconfig.connection(secret(told()), CLUSTER, b"OURS").certificate_authority == b"OURS"
    assert kubeconfig.connection(secret(told()), CLUSTER, b"").certificate_authority == b"THEIRS"


@pytest.mark.parametrize(
    "server",
    [
        "https://10.0.0.1:6444",
        "https://10.0.0.2:6443",
        "http://10.0.0.1:6443",
        "https://10.0.0.1",
        "https://10.0.0.1:6443@evil.example",
        "https://me:you@10.0.0.1:6443",
        "https://10.0.0.1:6443/elsewhere",
        "https://10.0.0.1:6443?a=b",
        "https://10.0.0.1:port",
        "https://[::ffff:10.0.0.1]:6443",
    ],
)
def test_server_must_be_the_clusters_endpoint(server: str) -> None:
    with pytest.raises(InvalidKubeconfig, match=r"its server is .*, but the cluster is at https://10\.0\.0\.1:6443"):
        kubeconfig.connection(secret(told(server)), CLUSTER, b"OURS")


def test_server_is_compared_by_what_it_means() -> None:
    named: Object = {"spec": {"controlPlaneEndpoint": {"host": "API.example", "port": 443}}}
    assert kubeconfig.connection(secret(told("https://api.EXAMPLE./")), named, b"OURS")


def test_without_any_authority_nothing_is_believed() -> None:
    with pytest.raises(InvalidKubeconfig, match="no certificate-authority-data"):
        kubeconfig.connection(secret(told(authority="")), CLUSTER, b"")


async def test_kubeconfig_that_points_elsewhere_is_refused_and_said_so(world: World) -> None:
    async with worlds.running(world):
        await worlds.create(world, worlds.cluster_objects())
        await until(lambda: worlds.is_settled(world, machines=2), "the cluster")
        evil = told("https://evil.example:443", tokenFile="/etc/hostname")
        # Or else the control plane would put its Secret right at once.
        pause: Object = {"metadata": {"annotations": {"cluster.x-k8s.io/paused": "true"}}}
        await world.client.patch(capi.KUBEADM_CONTROL_PLANES, "c", pause, worlds.NAMESPACE)
        await world.client.patch(resources.SECRETS, "c-kubeconfig", secret(evil), worlds.NAMESPACE)
        machine = (await world.names(capi.MACHINES))[0]
        await world.client.patch(capi.MACHINES, machine, {"metadata": {"labels": {"touched": ""}}}, worlds.NAMESPACE)

        async def is_told() -> bool:
            found = await world.one(capi.MACHINES, machine)
            cluster = await world.one(capi.CLUSTERS, "c")
            return all(
                'Secret team/c-kubeconfig cannot be used: user "u" has tokenFile' in message
                for message in (
                    conditions.message_of(found, "NodeHealthy"),
                    conditions.message_of(cluster, "RemoteConnectionProbe"),
                )
            )

        await until(is_told, "conditions that say what is wrong")
        await world.client.delete(resources.SECRETS, "c-kubeconfig", worlds.NAMESPACE)
        patch: Object = {"metadata": {"labels": {"touched": "again"}}}
        resume: Object = {"metadata": {"annotations": {"cluster.x-k8s.io/paused": None}}}
        await world.client.patch(capi.KUBEADM_CONTROL_PLANES, "c", resume, worlds.NAMESPACE)
        await world.client.patch(capi.MACHINES, machine, patch, worlds.NAMESPACE)
        await until(lambda: worlds.is_settled(world, machines=2), "the cluster with a new kubeconfig")
        cluster = await world.one(capi.CLUSTERS, "c")
        assert conditions.is_true(cluster, "RemoteConnectionProbe")
