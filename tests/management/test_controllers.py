"""Parts of the platform against an API of somebody else's, as an account that has the rights of their manifests."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

import aiohttp
import pytest

from steelyard import parts, settings
from steelyard.api import state
from steelyard.api.clusterapi.resources import CLUSTERS, MACHINES
from steelyard.cli import ownerchecks
from steelyard.compose import offering
from steelyard.installation.datadir import DataDir
from steelyard.kube import objects, permits
from steelyard.kube.client.kubeconfig import Connection
from steelyard.kube.objects import Object
from steelyard.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, EVENTS, LEASES, Resource
from steelyard.management import running
from steelyard.settings import Platform
from tests.harness import INSTANT
from tests.management import clusters
from tests.management.clusters import NAMESPACE, QUICK

CLAIMS = Resource("compute.steelyard.dev", "v1alpha1", "workloadclusters", "WorkloadCluster")
WANTED = ("claims", "lifecycle", "simulated")
TAKEN: Object = {
    "metadata": {
        "ownerReferences": [
            {
                "apiVersion": "apiextensions.crossplane.io/v2",
                "kind": "CompositeResourceDefinition",
                "name": "xworkloadclusters.compute.steelyard.dev",
                "uid": "1",
                "controller": True,
            }
        ]
    }
}
"""What Crossplane writes into a definition that it has taken over."""


def claim(workers: int) -> Object:
    return {
        "apiVersion": CLAIMS.api_version,
        "kind": CLAIMS.kind,
        "metadata": {"name": "shop", "namespace": "default"},
        "spec": {"parameters": {"environment": "dev", "workerReplicas": workers}},
    }


def needed(*wanted: str) -> list[permits.Permit]:
    found = parts.needed(Platform(), offering.STANDARD, wanted, parts.PROVIDERS)
    return [*found, *permits.of_every_controller()]


async def test_a_claim_lives_and_goes_with_the_rights_of_the_manifests_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with clusters.management(tmp_path) as (client, administrator):
        await clusters.install(client, clusters.rights(needed(*WANTED)))
        options = running.Options(
            WANTED,
            await clusters.account(administrator),
            NAMESPACE,
            platform=settings.parse(INSTANT),
            data_dir=DataDir(tmp_path / "world"),
            health=("127.0.0.1", 0),
        )
        async with running.started(options) as here, aiohttp.ClientSession() as asked:
            await client.create(CLAIMS, claim(2))
            await clusters.until(client, CLAIMS, "shop", state.is_ready)
            assert len((await client.list(MACHINES)).items) == 3
            for path, word in (("/healthz", "ok\n"), ("/readyz", "ok\n"), ("/metrics", "steelyard_reconciles_total")):
                async with asked.get(f"http://127.0.0.1:{here.health_port}{path}") as answer:
                    assert answer.status == 200
                    assert word in await answer.text()

            await client.patch(CLAIMS, "shop", {"spec": {"parameters": {"workerReplicas": 1}}}, "default")
            await clusters.until(client, CLAIMS, "shop", lambda it: it["status"]["workers"]["summary"] == "1/1")
            await client.delete(CLAIMS, "shop", "default")
            for resource in (CLAIMS, CLUSTERS, MACHINES):
                await clusters.gone(client, resource)
            told = [str(each.get("message")) for each in (await client.list(EVENTS)).items]
            assert not [each for each in told if "forbidden" in each.lower()]
        for part in ("steelyard-claims", "steelyard-lifecycle", "steelyard-provider-simulated"):
            assert objects.at(await client.get(LEASES, part, NAMESPACE), "spec", "holderIdentity") == ""
    assert not [each for each in caplog.records if "forbidden" in str(vars(each)).lower()]


async def test_no_two_processes_run_the_same_part_whatever_else_they_run(tmp_path: Path) -> None:
    async with clusters.management(tmp_path) as (client, administrator):
        await clusters.install(client, clusters.rights([]))
        options = running.Options(("claims", "lifecycle"), administrator, NAMESPACE, terms=QUICK)
        only_claims = dataclasses.replace(options, wanted=("claims",))
        async with running.started(only_claims) as first:
            async with asyncio.timeout(clusters.DEADLINE):
                await first.leading.wait()
            waiting = running.started(options)
            second = await waiting.__aenter__()
            await asyncio.sleep(0.5)
            assert not second.leading.is_set()
        async with asyncio.timeout(clusters.DEADLINE):
            await second.leading.wait()
        await waiting.__aexit__(None, None, None)


async def test_who_loses_the_lease_ends(tmp_path: Path) -> None:
    async with clusters.management(tmp_path) as (client, administrator):
        await clusters.install(client, clusters.rights([]))
        options = running.Options(("claims",), administrator, NAMESPACE, terms=QUICK)
        async with running.started(options) as here:
            async with asyncio.timeout(clusters.DEADLINE):
                await here.leading.wait()
                taken = {"spec": {"holderIdentity": "somebody else", "leaseDurationSeconds": 60}}
                await client.patch(LEASES, "steelyard-claims", taken, NAMESPACE)
                with pytest.raises(running.Lost, match="could not be renewed"):
                    await here.working


async def refused(options: running.Options) -> str:
    async with running.started(options) as here:
        with pytest.raises(running.CannotRun) as refusal:
            await asyncio.wait_for(here.working, clusters.DEADLINE)
    return str(refusal.value)


async def test_what_is_missing_is_named_before_anything_is_done(tmp_path: Path) -> None:
    lacking = [each for each in needed("claims") if (each.verb, each.resource.plural) != ("patch", "workloadclusters")]
    async with clusters.management(tmp_path) as (client, administrator):
        as_administrator = running.Options(("claims",), administrator, NAMESPACE, terms=QUICK)
        told = await refused(as_administrator)
        assert f"kubectl create namespace {NAMESPACE}" in told

        await clusters.install(client, clusters.rights(lacking))
        as_account = dataclasses.replace(as_administrator, connection=await clusters.account(administrator))
        told = await refused(as_account)
        assert "system:serviceaccount:steelyard-system:steelyard-controllers may not do what is needed" in told
        assert "  patch workloadclusters.compute.steelyard.dev\n" in told
        assert "  patch workloadclusters.compute.steelyard.dev/status\n" in told
        assert "secrets" not in told
        assert "steelyard manifests -o DIR --with claims" in told

        told = await refused(dataclasses.replace(as_administrator, platform=Platform(domain="example.org")))
        assert "  workloadclusters.compute.example.org (v1alpha1)\n" in told
        assert "steelyard manifests -o DIR --with claims; kubectl apply --server-side -k DIR" in told
        assert "simulatedmachines" not in told

        told = await refused(dataclasses.replace(as_administrator, wanted=("simulated",)))
        assert "--data-dir" in told

        nobody = dataclasses.replace(administrator, token="unknown", client_certificate=b"", client_key=b"")
        told = await refused(dataclasses.replace(as_administrator, connection=nobody))
        assert "does not know whom the kubeconfig names" in told
        held = {objects.name(each) for each in (await client.list(LEASES, NAMESPACE)).items}
        assert held <= {"steelyard-provider-simulated"}


async def test_an_api_that_is_not_there_is_told() -> None:
    told = await refused(running.Options(("claims",), Connection("http://127.0.0.1:1"), NAMESPACE))
    assert "cannot connect to http://127.0.0.1:1" in told


async def test_a_kind_that_crossplane_takes_over_is_left_to_it(tmp_path: Path) -> None:
    async with clusters.management(tmp_path) as (client, administrator):
        await clusters.install(client, clusters.rights([]))
        told: list[str] = []
        options = running.Options(("claims",), administrator, NAMESPACE, look_again=0.2, tell=told.append)
        async with running.started(options) as here:
            async with asyncio.timeout(clusters.DEADLINE):
                await here.leading.wait()
                await client.create(CLAIMS, claim(1))
                await clusters.until(client, CLAIMS, "shop", lambda it: bool(objects.finalizers(it)))
                await client.patch(CUSTOM_RESOURCE_DEFINITIONS, CLAIMS.group_resource, TAKEN)
                with pytest.raises(running.CannotRun, match="is Crossplane's: a claim of CompositeResourceDefinition"):
                    await here.working
        (failure,) = ownerchecks.findings(await ownerchecks.gather(client))
        assert failure.is_failure
        assert "has two owners" in failure.text
        assert "default/shop" in failure.text

        await client.patch(CLAIMS, "shop", {"metadata": {"finalizers": None}}, "default")
        async with running.started(options) as here:
            async with asyncio.timeout(clusters.DEADLINE):
                await here.leading.wait()
            assert any("workloadclusters.compute.steelyard.dev is Crossplane's" in each for each in told)
            await asyncio.sleep(1.0)
            assert objects.finalizers(await client.get(CLAIMS, "shop", "default")) == []
            (note,) = ownerchecks.findings(await ownerchecks.gather(client))
            assert not note.is_failure
            assert "it is left to Crossplane" in note.text


async def test_settings_that_would_change_claims_wait_for_a_person(tmp_path: Path) -> None:
    async with clusters.management(tmp_path) as (client, administrator):
        await clusters.install(client, clusters.rights([]))
        told: list[str] = []
        options = running.Options(("claims",), administrator, NAMESPACE, tell=told.append)
        larger = settings.parse("environments: {dev: {memoryGi: 64}}\n")
        with_larger = dataclasses.replace(options, platform=larger)

        async def works(chosen: running.Options) -> None:
            async with running.started(chosen) as here, asyncio.timeout(clusters.DEADLINE):
                await here.leading.wait()
                if not (await client.list(CLAIMS)).items:
                    await client.create(CLAIMS, claim(1))
                await clusters.until(client, CLAIMS, "shop", lambda it: bool(objects.at(it, "status", "inventory")))

        await works(options)
        text = await refused(with_larger)
        assert "default/shop: memoryGi 32 -> 64" in text
        assert "--accept-platform-change" in text
        await works(options)
        await works(dataclasses.replace(with_larger, accepts=True))
        assert any("default/shop: memoryGi 32 -> 64" in line for line in told)
        await works(with_larger)
