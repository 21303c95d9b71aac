"""Runs programs inside a tree of files that is to become a disk.

In namespaces of their own: what is mounted there is gone with the last process, so nothing is mounted when the tree is
removed; no process outlives the command; and there is no network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from steelyard.images import commands

_ALONE: Final = (
    "unshare",
    "--mount",
    "--propagation",
    "private",
    "--pid",
    "--fork",
    "--kill-child",
    "--net",
    "--ipc",
    "--uts",
)
_SHARED: Final = "/mnt"
_ENTER: Final = """
set -eu
root=$1 shared=$2
shift 2
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs -o mode=0755 tmpfs "$root/run"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
if [ -n "$shared" ]; then mount --bind "$shared" "$root/mnt"; fi
exec chroot "$root" "$@"
"""


def run(
    root: Path,
    command: Sequence[str],
    *,
    settings: Mapping[str, str] | None = None,
    shared: Path | None = None,
    given: bytes = b"",
) -> str:
    """What the command wrote to its standard output. It finds the folder `shared` as /mnt."""
    entered = [*_ALONE, "sh", "-c", _ENTER, "sh", str(root), str(shared or ""), *command]
    return commands.run(entered, settings=settings, given=given)
