"""The first sector of a disk, and what a tree must not have when it becomes one."""

from __future__ import annotations

import os
import struct
from pathlib import Path

from steelyard.images import disk, machine

EPOCH = 1_700_000_000


def test_the_first_sector_starts_the_loader_and_names_one_active_partition() -> None:
    sector = disk.boot_record(b"\xeb" * 512)
    assert len(sector) == 512
    assert sector[:440] == b"\xeb" * 440
    assert sector[510:] == b"\x55\xaa"
    active, kind, first, count = struct.unpack_from("<B3xB3xII", sector, 446)
    assert (active, kind, first) == (0x80, 0x83, 2048)
    assert (first + count) * 512 == disk.SIZE
    assert sector[462:510] == bytes(48)


def test_root_is_the_one_that_the_loader_and_the_table_of_mounts_name() -> None:
    for name in ("boot/grub/grub.cfg", "etc/fstab"):
        assert "UUID=@ROOT@ " in (machine.FILES / name).read_text()


DUMPED = """Inode count:              40
Free inodes:              24
Group 0: (Blocks 0-32767)
  Free inodes: 12-15, 18
Group 1: (Blocks 32768-65535)
  Free inodes: 
Group 2: (Blocks 65536-98303)
  Free inodes: 21-40
"""  # noqa: W291 (as dumpe2fs has it)


def test_the_inodes_of_files_are_those_that_are_not_free() -> None:
    assert list(disk.used_inodes(DUMPED)) == [*range(2, 12), 16, 17, 19, 20]


def test_a_file_system_that_is_full_has_no_free_ones() -> None:
    assert list(disk.used_inodes("Inode count:              4\n  Free inodes: \n")) == [2, 3, 4]


def tree(root: Path) -> Path:
    for name in ("etc/ssh", "etc/iscsi", "var/lib/dbus", "var/log/apt", "run/lock", "tmp", "var/lib/systemd"):
        (root / name).mkdir(parents=True)
    for name in ("etc/ssh/ssh_host_rsa_key", "etc/hostname", "var/log/dpkg.log", "run/lock/x", "etc/shadow-"):
        (root / name).write_text("of the machine that built it")
    (root / "etc/iscsi/initiatorname.iscsi").write_text("InitiatorName=iqn.1993-08.org.debian:01:1234\n")
    (root / "etc/resolv.conf").symlink_to("/run/leads/nowhere")
    (root / "etc/machine-id").write_text("0123456789abcdef0123456789abcdef\n")
    (root / "etc/old").write_text("old")
    os.utime(root / "etc/old", (5, 5))
    return root


def test_nothing_is_left_that_machines_must_not_have_in_common(tmp_path: Path) -> None:
    root = tree(tmp_path / "root")
    machine.clean(root, EPOCH)
    assert (root / "etc/machine-id").read_bytes() == b""
    assert (root / "etc/iscsi/initiatorname.iscsi").read_text() == "GenerateName=yes\n"
    assert os.readlink(root / "etc/resolv.conf") == "/run/systemd/resolve/stub-resolv.conf"
    left = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() or path.is_symlink()}
    assert left == {
        "etc/hostname",
        "etc/iscsi/initiatorname.iscsi",
        "etc/machine-id",
        "etc/old",
        "etc/resolv.conf",
        "var/lib/dbus/machine-id",
    }


def test_no_file_is_younger_than_the_epoch(tmp_path: Path) -> None:
    root = tree(tmp_path / "root")
    machine.clean(root, EPOCH)
    times = {path.lstat().st_mtime for path in (root, *root.rglob("*"))}
    assert times == {5, EPOCH}
