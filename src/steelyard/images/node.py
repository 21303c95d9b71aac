"""Makes a node of an operating system: programs, configuration, and nothing that machines must not have in common."""

from __future__ import annotations

import fnmatch
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from steelyard.images import commands, inside

FILES: Final = Path(__file__).parent / "files" / "node"
CNI: Final = "opt/cni/bin"
_BIN: Final = "usr/bin"
_SCRIPTS: Final = "usr/lib/steelyard"
_HOST_PROGRAMS: Final = ("kubeadm", "kubectl", "kubelet")
_ENABLED: Final = (
    "containerd.service", "kubelet.service", "ssh.service", "steelyard-pod-network.path", "systemd-networkd.service",
    "systemd-resolved.service", "systemd-timesyncd.service",
)  # fmt: skip
_DISABLED: Final = ("keepalived.service", "nftables.service")
_MASKED: Final = (
    # A login prompt on the console would stand between the lines of its log.
    "serial-getty@ttyS0.service",
    # Packages come with the image; a machine that changes by itself is no longer what the manifest says.
    "apt-daily.timer", "apt-daily-upgrade.timer",
    "e2scrub_all.timer", "e2scrub_reap.service", "dpkg-db-backup.timer",
)  # fmt: skip
_OF_ONE_MACHINE: Final = (
    "etc/.resolv.conf.systemd-resolved.bak", "etc/hostname", "etc/iscsi/initiatorname.iscsi",
    "etc/resolv.conf", "etc/ssh/ssh_host_*", "root/.ssh",
    "var/lib/dbus/machine-id", "var/lib/systemd/random-seed",
)  # fmt: skip
_OF_THE_BUILD: Final = (
    "initrd.img.old", "vmlinuz.old", "run/*", "tmp/*", "var/cache/apt/*.bin", "var/cache/debconf/*-old",
    "var/cache/ldconfig/aux-cache", "var/lib/apt/lists/*", "var/lib/dpkg/*-old", "var/log/*.log", "var/log/apt/*",
    "var/lib/systemd/catalog/database", "etc/*-", "var/tmp/*",
)  # fmt: skip


def unpack(system: Path, root: Path) -> None:
    root.mkdir()
    commands.run(
        [
            "tar",
            "--extract",
            "--numeric-owner",
            "--xattrs",
            "--xattrs-include=*",
            f"--file={system}",
            f"--directory={root}",
        ]
    )


def install(root: Path, programs: Mapping[str, Path], plug_ins: Mapping[str, Path], values: Mapping[str, str]) -> None:
    """`values` take the place of `@NAME@` in files of the image."""
    for name in _HOST_PROGRAMS:
        _put(programs[name], root / _BIN / name)
    for name, source in plug_ins.items():
        _put(source, root / CNI / name)
    for source in sorted(FILES.rglob("*")):
        if source.is_file():
            content = source.read_text()
            for name, value in values.items():
                content = content.replace(f"@{name}@", value)
            target = root / source.relative_to(FILES)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(content)
            target.chmod(0o755 if target.is_relative_to(root / _SCRIPTS) else 0o644)
    for name in ("etc/containerd/certs.d", "etc/cni/net.d", "etc/kubernetes/manifests"):
        (root / name).mkdir(parents=True, exist_ok=True)
    inside.run(root, ["systemctl", "--quiet", "disable", *_DISABLED])
    inside.run(root, ["systemctl", "--quiet", "mask", *_MASKED])
    inside.run(root, ["systemctl", "--quiet", "enable", *_ENABLED])


def clean(root: Path, epoch: int) -> None:
    """Takes away what every machine makes for itself, and whatever tells when or where the image was built."""
    for pattern in (*_OF_ONE_MACHINE, *_OF_THE_BUILD):
        folder, _, name = pattern.rpartition("/")
        # Not by glob: it overlooks links that lead nowhere, as many of a tree do that is not the root.
        for entry in fnmatch.filter(os.listdir(root / folder), name) if (root / folder).is_dir() else []:
            _remove(root / folder / entry)
    (root / "etc/hostname").write_text("localhost\n")
    (root / "etc/iscsi/initiatorname.iscsi").write_text("GenerateName=yes\n")
    (root / "etc/resolv.conf").symlink_to("/run/systemd/resolve/stub-resolv.conf")
    # Empty, it is made at the first boot; without it systemd would take that boot for an installation.
    (root / "etc/machine-id").write_bytes(b"")
    (root / "var/lib/dbus").mkdir(parents=True, exist_ok=True)
    (root / "var/lib/dbus/machine-id").symlink_to("/etc/machine-id")
    age(root, epoch)


def age(root: Path, epoch: int) -> None:
    """Makes no file younger than the epoch."""
    for path in _everything(root):
        if path.lstat().st_mtime_ns > epoch * 10**9:
            os.utime(path, (epoch, epoch), follow_symlinks=False)


def _everything(root: Path) -> Iterable[Path]:
    """Deepest first: to change what is in a directory would change its own time."""
    for folder, directories, files in os.walk(root, topdown=False):
        yield from (Path(folder) / name for name in (*files, *directories))
    yield root


def _put(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(0o755)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
