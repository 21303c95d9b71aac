"""Whose a definition is: what others installed stays as they have it, and one kind has one owner."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal

import pytest

from steelyard import app, defining, settings
from steelyard.api.clusterapi import definitions
from steelyard.api.clusterapi.resources import CLUSTERS
from steelyard.compose import offering
from steelyard.installation.datadir import DataDir
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.client.local import LocalClient
from steelyard.kube.objects import Object
from steelyard.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from steelyard.kube.server.api import Api
from steelyard.kube.server.call import SYSTEM_MASTERS, User
from steelyard.kube.store.store import Store
from tests.harness import INSTANT

DOMAIN = "steelyard.dev"
NAME = f"workloadclusters.compute.{DOMAIN}"
CLAIMS = next(each for each in offering.STANDARD.definitions(DOMAIN) if objects.name(each) == NAME)


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    store = await Store.open(tmp_path / "store.db", fsync=False)
    api = await Api.start(store)
    yield LocalClient(api, User("admin", (SYSTEM_MASTERS,)), field_manager="clusterctl")
    await api.close()
    await store.close()


async def started(client: Client) -> tuple[list[defining.Owner], list[str]]:
    """What a start defines; what it found taken, and what it told."""
    told: list[str] = []
    own, upstream = [objects.copy(CLAIMS)], [definitions.crd(CLUSTERS)]
    owners = await defining.define(client, own, upstream, field_manager="steelyard", tell=told.append)
    return owners, told


async def defined(client: Client, name: str) -> Object:
    return await client.get(CUSTOM_RESOURCE_DEFINITIONS, name)


def of_upstream(*versions: str) -> Object:
    """As Cluster API installs it: with older versions, a conversion and labels of its own."""
    made = objects.copy(definitions.crd(CLUSTERS))
    (current,) = made["spec"]["versions"]
    made["metadata"]["labels"] = {"cluster.x-k8s.io/provider": "cluster-api", "cluster.x-k8s.io/v1beta2": "v1beta2"}
    made["spec"]["versions"] = [
        {**objects.copy(current), "name": name, "storage": name == versions[-1]} for name in versions
    ]
    made["spec"]["conversion"] = {
        "strategy": "Webhook",
        "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://127.0.0.1:1/convert"}},
    }
    return made


async def test_what_upstream_has_installed_keeps_its_versions_conversion_and_labels(client: Client) -> None:
    before = await client.create(CUSTOM_RESOURCE_DEFINITIONS, of_upstream("v1beta1", "v1beta2"))
    assert await started(client) == ([], [])
    after = await defined(client, CLUSTERS.group_resource)
    assert after["spec"] == before["spec"]
    assert after["metadata"]["labels"] == before["metadata"]["labels"]


async def test_a_definition_of_ours_that_upstream_has_replaced_is_upstreams_from_then_on(client: Client) -> None:
    await started(client)
    ours = await defined(client, CLUSTERS.group_resource)
    replaced = {**ours, "spec": {**ours["spec"], **of_upstream("v1beta1", "v1beta2")["spec"]}}
    before = await client.update(CUSTOM_RESOURCE_DEFINITIONS, replaced)
    await started(client)
    assert (await defined(client, CLUSTERS.group_resource))["spec"] == before["spec"]


async def test_an_older_one_without_the_version_that_is_needed_is_told_of(client: Client) -> None:
    await client.create(CUSTOM_RESOURCE_DEFINITIONS, of_upstream("v1beta1"))
    _, (told,) = await started(client)
    assert "clusters.cluster.x-k8s.io was defined by somebody else, without the version that is used here" in told
    assert "v1beta2" in told


async def test_a_definition_of_ours_is_kept_as_this_version_has_it(client: Client) -> None:
    await started(client)
    changed = await defined(client, NAME)
    versions = objects.copy(changed)["spec"]["versions"]
    versions[0]["additionalPrinterColumns"] = []
    await client.patch(CUSTOM_RESOURCE_DEFINITIONS, NAME, {"spec": {"versions": versions}})
    await started(client)
    assert (await defined(client, NAME))["spec"] == changed["spec"]


@pytest.mark.parametrize("form", ["claim", "composite"])
async def test_a_kind_that_crossplane_defines_is_crossplanes(
    client: Client, form: Literal["claim", "composite"]
) -> None:
    made = objects.copy(CLAIMS)
    made["spec"]["names"]["categories"] = [form]
    made["metadata"]["ownerReferences"] = [
        {
            "apiVersion": "apiextensions.crossplane.io/v2",
            "kind": "CompositeResourceDefinition",
            "name": "xworkloadclusters.compute.steelyard.dev",
            "uid": "1",
            "controller": True,
        }
    ]
    before = await client.create(CUSTOM_RESOURCE_DEFINITIONS, made)
    (owner,), _ = await started(client)
    assert owner == defining.Owner(NAME, "xworkloadclusters.compute.steelyard.dev", form)
    assert "is Crossplane's" in str(owner)
    assert (await defined(client, NAME))["spec"] == before["spec"]
    left = defining.left(offering.STANDARD, DOMAIN, [owner]).kinds
    assert {each.noun for each in offering.STANDARD.kinds} - {each.noun for each in left} == {"cluster"}


async def test_a_platform_without_the_lifecycle_leaves_cluster_apis_kinds_to_whoever_installs_them(
    tmp_path: Path,
) -> None:
    options = app.Options(DataDir(tmp_path / "data"), "127.0.0.1", 0, settings.parse(INSTANT))
    async with app.started(dataclasses.replace(options, without=frozenset({"lifecycle"}))) as running:
        with pytest.raises(errors.NotFound):
            await defined(running.client, CLUSTERS.group_resource)
        assert await defined(running.client, NAME)
        before = await running.client.create(CUSTOM_RESOURCE_DEFINITIONS, of_upstream("v1beta1", "v1beta2"))
    async with app.started(options) as running:
        after = await defined(running.client, CLUSTERS.group_resource)
        assert after["spec"] == before["spec"]
        assert after["metadata"]["labels"] == before["metadata"]["labels"]
        assert await defined(running.client, "machines.cluster.x-k8s.io"), "what nobody has installed is ours"
