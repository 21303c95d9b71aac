"""VirtualClusters on simulated machines: the printed ones, and what can change there."""

from __future__ import annotations

from pathlib import Path

import pytest

from steelyard.api import resources, state
from steelyard.api.clusterapi import resources as capi
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS
from tests import inprocess
from tests.compose import printed

CLAIMS = resources.virtual_clusters("steelyard.dev")


async def change(client: Client, parameters: Object) -> Object:
    """Until it is as asked for again."""
    before = await client.patch(CLAIMS, "dev", {"spec": {"parameters": parameters}}, "default")
    generation = objects.generation(before)

    def is_done(claim: Object) -> bool:
        up_to_date = [each for each in claim["status"]["conditions"] if each["type"] == "UpToDate"]
        is_seen = int(objects.at(claim, "status", "observedGeneration") or 0) >= generation
        return is_seen and bool(up_to_date) and up_to_date[0]["status"] == "True"

    return (await inprocess.until(client, before, is_done))[-1]


def claim(**parameters: object) -> Object:
    return {**inprocess.claim("dev", **parameters), "kind": "VirtualCluster"}


@pytest.mark.parametrize("name", printed.VIRTUAL_CLUSTERS)
async def test_a_printed_claim_becomes_a_ready_cluster(tmp_path: Path, name: str) -> None:
    wanted = printed.VIRTUAL_CLUSTERS[name]
    async with inprocess.platform(tmp_path, "domain: pnats.cloud\n") as client:
        await inprocess.namespace(client, "argocd")
        ready = await inprocess.becomes_ready(client, wanted)

        servers = 3 if name == "001 production cluster" else 1
        assert ready["status"]["controlPlane"]["summary"] == f"{servers}/{servers}"
        assert ready["status"]["parameters"]["k8sVersion"] == "v1.30.0"
        secret = await client.get(SECRETS, wanted["spec"]["writeConnectionSecretToRef"]["name"], "argocd")
        assert secret["data"]["kubeconfig"] == secret["data"]["value"]
        assert (await client.list(capi.MACHINE_DEPLOYMENTS)).items == []


async def test_servers_come_and_go_and_are_replaced_for_another_version(tmp_path: Path) -> None:
    async with inprocess.platform(tmp_path) as client:
        await inprocess.becomes_ready(client, claim(k8sVersion="v1.30.0"))
        first = {objects.uid(each) for each in (await client.list(capi.MACHINES)).items}

        grown = await change(client, {"highAvailability": True})
        assert grown["status"]["controlPlane"]["summary"] == "3/3"
        newer = await change(client, {"k8sVersion": "v1.31.0", "diskGb": 200})
        assert newer["status"]["parameters"]["k8sVersion"] == "v1.31.0"
        assert not first & {objects.uid(each) for each in (await client.list(capi.MACHINES)).items}
        shrunk = await change(client, {"highAvailability": False})
        assert shrunk["status"]["controlPlane"]["summary"] == "1/1"

        for asked in ("v1.30.0", "v1.33.0"):
            with pytest.raises(errors.Invalid, match="k8sVersion"):
                await client.patch(CLAIMS, "dev", {"spec": {"parameters": {"k8sVersion": asked}}}, "default")


async def test_what_simulated_machines_do_not_do_is_told(tmp_path: Path) -> None:
    async with inprocess.platform(tmp_path) as client:
        ready = await inprocess.becomes_ready(client, claim(ingressClass="nginx"))

        (in_force,) = [each for each in ready["status"]["conditions"] if each["type"] == "InForce"]
        assert in_force["message"].startswith("ingressClass: nothing installs nginx on simulated machines")


async def test_it_does_not_take_over_the_cluster_of_another_kind(tmp_path: Path) -> None:
    async with inprocess.platform(tmp_path) as client:
        await inprocess.becomes_ready(client, inprocess.claim("dev"))
        owners = [objects.uid(each) for each in (await client.list(capi.CLUSTERS)).items]
        made = await client.create(CLAIMS, claim())

        refused = (await inprocess.until(client, made, lambda each: state.of(each).word == state.REFUSED))[-1]
        assert "WorkloadCluster default/dev has a cluster of this name already" in state.of(refused).text
        await client.delete(CLAIMS, "dev", "default")
        assert [objects.uid(each) for each in (await client.list(capi.CLUSTERS)).items] == owners
