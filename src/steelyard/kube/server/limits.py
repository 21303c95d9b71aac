"""How much one server does at once, so that a flood of requests is refused instead of piling up in memory.

Watches do not count, since they wait most of the time, and `system:masters` always get through, as upstream: who can
stop a flood must get an answer during it.
"""

from __future__ import annotations

from typing import Final

from steelyard.frozen import frozen
from steelyard.kube import errors
from steelyard.kube.server.call import SYSTEM_MASTERS, User

RETRY_SECONDS: Final = 1
_READING_METHODS: Final = frozenset(("GET", "HEAD", "OPTIONS"))


@frozen
class Limits:
    """Requests in flight; 0 is no limit."""

    reading: int = 400
    writing: int = 200


class InFlight:
    """One server's requests that have been let in and not answered yet."""

    __slots__ = ("_limits", "_reading", "_writing")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._reading = 0
        self._writing = 0

    def enter(self, method: str, user: User) -> None:
        """Raises TooManyRequests. Who is let in must `leave`."""
        if method in _READING_METHODS:
            limit = self._limits.reading
            if limit and self._reading >= limit and SYSTEM_MASTERS not in user.groups:
                raise _too_many()
            self._reading += 1
        else:
            limit = self._limits.writing
            if limit and self._writing >= limit and SYSTEM_MASTERS not in user.groups:
                raise _too_many()
            self._writing += 1

    def leave(self, method: str) -> None:
        if method in _READING_METHODS:
            self._reading -= 1
        else:
            self._writing -= 1


def _too_many() -> errors.Overloaded:
    return errors.Overloaded("Too many requests, please try again later.", retry_after=RETRY_SECONDS)
