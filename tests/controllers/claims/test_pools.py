"""Pools of workers and ranges of addresses on a real API: whose a number is, what goes, and who gets which range."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

from steelyard.api import resources
from steelyard.api.clusterapi.resources import CLUSTERS, MACHINE_DEPLOYMENTS
from steelyard.kube.objects import Object
from steelyard.settings.networks import overlap
from tests.controllers.claims import stage as stages
from tests.controllers.claims.stage import CLAIMS, NAMESPACE, Stage

BURST: Object = {"name": "burst", "minReplicas": 1, "maxReplicas": 5, "replicas": 2}


async def replicas(stage: Stage) -> int | None:
    deployment = await stage.client.get(MACHINE_DEPLOYMENTS, "dev-md-burst", NAMESPACE)
    return deployment["spec"].get("replicas")


async def autoscaler_sets(stage: Stage, number: int) -> None:
    patch: Object = {"spec": {"replicas": number}}
    await stage.client.patch(MACHINE_DEPLOYMENTS, "dev-md-burst", patch, NAMESPACE, subresource="scale")
    await stage.settle()


async def test_what_an_autoscaler_has_set_is_neither_undone_nor_taken_away(stage: Stage) -> None:
    await stage.claim(nodePools=[BURST])
    assert await replicas(stage) == 2

    await autoscaler_sets(stage, 4)
    assert await replicas(stage) == 4
    assert (await stage.get())["status"]["workers"]["desired"] == 2 + 4

    await stage.change({"spec": {"parameters": {"nodePools": [{**BURST, "cpuCores": 2}]}}})
    assert await replicas(stage) == 4, "a change of something else leaves it alone"
    await autoscaler_sets(stage, 2)
    await stage.change({"spec": {"parameters": {"nodePools": [{**BURST, "cpuCores": 4}]}}})
    assert await replicas(stage) == 2

    await stage.change({"spec": {"parameters": {"nodePools": [{"name": "burst", "minReplicas": 3, "maxReplicas": 5}]}}})
    assert await replicas(stage) == 3, "within other bounds"
    await autoscaler_sets(stage, 5)
    assert await replicas(stage) == 5

    await stage.change({"spec": {"parameters": {"nodePools": [{"name": "burst", "replicas": 1}]}}})
    assert await replicas(stage) == 1, "without bounds the claim decides"
    await stage.change({"spec": {"parameters": {"nodePools": [BURST]}}})
    assert await replicas(stage) == 1, "and with bounds again, what there is stays"


async def test_a_claim_at_rest_with_bounds_is_not_written_again(stage: Stage) -> None:
    await stage.claim(nodePools=[BURST])
    await autoscaler_sets(stage, 4)
    before = await stage.client.get(MACHINE_DEPLOYMENTS, "dev-md-burst", NAMESPACE)

    for _ in range(3):
        await stage.look_again()

    after = await stage.client.get(MACHINE_DEPLOYMENTS, "dev-md-burst", NAMESPACE)
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


async def test_a_pool_that_is_taken_off_the_list_goes_once_the_rest_is_complete(stage: Stage) -> None:
    await stage.claim(nodePools=[{"name": "gpu"}])
    assert await stage.find(MACHINE_DEPLOYMENTS, "dev-md-gpu") is not None

    await stage.change({"spec": {"parameters": {"nodePools": None}}})
    assert await stage.find(MACHINE_DEPLOYMENTS, "dev-md-gpu") is not None, "the cluster is still coming up"
    await stage.becomes_ready()
    await stage.settle()
    assert await stage.find(MACHINE_DEPLOYMENTS, "dev-md-gpu") is None
    recorded = [entry["name"] for entry in (await stage.get())["status"]["inventory"]]
    assert not [name for name in recorded if name.startswith("dev-md-gpu")]


async def test_claims_made_in_the_same_moment_get_ranges_apart(tmp_path: Path) -> None:
    """As many as there are ranges, so that a range given out twice would leave one claim without."""
    file = "networks: {pods: {pools: [10.128.0.0/13]}, services: {pools: [172.20.0.0/17]}}"
    async with stages.opened(tmp_path, file) as stage:
        kinds = (CLAIMS, resources.kubernetes_clusters("steelyard.dev"))
        await asyncio.gather(
            *(
                stage.client.create(
                    kinds[number % 2],
                    {
                        "apiVersion": CLAIMS.api_version,
                        "kind": kinds[number % 2].kind,
                        "metadata": {"name": f"c{number}", "namespace": NAMESPACE},
                        "spec": {"parameters": {"environment": "dev"}},
                    },
                )
                for number in range(8)
            )
        )
        await stage.settle()

        ranges: list[str] = []
        for cluster in (await stage.client.list(CLUSTERS)).items:
            network = cluster["spec"]["clusterNetwork"]
            ranges += [*network["pods"]["cidrBlocks"], *network["services"]["cidrBlocks"]]
        assert len(ranges) == 16
        assert not any(overlap(one, other) for one, other in itertools.combinations(ranges, 2))
        kept = {name: (await stage.get(name))["status"]["parameters"]["podCidr"] for name in ("c0", "c2")}

        await stage.claim("late")
        assert (await stage.condition("Synced", "late"))[1] == "NoAddressesLeft"
        await stage.crash()
        await stage.start()
        await stage.settle()
        assert {name: (await stage.get(name))["status"]["parameters"]["podCidr"] for name in kept} == kept


async def test_a_second_claim_for_a_cluster_of_the_same_name_is_refused(stage: Stage) -> None:
    await stage.claim()
    kind = resources.kubernetes_clusters("steelyard.dev")
    claim: Object = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": "dev", "namespace": NAMESPACE},
        "spec": {"parameters": {"environment": "dev"}},
    }
    before = await stage.objects_of()
    await stage.client.create(kind, claim)
    await stage.manager.idle(settle=0.05)

    told = (await stage.client.get(kind, "dev", NAMESPACE))["status"]["message"]
    assert "WorkloadCluster team-a/dev has a cluster of this name already" in told
    assert [each for each in await stage.objects_of() if each.startswith("Cluster/")] == ["Cluster/dev"]
    assert set(before) <= set(await stage.objects_of())
