"""How far a server's calls may go: anywhere, or only where somebody else's server may send the platform.

Whoever administers a server decides where its webhooks are. For the platform's own API that is the platform's
administrator, and nothing is held back. The administrator of a cluster that the platform serves is a tenant, and would
make the platform call what only the platform can reach: its loopback, the networks around it, another tenant's cluster.
Those calls reach public addresses, and the networks that the platform's administrator has listed.

What is judged is the address that a socket is about to be connected to, after every name was resolved, so that no
spelling and no second answer of a name server leads past it.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import threading
from collections.abc import Iterable
from typing import Any, Final, TypeAlias

from steelyard.frozen import frozen

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
AddressInfo: TypeAlias = tuple[int | socket.AddressFamily, int | socket.SocketKind, int, str, tuple[Any, ...]]

_GLOBAL_UNICAST: Final = ipaddress.IPv6Network("2000::/3")
_TUNNELS: Final = (ipaddress.IPv6Network("2001::/32"), ipaddress.IPv6Network("2002::/16"))
"""Teredo and 6to4, which carry an IPv4 address that a router on the way would go on to."""
_TRANSLATED: Final = ipaddress.IPv6Network("64:ff9b::/96")
"""NAT64: the last 32 bits are where it leads."""
_NAMES_AT_ONCE: Final = 2


class OutOfReach(OSError):
    """The address is none that may be called."""


@frozen
class Reach:
    """`networks` are allowed besides public addresses; None is anywhere."""

    networks: tuple[Network, ...] | None = None

    @property
    def is_limited(self) -> bool:
        return self.networks is not None

    def allows(self, address: str) -> bool:
        if self.networks is None:
            return True
        meant = _meant(ipaddress.ip_address(address.partition("%")[0]))
        return any(meant in network for network in self.networks) or (_is_public(meant) and not _is_own(meant))

    def socket_to(self, info: AddressInfo) -> socket.socket:
        """The socket for a connection to exactly this address. Raises OutOfReach."""
        family, kind, protocol, _, target = info
        if not self.allows(str(target[0])):
            raise OutOfReach(f"{target[0]} is not an address that webhooks of this server may be at")
        made = socket.socket(family, kind, protocol)
        made.setblocking(False)
        return made


ANYWHERE: Final = Reach()
PUBLIC: Final = Reach(())


def within(networks: Iterable[str]) -> Reach:
    """Public addresses and these networks (`10.20.0.0/16`)."""
    return Reach(tuple(ipaddress.ip_network(each) for each in networks))


class Resolver:
    """Resolves names for the calls of one server, on threads of its own.

    A name server that a tenant chose may take its time: it holds up two lookups of that tenant, and nobody else's; nor
    the end of the process, which waits for no such thread.
    """

    def __init__(self) -> None:
        self._turn = asyncio.Semaphore(_NAMES_AT_ONCE)

    async def resolve(self, host: str, port: int = 0, family: int = socket.AF_INET) -> list[Any]:
        await self._turn.acquire()
        looking: asyncio.Future[list[tuple[int, str]]] = asyncio.get_running_loop().create_future()
        looking.add_done_callback(self._looked_up)
        arguments = (looking, host, port, socket.AddressFamily(family))
        threading.Thread(target=_look_up, args=arguments, name="webhook-name", daemon=True).start()
        found = await asyncio.shield(looking)
        return [
            {
                "hostname": host,
                "host": address,
                "port": port,
                "family": kind,
                "proto": 0,
                "flags": socket.AI_NUMERICHOST,
            }
            for kind, address in found
        ]

    def _looked_up(self, looking: asyncio.Future[list[tuple[int, str]]]) -> None:
        """Whoever asked may have given up long before, and then nobody else asks for the error."""
        self._turn.release()
        looking.exception()

    async def close(self) -> None:
        """Nothing is kept."""


def _look_up(
    looking: asyncio.Future[list[tuple[int, str]]], host: str, port: int, family: socket.AddressFamily
) -> None:
    """Runs in a thread of its own."""
    loop = looking.get_loop()
    with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
        try:
            found = socket.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            failure = error if isinstance(error, OSError) else OSError(f"{host[:100]!r} is no name: {error}")
            loop.call_soon_threadsafe(looking.set_exception, failure)
            return
        addresses = list(dict.fromkeys((int(kind), str(target[0])) for kind, _, _, _, target in found))
        loop.call_soon_threadsafe(looking.set_result, addresses)


def _meant(address: Address) -> Address:
    """Where packets to the address end up, of an IPv6 address that stands for an IPv4 one."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _TRANSLATED:
            return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def _is_public(address: Address) -> bool:
    if not address.is_global or address.is_multicast or address.is_reserved:
        return False
    if isinstance(address, ipaddress.IPv6Address):
        return address in _GLOBAL_UNICAST and not any(address in tunnel for tunnel in _TUNNELS)
    return True


def _is_own(address: Address) -> bool:
    """Whether this machine has the address: only then can a socket be bound to it."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
    except OSError:
        return False
    return True
