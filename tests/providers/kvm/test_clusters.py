"""Networks of clusters: ranges without overlap, apart from each other, and gone with their clusters."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from steelyard.api.resources import KVM_CLUSTERS, KVM_HOSTS
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.runtime import conditions
from steelyard.providers.kvm import identity
from steelyard.providers.kvm.clusters import FINALIZER
from steelyard.providers.kvm.documents import storage
from tests.providers.kvm import world
from tests.providers.kvm.daemons import Libvirtd
from tests.providers.kvm.world import HOST, PATIENCE, World, eventually


async def test_ranges_of_clusters_never_overlap_however_many_are_made_at_once(kvm: World) -> None:
    kvm.daemon.run("sh", "-c", f"echo '{_FOREIGN}' >/run/foreign.xml && virsh -q net-define /run/foreign.xml")
    made = await asyncio.gather(*(kvm.cluster(f"c{number}") for number in range(6)))

    ranges = [each["spec"]["range"] for each in made]
    assert all(conditions.is_true(each, "Ready") for each in made)
    assert sorted(ranges) == [f"10.200.{number}.0/24" for number in (0, 1, 2, 4, 5, 6)], "10.200.3.0 is somebody else's"
    assert len(kvm.daemon.virsh("net-list", "--name").split()) == 6

    for number in range(6):
        await kvm.delete(KVM_CLUSTERS, f"c{number}")
    for number in range(6):
        await kvm.gone(KVM_CLUSTERS, f"c{number}")
    assert kvm.daemon.virsh("net-list", "--all", "--name").split() == ["foreign"], "nothing else is removed"
    kvm.daemon.virsh("net-undefine", "foreign")
    assert kvm.daemon.left() == []


async def test_a_network_that_somebody_stopped_or_took_away_is_there_again(kvm: World) -> None:
    await kvm.cluster()
    machine = await kvm.running("one")
    name = kvm.daemon.virsh("net-list", "--name")
    kvm.daemon.virsh("net-destroy", name)
    kvm.daemon.virsh("net-undefine", name)
    await kvm.client.patch(KVM_CLUSTERS, "shop", {"metadata": {"annotations": {"looked": "again"}}}, kvm.namespace)

    async def is_back() -> bool:
        return kvm.daemon.virsh("net-list", "--autostart", "--name") == name

    await eventually(is_back, PATIENCE)
    kvm.daemon.virsh("destroy", machine["spec"]["providerID"].removeprefix("kvm://"))

    async def has_address() -> bool:
        return machine["status"]["addresses"][1]["address"] in kvm.daemon.virsh("net-dumpxml", name)

    await eventually(has_address, PATIENCE)


async def test_a_cluster_goes_after_its_machines(kvm: World) -> None:
    await kvm.cluster()
    await kvm.running("one")
    await kvm.delete(KVM_CLUSTERS, "shop")
    waiting = await kvm.until(KVM_CLUSTERS, "shop", lambda obj: conditions.reason_of(obj, "Ready") == "Deleting")
    assert "1 KVMMachine" in conditions.message_of(waiting, "Ready")
    assert kvm.daemon.virsh("net-list", "--name")
    await kvm.remove("one")
    await kvm.gone(KVM_CLUSTERS, "shop")
    assert kvm.daemon.left() == []


async def test_tenants_cannot_reach_each_others_networks(own_daemon: Libvirtd, tmp_path: Path) -> None:
    """Machines are stood for by network namespaces on the bridges, with addresses that machines could have."""
    ranges: dict[str, str] = {}
    async with world.world(own_daemon, tmp_path) as kvm:
        for tenant, network in (("a", "NAT"), ("b", "NAT"), ("c", "Isolated")):
            kvm.namespace = f"team-{tenant}"
            made = await kvm.cluster("shop", network={"mode": network})
            ranges[tenant] = made["spec"]["range"].removesuffix(".0/24")
            found = own_daemon.run("sh", "-c", f"ip -o -4 addr | grep -F '{ranges[tenant]}.1/'").stdout.split()
            stand_in = _STAND_IN.replace("NAME", tenant).replace("BRIDGE", found[1]).replace("RANGE", ranges[tenant])
            own_daemon.run("sh", "-c", stand_in)
            _listen(own_daemon, f"{ranges[tenant]}.50", within=tenant)
    own_daemon.run("sh", "-c", _ELSEWHERE)
    _listen(own_daemon, "192.0.2.2", within="elsewhere")
    _listen(own_daemon, f"{ranges['a']}.1")

    def reaches(tenant: str, address: str) -> bool:
        command = ("ip", "netns", "exec", tenant, sys.executable, "-c", _CONNECT, address)
        return own_daemon.run(*command, check=False).returncode == 0

    assert reaches("a", f"{ranges['a']}.50"), "itself"
    assert reaches("a", f"{ranges['a']}.1"), "the host, as a gateway"
    assert reaches("a", "192.0.2.2")
    assert not reaches("c", "192.0.2.2"), "it is isolated"
    reached = [f"{one} {other}" for one in ranges for other in ranges if reaches(one, f"{ranges[other]}.50")]
    assert reached == ["a a", "b b", "c c"]


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        pytest.param(
            {"host": HOST, "range": "192.168.0.0/24", "virtualRouterID": 51}, "NoRange", id="a range of somebody's"
        ),
        pytest.param({"host": HOST, "range": "10.200.0.0/16", "virtualRouterID": 51}, "NoRange", id="all of the range"),
        pytest.param(
            {"controlPlaneEndpoint": {"host": "10.200.0.77", "port": 6443}},
            "EndpointNotUsable",
            id="a machine's address",
        ),
        pytest.param({"network": {"mode": "Bridge", "bridge": "br0"}}, "EndpointMissing", id="no address on a bridge"),
        pytest.param(
            {
                "network": {"mode": "Bridge", "bridge": "docker0"},
                "controlPlaneEndpoint": {"host": "172.17.0.9", "port": 6443},
            },
            "NoHost",
            id="a bridge that nobody allowed",
        ),
    ],
)
async def test_what_a_cluster_may_not_have_is_refused_whoever_filled_it_in(
    kvm: World, spec: dict[str, Any], reason: str
) -> None:
    """Also with the finalizer in place, as if the provider had chosen all of it."""
    endpoint: Object = {"controlPlaneEndpoint": {"host": "10.200.0.10", "port": 6443}} if "range" in spec else {}
    refused = await kvm.cluster(finalizers=[FINALIZER], **{**endpoint, **spec})
    assert conditions.reason_of(refused, "Ready") == reason
    assert not objects.at(refused, "status", "initialization", "provisioned")
    assert kvm.daemon.left() == []


async def test_clusters_on_a_shared_bridge_get_router_ids_of_their_own(daemon: Libvirtd, tmp_path: Path) -> None:
    daemon.run("ip", "link", "add", "br0", "type", "bridge")
    world.image(tmp_path)
    networks: Object = {"networks": {"bridges": [{"name": "br0", "namespaces": ["team-a"]}]}}
    try:
        async with world.world(daemon, tmp_path, host_spec=networks) as kvm:
            bridge = {"mode": "Bridge", "bridge": "br0"}
            one = await kvm.cluster("one", network=bridge, controlPlaneEndpoint={"host": "192.0.2.1", "port": 6443})
            two = await kvm.cluster("two", network=bridge, controlPlaneEndpoint={"host": "192.0.2.2", "port": 6443})
            same = await kvm.cluster("same", network=bridge, controlPlaneEndpoint={"host": "192.0.2.2", "port": 6443})
            assert (one["spec"]["virtualRouterID"], two["spec"]["virtualRouterID"]) == (51, 52)
            assert conditions.reason_of(same, "Ready") == "EndpointTaken"
            machine = await kvm.running("m", "one")
            xml = daemon.virsh("dumpxml", machine["spec"]["providerID"].removeprefix("kvm://"))
            assert "<source bridge='br0'/>" in xml
            await kvm.remove("m")
            assert daemon.virsh("net-list", "--all", "--name") == ""

            kvm.namespace = "team-b"
            refused = await kvm.cluster(network=bridge, controlPlaneEndpoint={"host": "192.0.2.3", "port": 6443})
            assert "do not allow br0 to namespace team-b" in conditions.message_of(refused, "Ready")
    finally:
        daemon.run("ip", "link", "del", "br0")


async def test_a_host_says_what_it_has_and_how_it_runs_machines(untried: World) -> None:
    host = await untried.client.get(KVM_HOSTS, HOST)
    assert host["status"]["virtualization"] in ("hardware", "emulated")
    assert host["status"]["there"]["cpu"] > 0
    told = conditions.find(host, "HardwareVirtualization")
    assert told is not None
    assert (told["status"] == "True") == (host["status"]["virtualization"] == "hardware")
    assert told["status"] == "True" or "many times slower" in told["message"]
    assert untried.daemon.left() == [], "the guest that tried it out is gone"
    assert untried.files() == []

    await untried.cluster()
    await untried.running("one")
    used = {"cpu": 1, "memoryBytes": 100_000_000, "diskBytes": 1 << 30, "machines": 1}
    await untried.until(KVM_HOSTS, HOST, lambda obj: obj["status"]["used"] == used)
    await untried.client.delete(KVM_HOSTS, HOST)
    waiting = await untried.until(KVM_HOSTS, HOST, lambda obj: conditions.reason_of(obj, "Ready") == "Deleting")
    assert "team-a/one" in conditions.message_of(waiting, "Ready")
    await untried.remove("one")
    await untried.remove_cluster()

    async def is_gone() -> bool:
        return not (await untried.client.list(KVM_HOSTS)).items

    await eventually(is_gone, PATIENCE)


async def test_a_try_that_was_cut_short_before_there_was_a_directory_keeps_no_host_away(
    daemon: Libvirtd, tmp_path: Path
) -> None:
    """What it left is a pool whose directory never was, in a root that never was."""
    world.image(tmp_path)
    async with world.world(daemon, tmp_path, has_host=False) as made:
        uuid = identity.derived_uuid(f"probe/{tmp_path}/{HOST}")
        path = identity.folder_path(str(tmp_path / "machines"), uuid)
        xml = storage.folder(identity.folder_name(uuid), uuid, path)
        daemon.run("sh", "-c", f"echo '{xml}' >/run/pool.xml && virsh -q pool-define /run/pool.xml")
        assert uuid in daemon.virsh("pool-list", "--all", "--uuid")

        await made.hosted()
        assert daemon.left() == []
        assert made.files() == []


_FOREIGN = (
    '<network><name>foreign</name><bridge name="foreign0"/><ip address="10.200.3.1" netmask="255.255.255.0"/></network>'
)
_STAND_IN = """
mountpoint -q /run/netns || { mkdir -p /run/netns; mount -t tmpfs tmpfs /run/netns; }
ip netns add NAME
ip link add out-NAME type veth peer name eth0 netns NAME
ip link set out-NAME master BRIDGE up
ip -n NAME addr add RANGE.50/24 dev eth0
ip -n NAME link set lo up
ip -n NAME link set eth0 up
ip -n NAME route add default via RANGE.1
"""
_ELSEWHERE = """
ip netns add elsewhere
ip link add out type veth peer name eth0 netns elsewhere
ip addr add 192.0.2.1/24 dev out
ip link set out up
ip -n elsewhere addr add 192.0.2.2/24 dev eth0
ip -n elsewhere link set eth0 up
"""
_PORT = 8080
_SERVE = f"""
import os, socket, sys
listener = socket.create_server((sys.argv[1], {_PORT}))
if os.fork():
    os._exit(0)
os.setsid()
while True:
    listener.accept()[0].close()
"""
_CONNECT = f"import socket, sys; socket.create_connection((sys.argv[1], {_PORT}), 1)"


def _listen(daemon: Libvirtd, address: str, within: str = "") -> None:
    inside = ("ip", "netns", "exec", within) if within else ()
    daemon.run("sh", "-c", '"$@" >/dev/null 2>&1', "sh", *inside, sys.executable, "-c", _SERVE, address)
