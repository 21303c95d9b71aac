"""A disk that boots by itself from a tree of files, made without mounting anything.

An ext4 file system behind a gap of a mebibyte, in which GRUB is: the first sector loads the rest from the sectors after
it, and that reads /boot/grub/grub.cfg of the one partition. The same tree gives the same bytes: identifiers are fixed
and no time but the epoch is written.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from steelyard.images import commands, inside
from steelyard.images.failing import BuildFailed

ROOT_UUID: Final = "7e5d1a5e-0d15-4c0b-9e57-b007d15c0001"
"""Of every image's root: machines have one each, and never see that of another."""
SIZE: Final = 4 << 30
"""In bytes. Root's file system grows to the machine's disk at its first boot."""
_HASH_SEED: Final = "7e5d1a5e-0d15-4c0b-9e57-b007d15c0002"
_DISK_SIGNATURE: Final = 0x7E5D1A5E
_SECTOR: Final = 512
_FIRST_SECTOR: Final = 2048
_OFFSET: Final = _FIRST_SECTOR * _SECTOR
_ROOT_INODE: Final = 2
_LINUX: Final = 0x83
_BOOT_CODE: Final = 440
_MODULES: Final = (
    "biosdisk", "part_msdos", "ext2", "normal", "linux", "serial", "smbios", "terminal", "echo", "test",
)  # fmt: skip
_GRUB: Final = "usr/lib/grub/i386-pc"
# Spelled out, so that what makes it decides nothing: not every feature of a newer mke2fs is one that GRUB reads.
_FEATURES: Final = (
    "none,has_journal,ext_attr,resize_inode,dir_index,filetype,extent,64bit,flex_bg,sparse_super,large_file,huge_file,"
    "dir_nlink,extra_isize,metadata_csum"
)
_EXTENDED: Final = f"offset={_OFFSET},hash_seed={_HASH_SEED},lazy_itable_init=0,lazy_journal_init=0,nodiscard"


def boot_loader(root: Path) -> tuple[bytes, bytes]:
    """GRUB of the tree: the code of the first sector, and what it loads."""
    made = "/mnt/core.img"
    shared = root.parent
    command = ["grub-mkimage", "--format=i386-pc", "--prefix=(hd0,msdos1)/boot/grub", f"--output={made}", *_MODULES]
    inside.run(root, command, shared=shared)
    core = shared / "core.img"
    loaded = core.read_bytes()
    core.unlink()
    return (root / _GRUB / "boot.img").read_bytes(), loaded


def make(root: Path, target: Path, epoch: int) -> None:
    """Writes the disk as it is, byte by byte, with holes where nothing is."""
    first, rest = boot_loader(root)
    with target.open("xb") as disk:
        disk.truncate(SIZE)
    blocks = (SIZE - _OFFSET) // 4096
    commands.run(
        ["mke2fs", "-q", "-F", "-t", "ext4", "-O", _FEATURES, "-b", "4096", "-I", "256", "-i", "16384", "-m", "1",
         "-U", ROOT_UUID, "-E", _EXTENDED, "-d", str(root), str(target), str(blocks)],
        settings={"E2FSPROGS_FAKE_TIME": str(epoch), "SOURCE_DATE_EPOCH": str(epoch)},
    )  # fmt: skip
    _forget_times(target, epoch)
    with target.open("r+b") as disk:
        disk.write(boot_record(first))
        if len(rest) > (_FIRST_SECTOR - 1) * _SECTOR:
            raise BuildFailed(f"GRUB has {len(rest)} bytes: more than there are before the partition")
        disk.write(rest)
        disk.flush()
        os.fsync(disk.fileno())


def _forget_times(target: Path, epoch: int) -> None:
    """mke2fs takes over when files of the tree were read and changed, which nobody can set there."""
    fixed = {"E2FSPROGS_FAKE_TIME": str(epoch)}
    inside_it = f"{target.name}?offset={_OFFSET}"
    listed = commands.run(["dumpe2fs", inside_it], folder=target.parent, settings=fixed)
    changes = "".join(
        f"set_inode_field <{inode}> {field} @{epoch}\n" for inode in used_inodes(listed) for field in ("ctime", "atime")
    )
    commands.run(["debugfs", "-w", "-f", "-", inside_it], folder=target.parent, settings=fixed, given=changes.encode())
    commands.run(["e2fsck", "-f", "-n", inside_it], folder=target.parent, settings=fixed)


def used_inodes(listed: str) -> Iterator[int]:
    """From what dumpe2fs prints, which are the free ones: `  Free inodes: 16833-24576, 24580`."""
    count = re.search(r"^Inode count: +(\d+)$", listed, re.MULTILINE)
    if count is None:
        raise BuildFailed("dumpe2fs does not say how many inodes there are")
    after = _ROOT_INODE
    for first, last in re.findall(
        r"(\d+)(?:-(\d+))?", " ".join(re.findall(r"^  Free inodes: (.+)$", listed, re.MULTILINE))
    ):
        yield from range(after, int(first))
        after = int(last or first) + 1
    yield from range(after, int(count[1]) + 1)


def boot_record(code: bytes) -> bytes:
    """The first sector: code, signature and a table of one active partition up to the end of the disk."""
    sectors = SIZE // _SECTOR - _FIRST_SECTOR
    # Cylinders are of no use to anybody; these mean "look at the sector numbers".
    entry = struct.pack("<B3sB3sII", 0x80, b"\xfe\xff\xff", _LINUX, b"\xfe\xff\xff", _FIRST_SECTOR, sectors)
    signed = code[:_BOOT_CODE] + struct.pack("<IH", _DISK_SIGNATURE, 0)
    return signed + entry + bytes(48) + b"\x55\xaa"


def convert(raw: Path, target: Path) -> None:
    """As qcow2, which overlays are put on. Not compressed: machines read it all the time."""
    commands.run(["qemu-img", "convert", "-f", "raw", "-O", "qcow2", "-o", "lazy_refcounts=off", str(raw), str(target)])
