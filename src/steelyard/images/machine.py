"""Makes a machine of an operating system: how it boots and is told what it is, and nothing that two
must not have in common.

What makes a node of it is in `node.py`.
"""

from __future__ import annotations

import fnmatch
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from steelyard.images import commands, inside

FILES: Final = Path(__file__).parent / "files" / "machine"
_SCRIPTS: Final = "usr/lib/steelyard"
_ENABLED: Final = (
    "ssh.service", "systemd-networkd.service", "systemd-resolved.service", "systemd-timesyncd.service",
)  # fmt: skip
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


def install(root: Path, values: Mapping[str, str]) -> None:
    """`values` take the place of `@NAME@` in files of the image."""
    put_files(FILES, root, values)
    inside.run(root, ["systemctl", "--quiet", "mask", *_MASKED])
    inside.run(root, ["systemctl", "--quiet", "enable", *_ENABLED])


def put_files(source: Path, root: Path, values: Mapping[str, str]) -> None:
    """All of a folder, each in its place."""
    for path in sorted(source.rglob("*")):
        if path.is_file():
            content = path.read_text()
            for name, value in values.items():
                content = content.replace(f"@{name}@", value)
            target = root / path.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(content)
            target.chmod(0o755 if target.is_relative_to(root / _SCRIPTS) else 0o644)


def clean(root: Path, epoch: int) -> None:
    """Takes away what every machine makes for itself, and whatever tells when or where the image was built."""
    for pattern in (*_OF_ONE_MACHINE, *_OF_THE_BUILD):
        folder, _, name = pattern.rpartition("/")
        # Not by glob: it overlooks links that lead nowhere, as many of a tree do that is not the root.
        for entry in fnmatch.filter(os.listdir(root / folder), name) if (root / folder).is_dir() else []:
            _remove(root / folder / entry)
    (root / "etc/hostname").write_text("localhost\n")
    if (root / "etc/iscsi").is_dir():
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


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
