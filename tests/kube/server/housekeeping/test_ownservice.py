"""The Service of the API itself: there when it is asked for, put back when it is taken away, nothing written else."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from steelyard.kube import errors, objects
from steelyard.kube.client.local import LocalClient
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.server.api import Api
from steelyard.kube.store.store import Store

SERVICES = Resource("", "v1", "services", "Service")
ENDPOINTS = Resource("", "v1", "endpoints", "Endpoints")
SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
ALL = (SERVICES, ENDPOINTS, SLICES)


class Cluster:
    def __init__(self, store: Store, api: Api) -> None:
        self.store = store
        self.api = api
        self.client = LocalClient(api)

    async def get(self, resource: Resource) -> Object:
        return await self.client.get(resource, "kubernetes", "default")

    async def settled(self, resource: Resource, uid: str = "") -> Object:
        """Once there is one with another UID than this."""
        async with asyncio.timeout(60):
            while True:
                with contextlib.suppress(errors.NotFound):
                    found = await self.get(resource)
                    if objects.uid(found) != uid:
                        return found
                await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def opened(folder: Path, *, port: int = 20001, networks: str = "") -> AsyncGenerator[Cluster]:
    store = await Store.open(folder / "main.db", fsync=False)
    api = await Api.start(store, service_networks=networks)
    await api.own_service.publish("127.0.0.1", port)
    try:
        yield Cluster(store, api)
    finally:
        await api.close()
        await store.close()


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncGenerator[Cluster]:
    async with opened(tmp_path) as made:
        yield made


async def test_it_is_as_upstream_makes_it(cluster: Cluster) -> None:
    service, endpoints, slice_ = [await cluster.get(each) for each in ALL]

    assert objects.labels(service) == {"component": "apiserver", "provider": "kubernetes"}
    assert service["spec"] == {
        "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": 20001}],
        "clusterIP": "10.96.0.1",
        "clusterIPs": ["10.96.0.1"],
        "type": "ClusterIP",
        "sessionAffinity": "None",
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "internalTrafficPolicy": "Cluster",
    }
    assert service["status"] == {"loadBalancer": {}}
    assert objects.labels(endpoints) == {"endpointslice.kubernetes.io/skip-mirror": "true"}
    assert endpoints["subsets"] == [
        {"addresses": [{"ip": "127.0.0.1"}], "ports": [{"name": "https", "port": 20001, "protocol": "TCP"}]}
    ]
    assert objects.labels(slice_) == {"kubernetes.io/service-name": "kubernetes"}
    assert slice_["endpoints"] == [{"addresses": ["127.0.0.1"], "conditions": {"ready": True}}]
    assert slice_["ports"] == [{"name": "https", "protocol": "TCP", "port": 20001}]
    assert (slice_["addressType"], slice_["metadata"]["generation"]) == ("IPv4", 1)


async def test_nothing_is_written_before_somebody_asks(cluster: Cluster) -> None:
    before = cluster.store.revision
    await cluster.client.list(CONFIG_MAPS)
    await cluster.client.list(SERVICES, "kube-system")
    for resource in ALL:
        assert (await cluster.client.list(resource, label_selector="example.org/mine")).items == []
    assert cluster.store.revision == before

    assert [objects.name(each) for each in (await cluster.client.list(SERVICES)).items] == ["kubernetes"]
    after = cluster.store.revision
    for resource in ALL:
        await cluster.client.list(resource)
    assert cluster.store.revision == after


async def test_who_asks_first_by_watching_sees_it_too(cluster: Cluster) -> None:
    async with asyncio.timeout(60):
        async for event in cluster.client.watch(SERVICES, "default", resource_version=""):
            assert (event.type, objects.name(event.object)) == ("ADDED", "kubernetes")
            break


@pytest.mark.parametrize("resource", ALL, ids=lambda each: each.plural)
async def test_deleted_it_comes_back(cluster: Cluster, resource: Resource) -> None:
    before = await cluster.get(resource)
    await cluster.client.delete(resource, "kubernetes", "default")

    after = await cluster.settled(resource, objects.uid(before))
    assert after.get("spec") == before.get("spec")
    assert after.get("subsets") == before.get("subsets")
    assert after.get("endpoints") == before.get("endpoints")


async def test_changed_endpoints_are_put_right(cluster: Cluster) -> None:
    await cluster.get(ENDPOINTS)
    wrong: Object = {"subsets": [{"addresses": [{"ip": "10.0.0.9"}], "ports": [{"name": "https", "port": 1}]}]}
    await cluster.client.patch(ENDPOINTS, "kubernetes", wrong, "default")

    async with asyncio.timeout(60):
        async for event in cluster.client.watch(ENDPOINTS, "default", resource_version=""):
            if event.object["subsets"][0]["addresses"] == [{"ip": "127.0.0.1"}]:
                break


async def test_a_restart_on_another_port_is_followed_and_on_the_same_writes_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path) as cluster:
        uid = objects.uid(await cluster.get(SERVICES))
        await cluster.get(ENDPOINTS)
        revision = cluster.store.revision
    async with opened(tmp_path) as cluster:
        await cluster.get(SERVICES)
        assert cluster.store.revision == revision
    async with opened(tmp_path, port=20002) as cluster:
        service, endpoints, slice_ = [await cluster.get(each) for each in ALL]
        assert objects.uid(service) == uid
        assert service["spec"]["ports"][0]["targetPort"] == 20002
        assert endpoints["subsets"][0]["ports"][0]["port"] == 20002
        assert (slice_["ports"][0]["port"], slice_["metadata"]["generation"]) == (20002, 2)


@pytest.mark.parametrize(
    ("networks", "own", "prefix"),
    [
        pytest.param("", "10.96.0.1", "10.", id="none given"),
        pytest.param("10.95.0.0/16", "10.95.0.1", "10.95.", id="one"),
        pytest.param("fd00::/108,10.95.0.0/16", "10.95.0.1", "10.95.", id="two families"),
        pytest.param("nonsense", "10.96.0.1", "10.", id="none that can be read"),
    ],
)
async def test_services_get_addresses_of_the_clusters_range(
    tmp_path: Path, networks: str, own: str, prefix: str
) -> None:
    async with opened(tmp_path, networks=networks) as cluster:
        service: Object = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "a", "namespace": "kube-system"},
            "spec": {"ports": [{"port": 80}]},
        }
        created = await cluster.client.create(SERVICES, service)
        assert created["spec"]["clusterIP"].startswith(prefix)
        assert (await cluster.get(SERVICES))["spec"]["clusterIP"] == own
        service["metadata"]["name"] = "b"
        service["spec"]["clusterIP"] = own
        with pytest.raises(errors.Invalid, match="already allocated"):
            await cluster.client.create(SERVICES, service)
