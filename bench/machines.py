"""Machines on a KVM host: how long from a KVMMachine to a QEMU that runs, beside `virsh define` and `virsh start` by
hand on the same libvirtd in the same run; and many at once. Guests start paused: what is measured is the way there.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import time
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Final

from steelyard.api.resources import KVM_MACHINES
from steelyard.kube import objects
from steelyard.providers.kvm import identity
from tests.providers.kvm import daemons, world
from tests.providers.kvm.daemons import Libvirtd
from tests.providers.kvm.world import World

_QEMU: Final = "qemu-system-x86_64"
_DEADLINE: Final = 900.0


async def measure(folder: Path, times: int, at_once: int) -> None:
    """Prints as it goes. `times` machines are made one after the other in either way, then `at_once` together."""
    if problem := daemons.missing():
        print(f"skipped: machines, {problem}")
        return
    world.image(folder)
    with Libvirtd() as daemon:
        async with world.world(daemon, folder, host_spec={"overcommit": {"cpu": 32}}) as kvm:
            await kvm.cluster()
            await kvm.running("first")
            ours: list[float] = []
            by_hand: list[float] = []
            # In turns, so that a machine that changes its pace meanwhile does it to both.
            for number in range(times):
                ours.append(await _made(kvm, [f"ours-{number}"]))
                by_hand.append(await asyncio.to_thread(_by_hand, kvm, [f"hand-{number}"]))
                await _removed(kvm, [f"ours-{number}"])
            _tell(f"KVMMachine to a QEMU that runs, median of {times}", ours, by_hand, "one")
            together = await _made(kvm, [f"many-{number}" for number in range(at_once)])
            await _removed(kvm, [f"many-{number}" for number in range(at_once)])
            one_by_one = await asyncio.to_thread(_by_hand, kvm, [f"more-{number}" for number in range(at_once)])
            _tell(f"{at_once} of them at once", [together], [one_by_one], "one after the other")


def _tell(what: str, ours: list[float], by_hand: list[float], how: str) -> None:
    mine, theirs = statistics.median(ours), statistics.median(by_hand)
    print(f"{what:<56} {mine:8.2f} s", flush=True)
    print(f"  by hand with virsh define and start, {how:<17} {theirs:8.2f} s   ours/by hand {mine / theirs:.2f}")


async def _made(kvm: World, names: list[str]) -> float:
    """Seconds from the first KVMMachine to the last QEMU."""
    before = len(kvm.daemon.pids(_QEMU))
    started = time.perf_counter()
    for name in names:
        await kvm.machine(name)
    async with asyncio.timeout(_DEADLINE):
        while True:
            ready = [each for each in (await kvm.client.list(KVM_MACHINES)).items if _runs(each)]
            if {objects.name(each) for each in ready} >= set(names):
                break
            await asyncio.sleep(0.01)
    taken = time.perf_counter() - started
    assert len(kvm.daemon.pids(_QEMU)) == before + len(names)
    return taken


def _runs(machine: objects.Object) -> bool:
    return objects.at(machine, "status", "phase") == "Running"


async def _removed(kvm: World, names: list[str]) -> None:
    for name in names:
        await kvm.delete(KVM_MACHINES, name)
    for name in names:
        await kvm.gone(KVM_MACHINES, name, _DEADLINE)


def _by_hand(kvm: World, names: list[str]) -> float:
    """Seconds from the first `virsh define` to the end of the last `virsh start`. The disks are there already."""
    files = [_prepared(kvm, name) for name in names]
    started = time.perf_counter()
    for name, file in zip(names, files, strict=True):
        kvm.daemon.virsh("define", str(file))
        kvm.daemon.virsh("start", name, "--paused")
    taken = time.perf_counter() - started
    for name in names:
        kvm.daemon.virsh("destroy", name)
        kvm.daemon.virsh("undefine", name)
    return taken


def _prepared(kvm: World, name: str) -> Path:
    """The definition of one of ours with names, disks and addresses of its own."""
    ours = kvm.daemon.virsh("list", "--uuid").split()[0]
    root = ET.fromstring(kvm.daemon.virsh("dumpxml", ours, "--inactive"))
    uuid = identity.new_uuid()
    for tag, value in (("name", name), ("uuid", uuid)):
        found = root.find(tag)
        assert found is not None
        found.text = value
    mac = root.find("devices/interface/mac")
    log = root.find("devices/serial/log")
    assert mac is not None
    assert log is not None
    mac.set("address", identity.mac(uuid))
    folder = kvm.folder / "by-hand" / name
    folder.mkdir(parents=True)
    log.set("file", str(folder / "console.log"))
    for source in root.iterfind("devices/disk/source"):
        copy = folder / Path(source.attrib["file"]).name
        base = ["-b", str(kvm.folder / "images" / world.IMAGE), "-F", "qcow2"] if copy.suffix == ".qcow2" else []
        kind = "qcow2" if base else "raw"
        subprocess.run(["qemu-img", "create", "-q", "-f", kind, *base, str(copy), "1G"], check=True)
        source.set("file", str(copy))
    path = folder / "domain.xml"
    path.write_text(ET.tostring(root, encoding="unicode"))
    return path
