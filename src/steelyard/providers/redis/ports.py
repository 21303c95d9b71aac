"""Ports of caches: each has one for as long as it exists, and no two have the same.

A port is given out before anything listens there, recorded in the object by the caller, and kept here for it after
every start. They are below those that the kernel takes for outgoing connections, so that a cache which was down for a
moment finds its port free.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Final

FIRST: Final = 20000
LAST: Final = 29999


class NoneLeft(Exception):
    pass


class Ports:
    def __init__(self, is_taken: Callable[[int], bool]) -> None:
        """`is_taken`: by anybody on this machine."""
        self._is_taken = is_taken
        self._given: dict[int, str] = {}

    def keep(self, uid: str, port: int) -> bool:
        """Whether the port that an object names is its own."""
        return self._given.setdefault(port, uid) == uid

    def give(self, uid: str) -> int:
        """A free one: where to look first comes from the object, so that platforms on one machine seldom meet."""
        count = LAST - FIRST + 1
        start = int.from_bytes(hashlib.sha256(uid.encode()).digest()[:4]) % count
        for step in range(count):
            port = FIRST + (start + step) % count
            if port not in self._given and not self._is_taken(port):
                self._given[port] = uid
                return port
        raise NoneLeft(f"all ports from {FIRST} to {LAST} are taken")

    def release(self, uid: str) -> None:
        self._given = {port: owner for port, owner in self._given.items() if owner != uid}
