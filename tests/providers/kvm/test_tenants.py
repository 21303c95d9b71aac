"""What somebody who may write KVMMachines cannot have: others' machines, and the host's own files."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from steelyard.api.resources import KVM_CLUSTERS, KVM_HOSTS, KVM_MACHINES
from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from steelyard.kube.runtime import conditions
from steelyard.providers.kvm import identity
from steelyard.providers.kvm.clusters import FINALIZER as CLUSTER_FINALIZER
from steelyard.providers.kvm.consoles import Consoles
from steelyard.providers.kvm.machines import FINALIZER
from tests.providers.kvm import world
from tests.providers.kvm.daemons import Libvirtd
from tests.providers.kvm.world import HOST, PATIENCE, SIZES, World, eventually

TWINS = ("0b1e4b4c-6c7e-4f0e-9a53-000000000f63", "0b1e4b4c-6c7e-4f0e-9a53-00000000108a")
"""UUIDs of which the same hardware address is made."""


async def test_the_uuid_of_anothers_machine_in_a_spec_is_of_no_use(kvm: World) -> None:
    await kvm.cluster()
    victim = await kvm.running("one")
    process = kvm.daemon.pids("qemu-system-x86_64")
    files = kvm.files()
    console = kvm.folder / "machines" / victim["spec"]["providerID"].removeprefix("kvm://") / "console.log"
    console.write_text("login: ")

    kvm.namespace = "team-b"
    await kvm.cluster("other")
    taken = {each: victim["spec"][each] for each in ("providerID", "host", "storageRoot")}
    await kvm.machine("thief", "other", finalizers=[FINALIZER], **taken)
    refused = await kvm.until(KVM_MACHINES, "thief", lambda obj: conditions.is_false(obj, "Ready"))
    assert conditions.reason_of(refused, "Ready") in ("ProviderIDTaken", "NotOurs")
    consoles = Consoles(kvm.client, kvm.fleet)
    assert await consoles("team-a", "one", last=100) == b"login: "
    assert await consoles("team-b", "thief", last=100) == b""
    await kvm.remove("thief")

    assert kvm.daemon.pids("qemu-system-x86_64") == process
    assert kvm.files() == files


async def test_the_uuid_of_a_pool_of_the_hosts_own_is_of_no_use(kvm: World) -> None:
    own = kvm.folder / "own"
    own.mkdir()
    (own / "root.qcow2").write_text("not yours")
    pool = str(uuid.uuid4())
    xml = f"<pool type='dir'><name>own</name><uuid>{pool}</uuid><target><path>{own}</path></target></pool>"
    kvm.daemon.run("sh", "-c", f'echo "{xml}" >/run/own.xml && virsh -q pool-create /run/own.xml')
    await kvm.cluster()
    await kvm.machine("thief", providerID=f"kvm://{pool}", host=HOST, storageRoot=str(kvm.folder / "machines"))
    await kvm.becomes("thief", "NotOurs")
    await kvm.remove("thief")
    assert os.listdir(own) == ["root.qcow2"]
    assert kvm.daemon.virsh("pool-list", "--name") == "own"


async def test_no_directory_of_the_host_is_cleared_that_a_spec_names(kvm: World) -> None:
    """As those of pods are called, by a UUID."""
    called = str(uuid.uuid4())
    precious = kvm.folder / "pods" / called
    precious.mkdir(parents=True)
    (precious / "data").write_text("precious")
    await kvm.cluster()
    spec: Object = {"providerID": f"kvm://{called}", "host": HOST, "storageRoot": str(kvm.folder / "pods")}
    await kvm.machine("thief", finalizers=[FINALIZER], **spec)
    await kvm.becomes("thief", "StorageRootNotAllowed")
    await kvm.remove("thief")
    assert (precious / "data").read_text() == "precious"


async def test_directories_of_the_host_reach_machines_only_where_they_are_allowed_also_by_links(
    daemon: Libvirtd, tmp_path: Path
) -> None:
    for name in ("shared/data", "shared/etcd", "secret"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "shared" / "link").symlink_to(tmp_path / "secret")
    world.image(tmp_path)
    outside = world.image(tmp_path, "outside.qcow2").rename(tmp_path / "secret" / "outside.qcow2")
    (tmp_path / "images" / "link.qcow2").symlink_to(outside)
    roots: Object = {"hostVolumeRoots": [{"path": str(tmp_path / "shared"), "namespaces": ["team-a"]}]}
    async with world.world(daemon, tmp_path, host_spec=roots) as kvm:

        def volume(path: str) -> list[Object]:
            return [{"name": "data", "hostPath": str(tmp_path / path), "mountPath": "/data"}]

        async def refused(name: str, **spec: Any) -> str:
            await kvm.machine(name, **spec)
            seen = await kvm.until(KVM_MACHINES, name, lambda obj: conditions.is_false(obj, "Ready"))
            await kvm.remove(name)
            return conditions.reason_of(seen, "Ready")

        await kvm.cluster()
        assert await refused("outside", hostVolumes=volume("secret")) == "HostPathNotAllowed"
        assert await refused("by-link", hostVolumes=volume("shared/link")) == "HostPathNotAllowed"
        assert await refused("etcd", etcdVolume={"hostPath": str(tmp_path / "shared/link")}) == "HostPathNotAllowed"
        assert await refused("image", image=str(outside)) == "ImageNotAllowed"
        assert await refused("image-by-link", image="link.qcow2") == "ImageNotAllowed"
        assert kvm.files() == []

        machine = await kvm.running(
            "one", hostVolumes=volume("shared/data"), etcdVolume={"hostPath": str(tmp_path / "shared/etcd")}
        )
        uuid_ = machine["spec"]["providerID"].removeprefix("kvm://")
        xml = daemon.virsh("dumpxml", uuid_)
        assert f"<source dir='{tmp_path / 'shared/data'}'/>" in xml
        assert "accessmode='mapped'" in xml
        assert f"<source file='{tmp_path / 'shared/etcd' / uuid_ / 'etcd.raw'}'" in xml
        (tmp_path / "shared/data/kept").touch()
        await kvm.remove("one")
        assert sorted(os.listdir(tmp_path / "shared")) == ["data", "etcd", "link"]
        assert os.listdir(tmp_path / "shared/etcd") == []
        assert os.listdir(tmp_path / "shared/data") == ["kept"], "what is the host's own stays"

        kvm.namespace = "team-b"
        await kvm.cluster()
        assert await refused("others", hostVolumes=volume("shared/data")) == "HostPathNotAllowed"


async def test_what_nobody_has_judged_takes_nothing_from_others(daemon: Libvirtd, tmp_path: Path) -> None:
    world.image(tmp_path)
    async with world.world(daemon, tmp_path, host_spec={"namespaces": ["team-a"]}) as kvm:
        kvm.namespace = "evil"
        await kvm.namespaced()
        for number, range_ in enumerate(("fd00::/64", "0.0.0.0/0", "10.200.0.0/16", "10.200.0.0/24")):
            await kvm.add(KVM_CLUSTERS, f"x{number}", {"host": HOST, "range": range_}, finalizers=[CLUSTER_FINALIZER])
        much = {"cpu": 1, "memory": "99Ti", "disk": "1Gi"}
        await kvm.add(KVM_MACHINES, "unowned", {"host": HOST, "resources": much}, finalizers=[FINALIZER])
        refused = await kvm.cluster("owned", host=HOST, range="fd00::/64", finalizers=[CLUSTER_FINALIZER])
        assert conditions.reason_of(refused, "Ready") == "NoHost"

        kvm.namespace = "team-a"
        shop = await kvm.cluster()
        assert shop["spec"]["range"] == "10.200.0.0/24"
        await kvm.running("one")
        used = {"cpu": 1, "memoryBytes": 100_000_000, "diskBytes": 1 << 30, "machines": 1}
        await kvm.until(KVM_HOSTS, HOST, lambda obj: obj["status"]["used"] == used)
        await kvm.remove("one")
        await kvm.remove_cluster()

        await kvm.client.delete(KVM_HOSTS, HOST)

        async def is_gone() -> bool:
            return not (await kvm.client.list(KVM_HOSTS)).items

        await eventually(is_gone, PATIENCE)


async def test_an_older_object_that_nobody_has_judged_takes_no_identity_away(kvm: World) -> None:
    await kvm.cluster()
    kvm.namespace = "team-b"
    await kvm.namespaced()
    await kvm.add(KVM_MACHINES, "older", {"resources": SIZES})
    kvm.namespace = "team-a"
    victim = await kvm.running("one")
    taken = {each: victim["spec"][each] for each in ("providerID", "host")}
    await kvm.client.patch(KVM_MACHINES, "older", {"spec": taken}, "team-b")

    kvm.daemon.virsh("destroy", victim["spec"]["providerID"].removeprefix("kvm://"))
    await kvm.until(KVM_MACHINES, "one", lambda obj: conditions.reason_of(obj, "Ready") == "Running")
    await eventually(_runs(kvm), PATIENCE)


async def test_what_was_revoked_stays_so_and_what_was_made_goes_whatever_the_spec_says(
    daemon: Libvirtd, tmp_path: Path
) -> None:
    """A spec that was changed before the API refused that."""
    for name in ("shared/data", "shared/etcd"):
        (tmp_path / name).mkdir(parents=True)
    world.image(tmp_path)
    roots: Object = {"hostVolumeRoots": [{"path": str(tmp_path / "shared"), "namespaces": ["team-a"]}]}
    volumes: list[Object] = [{"name": "data", "hostPath": str(tmp_path / "shared/data"), "mountPath": "/data"}]
    async with world.world(daemon, tmp_path, host_spec=roots) as kvm:
        await kvm.cluster()
        etcd = {"hostPath": str(tmp_path / "shared/etcd"), "size": "100M"}
        machine = await kvm.running("one", hostVolumes=volumes, etcdVolume=etcd)
        definition = await kvm.client.get(CUSTOM_RESOURCE_DEFINITIONS, f"{KVM_MACHINES.plural}.{KVM_MACHINES.group}")
        lenient = objects.copy(definition)
        for version in lenient["spec"]["versions"]:
            _forget_rules(version["schema"])
        await kvm.client.update(CUSTOM_RESOURCE_DEFINITIONS, lenient)
        bare: Object = {"spec": {"hostVolumes": None, "etcdVolume": None}}

        async def is_changed() -> bool:
            with contextlib.suppress(errors.Invalid):
                await kvm.client.patch(KVM_MACHINES, "one", bare, kvm.namespace)
                return True
            return False

        await eventually(is_changed, PATIENCE)
        await kvm.client.patch(KVM_HOSTS, HOST, {"spec": {"hostVolumeRoots": None}})
        daemon.virsh("destroy", machine["spec"]["providerID"].removeprefix("kvm://"))
        await kvm.becomes("one", "HostPathNotAllowed")
        assert daemon.pids("qemu-system-x86_64") == []
        await kvm.remove("one")
        assert list((tmp_path / "shared/etcd").iterdir()) == []
        await kvm.remove_cluster()
    assert daemon.left() == []


def _forget_rules(schema: Object) -> None:
    schema.pop("x-kubernetes-validations", None)
    for inner in schema.values():
        if isinstance(inner, dict):
            _forget_rules(cast(Object, inner))


async def test_the_hardware_address_of_anothers_machine_is_of_no_use(
    kvm: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, twin = TWINS
    assert identity.mac(own) == identity.mac(twin)
    await kvm.cluster()
    with monkeypatch.context() as patched:
        patched.setattr(identity, "new_uuid", lambda: own)
        victim = await kvm.running("one")
    assert victim["spec"]["providerID"] == f"kvm://{own}"
    (network,) = kvm.daemon.virsh("net-list", "--name").split()
    entry = victim["status"]["addresses"][1]["address"]
    assert entry in kvm.daemon.virsh("net-dumpxml", network)

    kvm.namespace = "team-b"
    await kvm.cluster("other")
    await kvm.machine("thief", "other", providerID=f"kvm://{twin}")
    await kvm.becomes("thief", "ProviderIDTaken")
    recorded = {"providerID": f"kvm://{twin}", "host": HOST, "resources": SIZES}
    await kvm.add(KVM_MACHINES, "one", recorded, finalizers=[FINALIZER])
    await kvm.delete(KVM_MACHINES, "one")
    await kvm.gone(KVM_MACHINES, "one")
    assert entry in kvm.daemon.virsh("net-dumpxml", network)

    kvm.namespace = "team-a"
    await kvm.remove("one")
    assert entry not in kvm.daemon.virsh("net-dumpxml", network)


async def test_a_machine_that_has_the_uuid_of_the_probe_is_left_alone_and_told(kvm: World) -> None:
    """One from before that was refused."""
    await kvm.cluster()
    machine = await kvm.running("one")
    own = machine["spec"]["providerID"].removeprefix("kvm://")
    taken = identity.derived_uuid(f"probe/{kvm.folder}/{HOST}")
    with pytest.raises(errors.Invalid, match="providerID"):
        await kvm.machine("two", providerID=f"kvm://{taken}")
    called = kvm.daemon.virsh("domname", own).strip()
    change = f"sed s/{own}/{taken}/g; s/{called}/{called}-x/".replace("; ", "\\;")
    kvm.daemon.run("sh", "-c", f"virsh dumpxml --inactive {own} | {change} >/run/x.xml && virsh -q define /run/x.xml")

    await kvm.client.patch(KVM_HOSTS, HOST, {"spec": {"overcommit": {"cpu": 4}}})
    told = await kvm.until(KVM_HOSTS, HOST, lambda obj: conditions.is_false(obj, "Ready"))
    assert f"KVMMachine team-a/one has the UUID {taken}" in conditions.message_of(told, "Ready")
    assert taken in kvm.daemon.virsh("list", "--all", "--uuid")

    kvm.daemon.virsh("undefine", taken)
    await kvm.until(KVM_HOSTS, HOST, lambda obj: conditions.is_true(obj, "Ready"))


def _runs(kvm: World) -> Callable[[], Awaitable[bool]]:
    async def is_running() -> bool:
        return len(kvm.daemon.pids("qemu-system-x86_64")) == 1

    return is_running


async def test_a_host_that_is_for_others_takes_nothing_though_the_spec_names_it(
    daemon: Libvirtd, tmp_path: Path
) -> None:
    world.image(tmp_path)
    async with world.world(daemon, tmp_path, host_spec={"namespaces": ["team-a"]}) as kvm:
        await kvm.cluster()
        kvm.namespace = "team-b"
        refused = await kvm.cluster()
        assert conditions.reason_of(refused, "Ready") == "NoHost"
        assert "its namespaces do not name team-b" in conditions.message_of(refused, "Ready")
        assert len(daemon.virsh("net-list", "--name").split()) == 1
