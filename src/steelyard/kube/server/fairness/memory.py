"""Memory that is free goes back to the system.

A large body leaves holes behind it wherever it was read, checked and encoded, and the C library keeps them for the next
one: a process that was sent thirty different large bodies holds the holes of all of them. So large blocks are mapped by
themselves, threads share two arenas, and some time after something large has gone the holes are given back. Who calls
it: every server, when it starts and when the `intake` has let go of something large; every worker after each job. Where
the C library is not glibc, nothing of this is done.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""As `malloc.h` numbers them."""
_ARENAS: Final = 2
_MAPPED_BYTES: Final = 128 * 1024
_TOP_BYTES: Final = 1024 * 1024
_STATM: Final = Path("/proc/self/statm")
_PAGE: Final = 4096


@functools.cache
def tune() -> None:
    """Once in a process."""
    mallopt = _function("mallopt")
    if mallopt is not None:
        mallopt(_ARENA_MAX, _ARENAS)
        mallopt(_MMAP_THRESHOLD, _MAPPED_BYTES)
        mallopt(_TRIM_THRESHOLD, _TOP_BYTES)


def trim() -> None:
    """Takes milliseconds, and lets other threads run Python meanwhile."""
    malloc_trim = _function("malloc_trim")
    if malloc_trim is not None:
        malloc_trim(0)


@functools.cache
def _function(name: str) -> Callable[..., Any] | None:
    try:
        return getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):
        return None


def resident() -> int:
    """Bytes of this process; 0 where the system does not tell."""
    try:
        return int(_STATM.read_bytes().split()[1]) * _PAGE
    except OSError:
        return 0
