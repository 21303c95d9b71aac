"""KVMMachines on a real libvirtd: made, found again, and gone without a trace."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
from pathlib import Path

import pytest

from steelyard.api.clusterapi.resources import CLUSTERS, MACHINES
from steelyard.api.resources import KVM_CLUSTERS, KVM_HOSTS, KVM_MACHINES
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.runtime import conditions, controller
from steelyard.providers.kvm.libvirt import folders
from steelyard.providers.kvm.libvirt.connection import Connection
from tests.providers.kvm import world
from tests.providers.kvm.daemons import Libvirtd
from tests.providers.kvm.world import HOST, NAMESPACE, PATIENCE, SECRET, World, eventually

QEMU = "qemu-system-x86_64"
NOBODY = 65534


def domain_of(machine: Object) -> str:
    return str(machine["spec"]["providerID"]).removeprefix("kvm://")


async def test_a_machine_is_made_with_its_network_and_goes_without_a_trace(kvm: World) -> None:
    (kvm.folder / "fast").mkdir()
    cluster = await kvm.cluster(dnsName="shop.k8s.example.org")
    machine = await kvm.running(
        "one",
        resources={"cpu": 1, "memory": "100M", "disk": "1Gi", "dockerVolumeSize": "1Gi", "kubeletVolumeSize": "1Gi"},
        etcdVolume={"size": "2Gi"},
    )

    uuid = domain_of(machine)
    assert cluster["spec"]["range"] == "10.200.0.0/24"
    assert cluster["spec"]["controlPlaneEndpoint"] == {"host": "10.200.0.10", "port": 6443}
    assert machine["status"]["addresses"] == [
        {"type": "Hostname", "address": "one"},
        {"type": "InternalIP", "address": "10.200.0.20"},
    ]
    assert machine["status"]["initialization"] == {"provisioned": True}
    assert kvm.daemon.domains() == [uuid]
    assert "Autostart:      enable" in kvm.daemon.virsh("dominfo", uuid)
    names = ("console.log", "containers.qcow2", "etcd.qcow2", "kubelet.qcow2", "root.qcow2", "seed.iso")
    assert kvm.files() == [uuid, *(f"{uuid}/{each}" for each in names)]
    network = kvm.daemon.virsh("net-dumpxml", kvm.daemon.virsh("net-list", "--name"))
    assert "<hostname>shop.k8s.example.org</hostname>" in network
    assert "ip='10.200.0.20'" in network

    await kvm.remove("one")
    await kvm.remove_cluster()
    assert kvm.daemon.left() == []
    assert kvm.files() == []


async def test_bootstrap_data_is_unreadable_for_others_and_gone_after_use(kvm: World) -> None:
    await kvm.cluster()
    machine = await kvm.running("one")
    folder = kvm.folder / "machines" / domain_of(machine)
    seed = folder / "seed.iso"
    assert SECRET.encode() in seed.read_bytes()
    assert {each.name: each.stat().st_mode & 0o777 for each in folder.iterdir()} == {
        "console.log": 0o600,
        "root.qcow2": 0o600,
        "seed.iso": 0o600,
    }
    assert folder.stat().st_mode & 0o777 == 0o711

    await kvm.joined("one")

    async def is_spent() -> bool:
        return 'seed="spent"' in kvm.daemon.definition(domain_of(machine))

    await eventually(is_spent, PATIENCE)
    spent = seed.read_bytes()
    assert SECRET.encode() not in spent
    assert domain_of(machine).encode() in spent, "another instance id would make it a new machine"
    assert seed.stat().st_mode & 0o777 == 0o600
    kvm.daemon.virsh("destroy", domain_of(machine))
    await _runs_again(kvm, machine)
    assert SECRET.encode() not in seed.read_bytes(), "it stays so"


async def test_the_image_stays_the_hosts_while_machines_run_from_it(kvm: World) -> None:
    """libvirt gives files to QEMU's user; one that is everybody's base must not be any guest's to change."""
    (image,) = (kvm.folder / "images").glob("*.qcow2")
    os.chown(image, NOBODY, NOBODY)
    await kvm.cluster()
    machine = await kvm.running("one")
    assert kvm.daemon.is_running(domain_of(machine))
    assert image.stat().st_uid == NOBODY


async def test_an_emulated_machine_is_not_told_to_move_memory_byte_by_byte(kvm: World) -> None:
    given, is_emulated = await _arguments(kvm)
    (processor,) = given["-cpu"]
    if is_emulated:
        assert processor.startswith("max,")
        assert {"erms=off", "fsrm=off"} <= set(processor.split(","))
    else:
        assert processor.startswith("host")


async def test_an_emulated_machine_knows_that_it_is_before_its_kernel_runs(kvm: World) -> None:
    given, is_emulated = await _arguments(kvm)
    assert any("family=emulated" in each for each in given.get("-smbios", [])) == is_emulated


async def test_an_emulator_is_told_how_much_of_what_it_has_translated_it_may_keep(kvm: World) -> None:
    given, is_emulated = await _arguments(kvm)
    assert given["-accel"] == (["tcg,tb-size=95"] if is_emulated else ["kvm"])


async def _arguments(kvm: World) -> tuple[dict[str, list[str]], bool]:
    """Of the QEMU of a machine, by option; and whether it is emulated."""
    host = await kvm.client.get(KVM_HOSTS, HOST)
    await kvm.cluster()
    await kvm.running("one")
    (process,) = kvm.daemon.pids(QEMU)
    return _by_option(process), host["status"]["virtualization"] == "emulated"


def _by_option(process: int) -> dict[str, list[str]]:
    given = Path(f"/proc/{process}/cmdline").read_text().split("\0")
    found: dict[str, list[str]] = {}
    for option, value in itertools.pairwise(given):
        if option.startswith("-"):
            found.setdefault(option, []).append(value)
    return found


async def test_a_platform_that_starts_again_finds_its_machines_and_writes_nothing(
    daemon: Libvirtd, tmp_path: Path
) -> None:
    world.image(tmp_path)
    async with world.world(daemon, tmp_path) as kvm:
        await kvm.cluster()
        before = await kvm.running("one")
        process = daemon.pids(QEMU)
    async with world.world(daemon, tmp_path) as kvm:
        await kvm.manager.idle()
        after = await kvm.client.get(KVM_MACHINES, "one", NAMESPACE)
        cluster = await kvm.client.get(KVM_CLUSTERS, "shop", NAMESPACE)
        assert objects.resource_version(after) == objects.resource_version(before)
        assert daemon.pids(QEMU) == process
        assert conditions.is_true(cluster, "Ready")


async def test_a_machine_of_an_object_made_again_under_another_uid_is_found(daemon: Libvirtd, tmp_path: Path) -> None:
    """As after a move or a restore: without status, and with another UID."""
    world.image(tmp_path)
    async with world.world(daemon, tmp_path) as kvm:
        await kvm.cluster()
        before = await kvm.running("one")
        kvm_cluster = await kvm.client.get(KVM_CLUSTERS, "shop", NAMESPACE)
        process = daemon.pids(QEMU)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "images").symlink_to(tmp_path / "images")
    roots: Object = {
        "storageRoots": [str(tmp_path / "machines")],
        "imageRoots": [str(tmp_path / "images")],
    }
    async with world.world(daemon, tmp_path / "elsewhere", host_spec=roots) as kvm:
        cluster = await kvm.cluster(**kvm_cluster["spec"])
        spec = {name: value for name, value in before["spec"].items() if name not in ("resources", "image")}
        after = await kvm.running("one", **spec)
        assert objects.uid(after) != objects.uid(before)
        assert cluster["spec"] == kvm_cluster["spec"]
        assert after["spec"] == before["spec"]
        assert after["status"]["addresses"] == before["status"]["addresses"]
        assert daemon.pids(QEMU) == process
        await kvm.remove("one")
        await kvm.remove_cluster()
    assert daemon.left() == []


async def test_a_machine_that_was_stopped_or_forgotten_by_libvirt_comes_back(kvm: World) -> None:
    await kvm.cluster()
    machine = await kvm.running("one")
    uuid = domain_of(machine)
    kvm.daemon.virsh("destroy", uuid)
    await _runs_again(kvm, machine)

    kvm.daemon.virsh("undefine", uuid)
    await _look(kvm, "one")

    async def is_defined() -> bool:
        told = kvm.daemon.virsh("dominfo", uuid, check=False)
        return "Persistent:     yes" in told and "Autostart:      enable" in told

    await eventually(is_defined, PATIENCE)


async def test_a_machine_whose_disk_is_gone_is_told_and_never_made_again(kvm: World) -> None:
    await kvm.cluster()
    machine = await kvm.running("one")
    disk = kvm.folder / "machines" / domain_of(machine) / "root.qcow2"
    disk.unlink()
    kvm.daemon.virsh("destroy", domain_of(machine))

    lost = await kvm.becomes("one", "DiskGone")

    assert conditions.is_false(lost, "Ready")
    assert str(disk) in conditions.message_of(lost, "Ready")
    kvm.daemon.virsh("undefine", domain_of(machine))
    await _look(kvm, "one")
    await kvm.manager.idle()
    assert not disk.exists()
    assert conditions.reason_of(await kvm.client.get(KVM_MACHINES, "one", NAMESPACE), "Ready") == "DiskGone"
    await kvm.remove("one")
    assert kvm.files() == []


async def test_a_machine_that_goes_while_its_storage_is_away_waits_for_it(kvm: World) -> None:
    await kvm.cluster()
    await kvm.running("one")
    here, away = kvm.folder / "machines", kvm.folder / "unmounted"
    here.rename(away)
    await kvm.delete(KVM_MACHINES, "one")
    waiting = await kvm.becomes("one", "LibvirtFailed")
    assert waiting["status"]["phase"] == "Deleting"
    assert f"Bring {here} back" in conditions.message_of(waiting, "Ready")

    away.rename(here)
    await kvm.gone(KVM_MACHINES, "one")
    assert kvm.files() == []
    assert kvm.daemon.pools() == []


async def test_storage_that_comes_back_between_two_looks_is_not_taken_for_gone(
    kvm: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await kvm.cluster()
    await kvm.running("one")
    here, away = kvm.folder / "machines", kvm.folder / "unmounted"
    can_be_seen = folders.can_be_seen

    async def comes_back(connection: Connection, uuid: str, xml: str) -> bool:
        if away.exists():
            away.rename(here)
        return await can_be_seen(connection, uuid, xml)

    monkeypatch.setattr(folders, "can_be_seen", comes_back)
    here.rename(away)
    await kvm.delete(KVM_MACHINES, "one")
    await kvm.gone(KVM_MACHINES, "one")
    assert kvm.files() == []


async def test_a_machine_whose_directory_is_gone_can_go(kvm: World) -> None:
    await kvm.cluster()
    machine = await kvm.running("one")
    shutil.rmtree(kvm.folder / "machines" / domain_of(machine))
    await kvm.remove("one")
    assert kvm.files() == []
    assert kvm.daemon.pools() == []


async def test_a_host_that_is_away_is_no_dead_machine(own_daemon: Libvirtd, tmp_path: Path) -> None:
    world.image(tmp_path)
    async with world.world(own_daemon, tmp_path) as kvm:
        await kvm.cluster()
        await kvm.running("one")
        await kvm.running("two")
        processes = own_daemon.pids(QEMU)
        own_daemon.signal(signal.SIGKILL)

        away = await kvm.becomes("one", "HostAway")
        assert conditions.status_of(away, "Ready") == "Unknown"
        assert away["status"]["phase"] == "Running", "as it was when it was last seen"
        host = await kvm.until(KVM_HOSTS, HOST, lambda obj: conditions.is_false(obj, "Ready"))
        assert conditions.reason_of(host, "Ready") == "Away"
        await kvm.delete(KVM_MACHINES, "two")
        waiting = await kvm.until(KVM_MACHINES, "two", lambda obj: obj["status"]["phase"] == "Deleting")
        assert "removed when the host answers" in conditions.message_of(waiting, "Ready")

        own_daemon.restart()
        await kvm.becomes("one", "Running")
        await kvm.gone(KVM_MACHINES, "two")
        assert len({*own_daemon.pids(QEMU)} & {*processes}) == 1, "the machine has not been started anew"


async def test_an_idle_platform_asks_nothing_and_writes_nothing(daemon: Libvirtd, tmp_path: Path) -> None:
    asked: list[str] = []
    world.image(tmp_path)
    fleet = world.fleet(daemon, lambda what, work: (asked.append(what), work())[1])
    async with world.world(daemon, tmp_path, fleet=fleet) as kvm:
        await kvm.cluster()
        await kvm.running("one")
        await kvm.manager.idle(within=controller.SECOND_LOOK, settle=0.5)
        asked.clear()
        before = (await kvm.client.list(KVM_MACHINES)).resource_version
        await kvm.manager.idle(settle=1.5)
        assert asked == []
        assert (await kvm.client.list(KVM_MACHINES)).resource_version == before


async def test_nothing_is_done_for_a_cluster_that_is_paused(kvm: World) -> None:
    """Also nothing is removed: what is moved elsewhere is deleted here while it is paused."""
    await kvm.cluster()
    machine = await kvm.running("one")
    await kvm.client.patch(CLUSTERS, "shop", {"spec": {"paused": True}}, NAMESPACE)
    await kvm.manager.idle()
    kvm.daemon.virsh("destroy", domain_of(machine))
    await kvm.delete(KVM_MACHINES, "one")
    await kvm.manager.idle(settle=0.3)
    assert len(kvm.files()) == 4
    assert kvm.daemon.pids(QEMU) == []

    await kvm.client.patch(CLUSTERS, "shop", {"spec": {"paused": False}}, NAMESPACE)
    await kvm.gone(KVM_MACHINES, "one")
    assert kvm.files() == []


async def test_a_machine_waits_for_its_bootstrap_data(kvm: World) -> None:
    await kvm.cluster()
    owner = await kvm.add(MACHINES, "one", {"clusterName": "shop", "bootstrap": {"configRef": _CONFIG}, **_REFERENCE})
    await kvm.kvm_machine("one", owner)
    await kvm.becomes("one", "WaitingForBootstrapData")
    assert kvm.files() == []


async def test_machines_beyond_what_the_host_has_are_not_made(kvm: World) -> None:
    await kvm.cluster()
    await kvm.machine("one", resources={"cpu": 1, "memory": "90Ti", "disk": "1Gi"})
    refused = await kvm.becomes("one", "NoHost")
    assert "metal: 0 of" in conditions.message_of(refused, "Ready")
    assert "providerID" not in refused["spec"]
    await kvm.machine("two", resources={"cpu": 500, "memory": "100M", "disk": "1Gi"})
    assert "cores are promised" in conditions.message_of(await kvm.becomes("two", "NoHost"), "Ready")
    assert kvm.files() == []


_CONFIG: Object = {"apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "KubeadmConfig", "name": "one"}
_REFERENCE: Object = {
    "infrastructureRef": {"apiGroup": KVM_MACHINES.group, "kind": KVM_MACHINES.kind, "name": "one"},
}


async def _look(kvm: World, name: str) -> None:
    """As the provider does by itself after a while."""
    await kvm.client.patch(
        KVM_MACHINES, name, {"metadata": {"annotations": {"looked": os.urandom(4).hex()}}}, NAMESPACE
    )


async def _runs_again(kvm: World, machine: Object) -> None:
    async def is_running() -> bool:
        return len(kvm.daemon.pids(QEMU)) == 1 and kvm.daemon.is_running(domain_of(machine))

    await eventually(is_running, PATIENCE)
    await kvm.becomes(objects.name(machine), "Running")
