"""The memory of a server and of what it has started, as the kernel counts it: what several processes share, such as the
program itself, counts once.

A process that is just being started, between vfork and exec, is its parent under another number: the kernel tells all
of the parent's memory for it as well. It still has its parent's command line, and is left out; a server that had 207 MB
was seen with 414 MB for that moment.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path


def resident(processes: Iterable[int]) -> int:
    """Bytes; what has ended has none."""
    return sum(_resident(pid) for process in processes for pid in (process, *_descendants(process)))


def peak(processes: Iterable[int]) -> int:
    """The most since this was asked last, however short it was: the kernel notes the highest of each process. Those of
    several processes are added up, though they may not have been at the same moment."""
    return sum(_peak(pid) for process in processes for pid in (process, *_descendants(process)))


def _resident(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    except (OSError, StopIteration):
        return 0


def _peak(pid: int) -> int:
    now = _resident(pid)
    with contextlib.suppress(OSError, KeyError):
        fields = [line.split() for line in Path(f"/proc/{pid}/status").read_text().splitlines()]
        told = {each[0]: int(each[1]) * 1024 for each in fields if each[0].startswith("Vm")}
        Path(f"/proc/{pid}/clear_refs").write_text("5")
        return now + max(0, told["VmHWM:"] - told["VmRSS:"])
    return now


def _descendants(pid: int) -> Iterator[int]:
    own = _command(pid)
    for child in _children(pid):
        if _command(child) != own:
            yield child
            yield from _descendants(child)


def _children(pid: int) -> list[int]:
    """Of each of its threads."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                found += map(int, (thread / "children").read_text().split())
    return found


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
