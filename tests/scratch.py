"""Where tests keep their files: in memory, where there is room for them.

A server that makes a database writes a thousand files, and a platform syncs every write: on a disk most of a test's
time goes there. Nothing that is tested depends on the disk itself; a full one is a small file system of the test's own.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Final

_MEMORY: Final = Path("/dev/shm")
_ROOM: Final = 4 * 1024**3


def root() -> Path:
    return _MEMORY if _has_room(_MEMORY) else Path(tempfile.gettempdir())


def folder(name: str, place: Path | None = None) -> Path:
    """A new one, which users that servers run as can enter: pytest's own can nobody else."""
    place = place or root()
    _remove_of_the_dead(place)
    made = Path(tempfile.mkdtemp(prefix=f"steelyard-{_namespace()}-{os.getpid()}-{name}-", dir=place))
    made.chmod(0o755)
    return made


def _has_room(place: Path) -> bool:
    """Also for programs, which some systems let nobody run there."""
    if not place.is_dir() or not os.access(place, os.W_OK) or os.statvfs(place).f_flag & os.ST_NOEXEC:
        return False
    return shutil.disk_usage(place).free >= _ROOM and _available_memory() >= _ROOM


def _available_memory() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * 1024
    return 0


def _remove_of_the_dead(place: Path) -> None:
    """Whoever was killed has left what it had. Who lives in another process namespace cannot be told from here."""
    for path in place.glob("steelyard-*-*"):
        found = re.match(r"steelyard-([0-9]+)-([0-9]+)-", path.name)
        if found and int(found[1]) == _namespace() and not Path(f"/proc/{found[2]}").exists():
            shutil.rmtree(path, ignore_errors=True)


def _namespace() -> int:
    """That of process ids."""
    return Path("/proc/self/ns/pid").stat().st_ino
