"""The way in: accepting connections, closing those that say nothing, and keeping room for new ones.

- One timer for all connections of a process, which runs only while one of them is idle or has something to finish.
- A connection that is silent before its first request, or sends a head slowly, is closed after `head` seconds; one that
  is idle between requests after `idle`, one whose body or whose reading takes too long after `body`: as upstream.
- The number of descriptors is the number of connections. When they run short, the connections that have been doing
  nothing for longest are closed, then the newest ones of whoever has most. Who has come just now is not among them, and
  who stands before the door waits until there is room. Some descriptors are kept back for everything else: the store,
  webhooks, administrators.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import logging
import os
import resource
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Hashable
from typing import Final, Protocol

from steelyard.frozen import frozen

logger = logging.getLogger(__name__)

HANDSHAKE_SECONDS: Final = 10.0
"""For a client to say hello or goodbye; one that is silent holds nothing longer than that."""
_AT_ONCE: Final = 32
_BACKLOG: Final = 1024
_RETRY_SECONDS: Final = 0.02
_MOMENT: Final = 1.0
"""Seconds for a client to say hello, or to ask for something, before it counts as one that does nothing."""
_PART: Final = 16
"""A sixteenth of the descriptors is kept back, and a sixteenth of the connections closed at once."""
_LEAST_RESERVE: Final = 32
_LAST: Final = 8
"""Descriptors that no connection gets, and connections that have come last."""
_EXHAUSTED: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))


@frozen
class Patience:
    """In seconds."""

    head: float = 32.0
    idle: float = 90.0
    body: float = 60.0
    tick: float = 4.0


class Guest(Protocol):
    """A connection."""

    since: int
    """The tick since which it has been doing what it does."""

    is_new: bool
    """No request has come on it yet."""

    @property
    def owner(self) -> Hashable:
        """Whose it is; None as long as nobody knows."""
        ...

    @property
    def is_at_work(self) -> bool:
        """Whether it waits for the server, not the server for it."""
        ...

    def seconds_left(self, patience: Patience, waited: float) -> float:
        """How long the server still waits for it, if it has done so for so long."""
        ...

    def abort(self) -> None: ...


class Door:
    """Of all servers of a process; for one event loop at a time."""

    def __init__(self, patience: Patience | None = None, descriptors: int = 0) -> None:
        self._patience = patience or Patience()
        self._descriptors = descriptors or _raise_limit()
        self._reserve = max(_LEAST_RESERVE, self._descriptors // _PART)
        self._guests: dict[Guest, float] = {}
        """In the order in which it became their turn to do something, with when that was."""
        self._arrivals: dict[socket.socket, float] = {}
        """Connections that have not said hello, in the order in which they came, with when that was."""
        self.tick = 0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def guests(self) -> int:
        """How many connections there are."""
        return len(self._guests)

    def enter(self, guest: Guest) -> None:
        self._guests[guest] = 0.0
        self.expect(guest)

    def leave(self, guest: Guest) -> None:
        self._guests.pop(guest, None)

    def expect(self, guest: Guest) -> None:
        """It is the guest's turn to do something before long."""
        if self._guests.pop(guest, None) is None:
            return
        loop = asyncio.get_running_loop()
        self._guests[guest] = loop.time()
        guest.since = self.tick
        if self._timer is None:
            self._run_timer(loop)

    def _run_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = loop.call_later(self._patience.tick, self._sweep)

    def _sweep(self) -> None:
        self._timer = None
        self.tick += 1
        patience = self._patience
        is_expecting = False
        for guest in list(self._guests):
            if guest.is_at_work:
                continue
            if guest.seconds_left(patience, (self.tick - guest.since) * patience.tick) <= 0:
                guest.abort()
            else:
                is_expecting = True
        if is_expecting and self._timer is None:
            self._run_timer(asyncio.get_running_loop())

    def close(self) -> None:
        """Ends the timer; the listeners have closed their connections."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def arrive(self, connection: socket.socket, task: asyncio.Task[None]) -> None:
        self._arrivals[connection] = asyncio.get_running_loop().time()
        task.add_done_callback(lambda _: self._arrivals.pop(connection, None))

    def room(self, known: int) -> int:
        """How many connections may come in now; makes room for the next if there is little left.

        Room that is made is there when the loop has been round. `known` is any descriptor.
        """
        left = self._descriptors - _lowest_free(known)
        if left > self._reserve:
            return left - self._reserve
        self._make_room()
        return 1 if left > _LAST else 0

    def _make_room(self) -> None:
        wanted = max(_LAST, (len(self._guests) + len(self._arrivals)) // _PART)
        before = asyncio.get_running_loop().time() - _MOMENT
        silent = [connection for connection, since in self._arrivals.items() if since < before]
        idle = [guest for guest, since in self._guests.items() if since < before and not guest.is_at_work]
        idle.sort(key=lambda guest: not guest.is_new)
        for connection in silent[:wanted]:
            _hang_up(connection)
        for guest in idle[: max(0, wanted - len(silent))]:
            guest.abort()
        if not silent and not idle:
            self._make_room_among_the_busy(wanted)

    def _make_room_among_the_busy(self, wanted: int) -> None:
        """Everybody has come just now or waits for the server: those have to go of whom there are most."""
        going: list[tuple[float, Callable[[], None]]] = [
            (since, functools.partial(_hang_up, connection)) for connection, since in self._arrivals.items()
        ]
        going += [(since, guest.abort) for guest, since in self._guests.items() if not guest.is_at_work]
        going.sort(key=lambda each: each[0])
        going = going[:-_LAST]
        owned = Counter(guest.owner for guest in self._guests if guest.owner is not None)
        largest, number = owned.most_common(1)[0] if owned else (None, 0)
        if number > len(going):
            logger.warning("connections run short; closing those of the user with most", extra={"connections": number})
            going = [(since, guest.abort) for guest, since in self._guests.items() if guest.owner is largest]
            going.reverse()
        for _, end in going[:wanted]:
            end()


def _hang_up(connection: socket.socket) -> None:
    """The handshake fails on its own when nothing more can come."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _lowest_free(known: int) -> int:
    """The system hands out the lowest number that is free, so its size tells how many are in use."""
    try:
        descriptor = os.dup(known)
    except OSError:
        return 1 << 30
    os.close(descriptor)
    return descriptor


def _raise_limit() -> int:
    """Takes as many descriptors as the process may have, as programs in Go do."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    return soft if soft != resource.RLIM_INFINITY else 1 << 20


class Entrance:
    """The listening sockets of one server."""

    def __init__(
        self,
        door: Door,
        sockets: list[socket.socket],
        protocol: Callable[[], asyncio.BaseProtocol],
        tls: ssl.SSLContext | None,
    ) -> None:
        self._door = door
        self._sockets = sockets
        self._protocol = protocol
        self._tls = tls
        self._arriving: set[asyncio.Task[None]] = set()
        self._retry: asyncio.TimerHandle | None = None
        address = sockets[0].getsockname()
        self.address = str(address[0]), int(address[1])
        self._open()

    def _open(self) -> None:
        self._retry = None
        loop = asyncio.get_running_loop()
        for each in self._sockets:
            loop.add_reader(each.fileno(), self._accept, each)

    def close(self) -> None:
        """Nobody comes in any more."""
        self._close_readers()
        if self._retry is not None:
            self._retry.cancel()
        for each in self._sockets:
            each.close()
        self._sockets = []
        for task in list(self._arriving):
            task.cancel()

    def _close_readers(self) -> None:
        loop = asyncio.get_running_loop()
        for each in self._sockets:
            loop.remove_reader(each.fileno())

    def _accept(self, listening: socket.socket) -> None:
        room = self._door.room(listening.fileno())
        if not room:
            self._come_back()
        for _ in range(min(room, _AT_ONCE)):
            try:
                connection, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                self._come_back()
                return
            connection.setblocking(False)
            task = asyncio.get_running_loop().create_task(self._greet(connection))
            self._arriving.add(task)
            task.add_done_callback(self._arriving.discard)
            if self._tls is not None:
                self._door.arrive(connection, task)

    def _come_back(self) -> None:
        """Whoever stands before the door waits meanwhile."""
        self._close_readers()
        self._retry = asyncio.get_running_loop().call_later(_RETRY_SECONDS, self._open)

    async def _greet(self, connection: socket.socket) -> None:
        seconds = HANDSHAKE_SECONDS if self._tls is not None else None
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._protocol,
                connection,
                ssl=self._tls,
                ssl_handshake_timeout=seconds,
                ssl_shutdown_timeout=seconds,
            )
        except (OSError, EOFError, asyncio.CancelledError):
            # Whoever does not get through the handshake is gone, whatever the reason.
            connection.close()


async def listening_sockets(host: str, port: int) -> list[socket.socket]:
    """One for each address of the host; port 0 takes a free one, the same for all."""
    found = await asyncio.get_running_loop().getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            if port == 0 and sockets:
                address = (address[0], sockets[0].getsockname()[1], *address[2:])
            each = socket.socket(family, kind, protocol)
            sockets.append(each)
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                each.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            each.bind(address)
            each.listen(_BACKLOG)
            each.setblocking(False)
    except OSError:
        for each in sockets:
            each.close()
        raise
    return sockets
