"""What goes wrong between us and libvirt: each call once, in every way; a libvirtd that is stuck; a full disk."""

from __future__ import annotations

import os
import signal
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from steelyard.api.resources import KVM_HOSTS, KVM_MACHINES
from steelyard.kube.runtime import conditions
from steelyard.providers.kvm.fleet import Fleet
from tests.providers.kvm import faults, world
from tests.providers.kvm.daemons import Libvirtd
from tests.providers.kvm.faults import Manner
from tests.providers.kvm.world import HOST, PATIENCE, World, eventually

LIFE = {
    "define the network",
    "have the network start with the host",
    "start the network",
    "define the directory",
    "make the directory",
    "make a disk",
    "write seed.iso",
    "give the machine its address",
    "define the domain",
    "have the domain start with the host",
    "start the domain",
    "note what was done in the domain",
    "stop the domain",
    "undefine the domain",
    "take the machine's address back",
    "remove root.qcow2",
    "remove seed.iso",
    "remove console.log",
    "let go of the directory",
    "remove the directory",
    "undefine the directory",
    "stop the network",
    "undefine the network",
}


@pytest.mark.parametrize("manner", faults.MANNERS)
async def test_every_call_may_go_wrong_and_nothing_is_doubled_or_left(
    daemon: Libvirtd, tmp_path: Path, manner: Manner
) -> None:
    """Each of them once, in one life; `tests.providers.kvm.faults` as a program tries them one by one."""
    tried = await faults.tried(daemon, tmp_path, manner, faults.each_once())
    assert set(tried.hit) >= LIFE
    assert len(tried.hit) == len(set(tried.hit))


async def test_a_libvirtd_that_is_stuck_concerns_its_own_machines_only(own_daemon: Libvirtd, tmp_path: Path) -> None:
    world.image(tmp_path)
    with Libvirtd() as second:
        reached = {"qemu:///system": own_daemon.uri, "qemu:///session": second.uri}
        fleet = Fleet(reached_by=lambda uri: reached[uri], deadline=1.0)
        async with world.world(own_daemon, tmp_path, fleet=fleet) as kvm:
            other = world.host(tmp_path, uri="qemu:///session", networks={"ranges": ["10.201.0.0/16"]})
            await kvm.client.create(KVM_HOSTS, {**other, "metadata": {"name": "other"}})
            await kvm.until(KVM_HOSTS, "other", lambda obj: conditions.is_true(obj, "Ready"))
            await kvm.cluster("stuck", host=HOST)
            await kvm.cluster("free", host="other")
            stuck = [f"stuck-{number}" for number in range(4)]
            for name in stuck:
                await kvm.machine(name, "stuck")
            for name in stuck:
                await kvm.becomes(name, "Running")

            own_daemon.signal(signal.SIGSTOP)
            for name in stuck:
                await kvm.delete(KVM_MACHINES, name)
            await kvm.running("free-1", "free")
            for name in stuck:
                away = await kvm.until(KVM_MACHINES, name, lambda obj: obj["status"].get("phase") == "Deleting")
                assert conditions.reason_of(away, "Ready") == "HostAway"
            assert len(own_daemon.pids("qemu-system-x86_64")) == 4

            own_daemon.signal(signal.SIGCONT)
            for name in stuck:
                await kvm.gone(KVM_MACHINES, name)
            await kvm.remove("free-1")
        assert [each for each in own_daemon.left() if not each.startswith(_CLUSTER)] == []


_CLUSTER = ("network", "interface sy-", "process dnsmasq", "file of dnsmasq", "definition etc/libvirt/qemu/networks")


@pytest.mark.parametrize("kept", [120, 420], ids=["while the disk is made", "while the seed is made"])
async def test_on_a_full_disk_nothing_is_half_made_and_the_machine_comes_when_there_is_space(
    own_daemon: Libvirtd, tmp_path: Path, kept: int
) -> None:
    """An overlay takes 200 KB, and the seed of this machine 600 KB."""
    world.image(tmp_path)
    async with _on_small_disk(own_daemon, tmp_path) as kvm:
        await kvm.cluster()
        filler = own_daemon.root / str(tmp_path / "machines/filler").lstrip("/")
        filler.write_bytes(bytes(_SMALL - kept * 1024))
        await kvm.machine("one", user_data="x" * 600_000)
        full = await kvm.becomes("one", "NoSpace")
        assert "Free some space" in conditions.message_of(full, "Ready")

        async def is_clean() -> bool:
            there = os.listdir(filler.parent)
            return there == ["filler"] and own_daemon.pools() == []

        await eventually(is_clean, PATIENCE)
        filler.unlink()
        await kvm.becomes("one", "Running")
        await kvm.remove("one")
        assert os.listdir(filler.parent) == []


async def test_a_machine_that_finds_the_hosts_disk_full_is_paused_told_and_goes_on(
    own_daemon: Libvirtd, tmp_path: Path
) -> None:
    """Its program writes one sector after the other until there is no space for them."""
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "writer.raw").write_bytes(_WRITER.ljust(4 << 20, b"\0"))
    async with _on_small_disk(own_daemon, tmp_path, starts_paused=False) as kvm:
        await kvm.cluster()
        await kvm.machine("one", image="writer.raw", resources={"cpu": 1, "memory": "100M", "disk": "100Mi"})
        full = await kvm.becomes("one", "OutOfSpace")
        assert conditions.is_false(full, "Ready")
        assert "free some" in conditions.message_of(full, "Ready")
        own_daemon.run("mount", "-o", f"remount,size={256 << 20}", str(tmp_path / "machines"))
        await kvm.becomes("one", "Running")
        await kvm.remove("one")


_SMALL = 1536 * 1024
_WRITER = (
    bytes.fromhex(
        "31c0 8ed8"  # data is at 0
        "be407c b80043 b280 cd13"  # have the BIOS write to the first disk what the packet below says
        "668106487c80000000"  # the next time 64 KiB further on
        "ebeb"
    ).ljust(0x40, b"\0")
    + bytes.fromhex("1000 0100 007c0000 0008000000000000")  # one sector, from here, at sector 2048
).ljust(510, b"\0") + b"\x55\xaa"


def _on_small_disk(daemon: Libvirtd, folder: Path, *, starts_paused: bool = True) -> AbstractAsyncContextManager[World]:
    machines = folder / "machines"
    machines.mkdir()
    daemon.run("mount", "-t", "tmpfs", "-o", f"size={_SMALL}", "tmpfs", str(machines))
    return world.world(daemon, folder, starts_paused=starts_paused)
