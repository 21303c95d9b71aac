"""What a host has on it that machines leave traces in: domains, networks, pools, bridges, processes, files.

Listed before the first claim and after the last is deleted, the two must be the same.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.machines.barehost import virsh

_OF_MACHINES: Final = ("qemu-system", "dnsmasq")


def listing(roots: Sequence[Path]) -> dict[str, list[str]]:
    """`roots` are the directories of disks, and whatever else machines keep files in."""
    return {
        "domains": _lines(virsh("list", "--all", "--name")),
        "networks": _lines(virsh("net-list", "--all", "--name")),
        "bridges and taps": _links(),
        "processes": _processes(),
        "files": sorted(str(path) for root in roots if root.exists() for path in root.rglob("*") if path.is_file()),
        "leases": _leases(),
        "rules of the firewall": _rules(),
    }


def differences(before: dict[str, list[str]], after: dict[str, list[str]]) -> list[str]:
    found: list[str] = []
    for what, had in before.items():
        found += [f"{what}: {each} is left" for each in after[what] if each not in had]
        found += [f"{what}: {each} is gone" for each in had if each not in after[what]]
    return found


def counts(listed: dict[str, list[str]]) -> str:
    return ", ".join(f"{len(names)} {what}" for what, names in listed.items())


def _lines(text: str) -> list[str]:
    return sorted(line.strip() for line in text.splitlines() if line.strip())


def _links() -> list[str]:
    shown = subprocess.run(["ip", "-brief", "link"], capture_output=True, text=True, check=True).stdout
    return sorted(line.split()[0].split("@")[0] for line in shown.splitlines())


def _processes() -> list[str]:
    found: list[str] = []
    for each in Path("/proc").iterdir():
        if not each.name.isdigit():
            continue
        try:
            words = (each / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        name = Path(words[0].decode(errors="replace")).name
        guest = next((word.decode() for word in words if word.startswith(b"guest=")), "")
        # libvirt asks each QEMU what it can do, which takes a moment and has no guest.
        if name.startswith(_OF_MACHINES) and (guest or not name.startswith("qemu")):
            found.append(f"{name} {guest}".strip())
    return sorted(found)


def processor_seconds() -> list[float]:
    """What each machine that runs has used of a processor, however much of it others were given."""
    used: list[float] = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            is_machine = b"\0guest=" in (each / "cmdline").read_bytes()
            fields = (each / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if is_machine:
            used.append((int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"))
    return sorted(used)


def _leases() -> list[str]:
    return sorted(
        str(path)
        for path in Path("/var/lib/libvirt/dnsmasq").glob("*")
        if path.is_file() and path.stat().st_size and path.name.startswith("sy")
    )


def _rules() -> list[str]:
    shown = subprocess.run(["iptables-save"], capture_output=True, text=True, check=True).stdout
    return sorted(line for line in shown.splitlines() if line.startswith("-A") and " sy" in line)
