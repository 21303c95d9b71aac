"""The end of a connection whose client may still send.

Closing a socket while bytes come in takes back the answer that the client has not read yet. So they are read and
dropped until the client falls silent, or leaves; for no more than so many bytes and seconds, since nobody has a right
to be listened to for ever.
"""

from __future__ import annotations

import asyncio
from typing import Final

DROPPED_BYTES: Final = 4 * 1024 * 1024
"""More than the largest body has."""
LONGEST_SECONDS: Final = 5.0
QUIET_SECONDS: Final = 0.5


class Parting:
    """Begins with the last answer, and closes the transport."""

    __slots__ = ("_is_quiet", "_left", "_timer", "_transport", "_until")

    def __init__(self, transport: asyncio.Transport) -> None:
        loop = asyncio.get_running_loop()
        self._transport = transport
        self._left = DROPPED_BYTES
        self._until = loop.time() + LONGEST_SECONDS
        self._is_quiet = True
        self._timer = loop.call_later(QUIET_SECONDS, self._look)
        transport.resume_reading()

    def received(self, size: int) -> None:
        self._is_quiet = False
        self._left -= size
        if self._left <= 0:
            # The client has the time that is left to read its answer, but no more is taken from it.
            self._transport.pause_reading()

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        if self._is_quiet or loop.time() >= self._until:
            self._transport.close()
        else:
            self._is_quiet = True
            self._timer = loop.call_later(QUIET_SECONDS, self._look)

    def end(self) -> None:
        """The connection is lost."""
        self._timer.cancel()
