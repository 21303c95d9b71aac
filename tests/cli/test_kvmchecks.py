"""What `steelyard doctor` finds about KVM hosts: each finding with the command that mends it."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from steelyard import settings
from steelyard.cli import kvmchecks
from steelyard.cli.kvmchecks import Machine
from steelyard.kube.objects import Object

FILE = "infrastructure: kvm\nenvironments: {dev: {kubernetesVersion: v1.34.4}}"
ROUTES = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Machine]:
    """A machine on which everything is as it should be."""
    root = tmp_path / "m"
    for folder in ("run/libvirt", "proc/net", "dev", "bin", "var/lib/steelyard/images", "sys/class/net/br0/bridge"):
        (root / folder).mkdir(parents=True)
    (root / "proc/cpuinfo").write_text("flags : fpu vmx")
    (root / "proc/net/route").write_text(f"{ROUTES}eth0\t00000000\t0101A8C0\t3\t0\t0\t0\t00000000\n")
    (root / "dev/kvm").touch()
    for version in ("v1.34.4", "v1.32.1"):
        (root / f"var/lib/steelyard/images/debian-12-kubernetes-{version}.qcow2").touch()
    for program in ("qemu-system-x86_64", "dnsmasq"):
        (root / "bin" / program).write_text("")
        (root / "bin" / program).chmod(0o755)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(root / "run/libvirt/libvirt-sock"))
    listener.listen()
    yield Machine(root, str(root / "bin"))
    listener.close()


def found(here: Machine, file: str = FILE) -> list[str]:
    """Without what may be missing where the tests run, Python's binding of libvirt."""
    lines = map(str, kvmchecks.findings(settings.parse(file), here))
    return [line for line in lines if "libvirt library" not in line]


def test_a_machine_that_has_everything_is_well(here: Machine) -> None:
    lines = found(here)

    assert len(lines) == 8
    assert all(line.startswith("ok") for line in lines), lines


def test_who_has_no_kvm_hosts_is_told_nothing_of_them(here: Machine) -> None:
    assert list(kvmchecks.findings(settings.parse(""), here)) == []


def test_hosts_elsewhere_are_not_looked_for_here(here: Machine) -> None:
    assert found(here, "kvm: {hosts: {rack: {uri: 'qemu+ssh://rack/system'}}}") == []


Damage = Callable[[Machine], object]


def without(name: str) -> Damage:
    return lambda here: here.file(name).unlink()


def with_text(name: str, text: str) -> Damage:
    return lambda here: here.file(name).write_text(text)


def closed(here: Machine) -> None:
    here.file("var/lib").chmod(0o750)


def nobody_listens(here: Machine) -> None:
    here.file("run/libvirt/libvirt-sock").unlink()
    abandoned = socket.socket(socket.AF_UNIX)
    abandoned.bind(str(here.file("run/libvirt/libvirt-sock")))
    abandoned.close()


@pytest.mark.parametrize(
    ("damage", "level", "told"),
    [
        (without("run/libvirt/libvirt-sock"), "FAIL", "apt install libvirt-daemon-system"),
        (nobody_listens, "FAIL", "systemctl restart libvirtd"),
        (without("bin/qemu-system-x86_64"), "FAIL", "apt install qemu-system-x86"),
        (without("bin/dnsmasq"), "FAIL", "apt install dnsmasq-base"),
        (with_text("proc/cpuinfo", "flags : fpu"), "note", "machines are emulated"),
        (without("dev/kvm"), "note", "modprobe kvm_intel"),
        (
            without("var/lib/steelyard/images/debian-12-kubernetes-v1.34.4.qcow2"),
            "note",
            "steelyard image build --kubernetes v1.34.4",
        ),
        (closed, "FAIL", "var/lib; run: chmod o+x "),
        (
            with_text("proc/net/route", f"{ROUTES}eth1\t0003C80A\t00000000\t1\t0\t0\t0\t00FFFFFF\n"),
            "FAIL",
            "10.200.0.0/16 overlaps with 10.200.3.0/24, which is behind eth1",
        ),
    ],
    ids=[
        "no libvirtd",
        "a dead libvirtd",
        "no QEMU",
        "no dnsmasq",
        "no CPU",
        "no device",
        "no image",
        "closed",
        "route",
    ],
)
def test_what_is_wrong_is_told_with_what_mends_it(here: Machine, damage: Damage, level: str, told: str) -> None:
    damage(here)

    (wrong,) = [line for line in found(here) if not line.startswith("ok")]
    assert wrong.startswith(level)
    assert told in wrong


def test_networks_of_clusters_are_no_clash_with_themselves(here: Machine) -> None:
    here.file("proc/net/route").write_text(f"{ROUTES}sy-0123456789\t0003C80A\t00000000\t1\t0\t0\t0\t00FFFFFF\n")

    assert all(line.startswith("ok") for line in found(here))


def test_a_bridge_that_is_not_there_is_told(here: Machine) -> None:
    file = "kvm: {hosts: {local: {networks: {bridges: [{name: br0, namespaces: [a]}, {name: br1, namespaces: [a]}]}}}}"

    (wrong,) = [line for line in found(here, f"{FILE}\n{file}") if line.startswith("FAIL")]
    assert "no bridge br1" in wrong
    assert "ip link add br1 type bridge" in wrong


def test_a_socket_that_is_closed_to_us_is_told_with_the_group(here: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The superuser, as whom tests may run, is let in everywhere."""

    class Closed(socket.socket):
        def connect(self, address: object, /) -> None:
            raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(kvmchecks.socket, "socket", Closed)

    (wrong,) = [line for line in found(here) if line.startswith("FAIL")]
    assert "usermod --append --groups libvirt" in wrong


@pytest.mark.parametrize(
    ("status", "line"),
    [
        ({}, "note  kvm host local: nobody has looked at it yet"),
        (
            {"conditions": [{"type": "Ready", "status": "False", "message": "libvirt does not answer"}]},
            "FAIL  kvm host local: libvirt does not answer",
        ),
        (
            {
                "conditions": [{"type": "Ready", "status": "True"}],
                "virtualization": "emulated",
                "used": {"machines": 1},
            },
            "ok    kvm host local: machines are emulated: a guest could not be started with hardware virtualisation; "
            "1 machine on it",
        ),
    ],
    ids=["not yet", "away", "ready"],
)
def test_what_the_platform_has_found_of_its_hosts_is_told(status: Object, line: str) -> None:
    assert [str(each) for each in kvmchecks.of_hosts([{"metadata": {"name": "local"}, "status": status}])] == [line]
