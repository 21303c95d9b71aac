"""What `steelyard doctor` looks at where machines are of KVM hosts: each finding with the command that mends it.

This machine is looked at where one of the hosts is this machine, without libvirt's library: whether its socket lets us
in is asked of the socket. What the platform has found out about its hosts, this one and others, it is asked itself.
Commands are those of Debian.
"""

from __future__ import annotations

import importlib.util
import ipaddress
import os
import shutil
import socket
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from steelyard.api import resources, troubles
from steelyard.cli.findings import Finding
from steelyard.compose.infrastructures import kvm
from steelyard.frozen import frozen
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.settings import Platform
from steelyard.settings.kvmhosts import LOCAL_URI, KvmHost

BRIDGE_PREFIX: Final = "sy-"
"""What bridges of clusters' own networks are called."""
_SOCKETS: Final = ("run/libvirt/libvirt-sock", "run/libvirt/virtqemud-sock")
_QEMU: Final = "qemu-system-x86_64"
_GIB: Final = 1 << 30
_DISK_WANTED: Final = 10 * _GIB
_CONNECT_SECONDS: Final = 3.0


@frozen
class Machine:
    """This machine, or in tests a folder that looks like one."""

    root: Path = Path("/")
    path: str | None = None
    """Where programs are looked for; None for the PATH."""

    def file(self, name: str) -> Path:
        return self.root / name.lstrip("/")

    def text(self, name: str) -> str:
        try:
            return self.file(name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""

    def has_program(self, name: str) -> bool:
        found = self.path or f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
        return shutil.which(name, path=found) is not None


def findings(platform: Platform, machine: Machine | None = None) -> Iterator[Finding]:
    """Nothing where the platform has no KVM hosts."""
    here = machine or Machine()
    hosts = platform.kvm_hosts()
    if not hosts:
        return
    yield _library()
    for name, host in hosts.items():
        if host.uri == LOCAL_URI:
            yield from _local(name, host, platform, here)


def _local(name: str, host: KvmHost, platform: Platform, here: Machine) -> Iterator[Finding]:
    yield _libvirt(here)
    yield from _programs(here)
    yield _virtualisation(here)
    for root in host.storage_roots:
        yield _room(root, here)
    yield from _images(host, platform, here)
    yield from _ranges(name, host, here)
    for bridge in host.networks.bridges:
        if not here.file(f"sys/class/net/{bridge.name}/bridge").exists():
            yield Finding(
                "FAIL",
                "kvm bridge",
                f"this machine has no bridge {bridge.name}, which kvm.hosts.{name}.networks.bridges names; make it: "
                f"ip link add {bridge.name} type bridge && ip link set {bridge.name} up (and let your network "
                "configuration keep it), or take it out of the platform file",
            )


def _library() -> Finding:
    if importlib.util.find_spec("libvirt") is None:
        return Finding(
            "FAIL",
            "libvirt library",
            "Python has no module libvirt; run: apt install gcc pkg-config python3-dev libvirt-dev && "
            "pip install 'steelyard[kvm]'",
        )
    return Finding("ok", "libvirt library", "there")


def _libvirt(here: Machine) -> Finding:
    path = next((each for name in _SOCKETS if (each := here.file(name)).exists()), None)
    if path is None:
        return Finding(
            "FAIL",
            "libvirt",
            "it does not run here; run: apt install libvirt-daemon-system && systemctl enable --now libvirtd",
        )
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asked:
            asked.settimeout(_CONNECT_SECONDS)
            asked.connect(str(path))
    except PermissionError:
        return Finding(
            "FAIL",
            "libvirt",
            f"{path} does not let you in; run: usermod --append --groups libvirt $(id --user --name) as root, then log "
            "in again",
        )
    except OSError as error:
        return Finding(
            "FAIL", "libvirt", f"nobody answers at {path} ({error.strerror or error}); run: systemctl restart libvirtd"
        )
    return Finding("ok", "libvirt", f"answers at {path}")


def _programs(here: Machine) -> Iterator[Finding]:
    wanted = {
        _QEMU: ("qemu", "apt install qemu-system-x86", "without it no machine starts"),
        "dnsmasq": ("dnsmasq", "apt install dnsmasq-base", "without it clusters get no network"),
    }
    for program, (subject, command, why) in wanted.items():
        if here.has_program(program):
            yield Finding("ok", subject, "there")
        else:
            yield Finding("FAIL", subject, f"there is no {program}: {why}; run: {command}")


def _virtualisation(here: Machine) -> Finding:
    """What a start of a guest has shown is known to the platform alone: a device proves nothing."""
    flags = set(here.text("proc/cpuinfo").split())
    by = "kvm_intel" if "vmx" in flags else "kvm_amd" if "svm" in flags else ""
    if not by:
        return Finding(
            "note",
            "virtualisation",
            "the CPU offers none: machines are emulated, and many times slower. Turn it on in the firmware (VT-x, "
            "AMD-V), or, where this is a virtual machine, nested virtualisation on its host",
        )
    device = here.file("dev/kvm")
    if not device.exists():
        return Finding("note", "virtualisation", f"the CPU has it, but there is no /dev/kvm; run: modprobe {by}")
    return Finding("ok", "virtualisation", "the CPU has it and /dev/kvm exists")


def _room(root: str, here: Machine) -> Finding:
    wanted = here.file(root)
    existing = next(each for each in (wanted, *wanted.parents) if each.exists())
    free = shutil.disk_usage(existing).free
    closed = [
        each for each in (existing, *existing.parents) if each.is_relative_to(here.root) and not _lets_others_in(each)
    ]
    if closed:
        return Finding(
            "FAIL",
            "kvm disks",
            f"QEMU cannot reach {root}: others may not enter {closed[-1]}; run: chmod o+x {closed[-1]}",
        )
    text = f"{root}, {free / _GIB:.1f} GiB free"
    if free < _DISK_WANTED:
        return Finding(
            "FAIL",
            "kvm disks",
            f"{text}: machines stop when it is full; make room, or name another directory in kvm.hosts.*.storageRoots",
        )
    return Finding("ok", "kvm disks", text)


def _lets_others_in(folder: Path) -> bool:
    return bool(folder.stat().st_mode & stat.S_IXOTH)


def _images(host: KvmHost, platform: Platform, here: Machine) -> Iterator[Finding]:
    """Those that claims of each environment would ask for, unless they name a version."""
    configured = kvm.KVM.on(platform)
    versions: dict[str, list[str]] = {}
    for name, environment in platform.environments.items():
        if environment.enabled:
            versions.setdefault(environment.kubernetes_version, []).append(name)
    for version, environments in versions.items():
        image = configured.image(version).partition("@")[0]
        places = [image] if image.startswith("/") else [f"{root}/{image}" for root in host.image_roots]
        if found := next((each for each in places if here.file(each).is_file()), ""):
            yield Finding("ok", "kvm image", found)
            continue
        yield Finding(
            "note",
            "kvm image",
            f"there is no {places[0]}, which machines of {', '.join(environments)} boot from; run: steelyard image "
            f"build --kubernetes {version}, or set kubernetesVersion of these environments to one that is there",
        )


def _ranges(name: str, host: KvmHost, here: Machine) -> Iterator[Finding]:
    """Networks of clusters that another network of this machine would be behind."""
    routes = [
        (network, interface)
        for network, interface in _routes(here.text("proc/net/route"))
        if not interface.startswith(BRIDGE_PREFIX)
    ]
    for each in host.networks.ranges:
        range_ = ipaddress.IPv4Network(each)
        clash = next(((network, by) for network, by in routes if network.overlaps(range_)), None)
        if clash is None:
            yield Finding("ok", "kvm networks", f"{each} is free on this machine")
        else:
            yield Finding(
                "FAIL",
                "kvm networks",
                f"{each} overlaps with {clash[0]}, which is behind {clash[1]}: what is there and machines could not "
                f"reach each other; choose another range in kvm.hosts.{name}.networks.ranges of the platform file",
            )


def _routes(table: str) -> Iterator[tuple[ipaddress.IPv4Network, str]]:
    """Of the kernel's table, without the default route.

    >>> list(_routes("Iface Destination Gateway Flags RefCnt Use Metric Mask\\neth0 0000C80A 0 1 0 0 0 0000FFFF"))
    [(IPv4Network('10.200.0.0/16'), 'eth0')]
    """
    for line in table.splitlines()[1:]:
        fields = line.split()
        if len(fields) < 8:
            continue
        address, mask = (ipaddress.IPv4Address(bytes.fromhex(fields[index])[::-1]) for index in (1, 7))
        if int(mask):
            yield ipaddress.IPv4Network(f"{address}/{mask}", strict=False), fields[0]


async def gather(client: Client) -> Sequence[Object]:
    """The KVMHosts of the platform; none where it has no such kind, or where the caller may not ask."""
    try:
        return (await client.list(resources.KVM_HOSTS)).items
    except (errors.NotFound, errors.Forbidden):
        return ()


def of_hosts(hosts: Sequence[Object]) -> Iterator[Finding]:
    """As the platform has found them, by asking libvirt and by starting a guest."""
    for host in hosts:
        ready = troubles.condition(host, "Ready")
        subject = f"kvm host {objects.name(host)}"
        if not ready:
            yield Finding("note", subject, "nobody has looked at it yet")
        elif ready.get("status") != "True":
            yield Finding("FAIL", subject, troubles.words(ready) or str(ready.get("reason") or "not ready"))
        else:
            yield Finding("ok", subject, _described(objects.mapping(host.get("status"))))


def _described(status: Mapping[str, object]) -> str:
    how = {
        "hardware": "a guest was started with hardware virtualisation",
        "emulated": "machines are emulated: a guest could not be started with hardware virtualisation",
    }
    machines = objects.mapping(status.get("used")).get("machines") or 0
    found = how.get(str(status.get("virtualization")), "ready")
    return f"{found}; {machines} machine{'' if machines == 1 else 's'} on it"
