"""The operating system of an image: Debian's packages, as a tree of files that is kept for the next image."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from steelyard.frozen import frozen
from steelyard.images import commands, debian
from steelyard.images.debian import Archive

FILES: Final = Path(__file__).parent / "files" / "system"
"""What must be there before packages are configured."""

MACHINE: Final = (
    "linux-image-amd64", "systemd", "systemd-sysv", "systemd-resolved", "systemd-timesyncd", "dbus", "udev", "kmod",
    "grub-pc-bin", "initramfs-tools", "zstd", "cloud-init", "cloud-guest-utils", "qemu-guest-agent", "openssh-server",
)  # fmt: skip
"""What a machine is, and is told by what it is."""
PACKAGES: Final = (
    *MACHINE,
    # What Kubernetes runs on and calls.
    "containerd", "runc", "apparmor", "iptables", "nftables", "ebtables", "conntrack", "ethtool", "socat", "ipset",
    "iproute2", "ca-certificates", "keepalived", "e2fsprogs", "xfsprogs", "open-iscsi", "util-linux", "mount",
    # What somebody who looks for a fault misses first.
    "curl", "iputils-ping", "less", "netbase", "procps", "sudo",
)  # fmt: skip

# Drivers that no virtual machine has a device for, and pages that nobody reads there: half of the kernel's size.
_DRIVERS: Final = (
    "bluetooth", "firewire", "gpu", "hid", "hwmon", "iio", "infiniband", "isdn", "leds", "media", "misc", "mmc", "mtd",
    "net/can", "net/ethernet", "net/wireless", "net/wwan", "staging", "thunderbolt", "usb", "video",
)  # fmt: skip
_EXCLUDED: Final = (
    *(f"/lib/modules/*/kernel/drivers/{name}/*" for name in _DRIVERS),
    *(f"/lib/modules/*/kernel/net/{name}/*" for name in ("bluetooth", "mac80211", "nfc", "wireless")),
    "/lib/modules/*/kernel/sound/*",
    "/usr/share/doc/*",
    "/usr/share/info/*",
    "/usr/share/locale/*",
    "/usr/share/man/*",
)
_INCLUDED: Final = ("/usr/share/doc/*/copyright",)
_KEPT: Final = 2
"""Trees in the cache. Each is some 700 MB."""


@frozen
class Package:
    name: str
    version: str


def digest(archive: Archive, wanted: Sequence[str] = PACKAGES) -> str:
    """Of everything that makes the tree what it is."""
    hashed = hashlib.sha256("\0".join((archive.digest, *archive.sources, *wanted, *_EXCLUDED)).encode())
    for path in sorted(FILES.rglob("*")):
        if path.is_file():
            hashed.update(str(path.relative_to(FILES)).encode() + b"\0" + path.read_bytes() + b"\0")
    return hashed.hexdigest()


def tree(archive: Archive, cache: Path, say: Callable[[str], None], wanted: Sequence[str] = PACKAGES) -> Path:
    """The tree as a tar archive, with the packages that are wanted. Made where the cache has none of this digest."""
    target = cache / f"{debian.SUITE}-{digest(archive, wanted)[:16]}.tar"
    if target.exists():
        os.utime(target)
        return target
    say(f"installing Debian {archive.version} with {len(wanted)} packages and what they depend on")
    cache.mkdir(parents=True, exist_ok=True)
    unfinished = cache / f".{target.name}.{os.getpid()}"
    try:
        commands.run(_command(archive, unfinished, wanted), settings={"SOURCE_DATE_EPOCH": str(archive.epoch)})
        unfinished.rename(target)
    finally:
        unfinished.unlink(missing_ok=True)
    for old in sorted(cache.glob(f"{debian.SUITE}-*.tar"), key=lambda path: -path.stat().st_mtime)[_KEPT:]:
        old.unlink(missing_ok=True)
    return target


def packages(root: Path) -> list[Package]:
    """Those that are installed in a tree, by name."""
    found: list[Package] = []
    for entry in (root / "var/lib/dpkg/status").read_text().split("\n\n"):
        facts = dict(line.split(": ", 1) for line in entry.splitlines() if ": " in line and not line.startswith(" "))
        if facts.get("Status") == "install ok installed":
            found.append(Package(facts["Package"], facts["Version"]))
    return sorted(found, key=lambda package: package.name)


def _command(archive: Archive, target: Path, wanted: Sequence[str]) -> list[str]:
    chosen = [f"path-exclude={path}" for path in _EXCLUDED] + [f"path-include={path}" for path in _INCLUDED]
    return [
        "mmdebstrap",
        "--mode=root",
        "--variant=minbase",
        "--format=tar",
        "--architectures=amd64",
        f"--include={','.join(wanted)}",
        *(f"--dpkgopt={option}" for option in chosen),
        '--aptopt=Acquire::Retries "3"',
        f"--essential-hook=sync-in {FILES} /",
        debian.SUITE,
        str(target),
        *archive.sources,
    ]
