"""Addresses of clusters: ranges cut from the host's without overlap, and who has which within one. Pure.

Of 10.200.3.0/24: .1 the host, .2 to .9 reserved, .10 the cluster's API unless another of .2 to .19 is asked for, .20 to
.250 machines.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from steelyard.frozen import frozen

PREFIX: Final = 24
API_PORT: Final = 6443
_HOST, _API, _FIRST, _LAST = 1, 10, 20, 250
ROUTER_IDS: Final = range(1, 256)


class NoneLeft(Exception):
    """The message says of what, and what to do."""


@frozen
class Layout:
    """Of one cluster's range."""

    network: ipaddress.IPv4Network

    @classmethod
    def of(cls, range_: str) -> Layout:
        return cls(ipaddress.IPv4Network(range_))

    @property
    def host(self) -> str:
        return str(self.network[_HOST])

    @property
    def api(self) -> str:
        return str(self.network[_API])

    @property
    def machines(self) -> Sequence[str]:
        return [str(self.network[number]) for number in range(_FIRST, _LAST + 1)]

    def may_be_api(self, address: str) -> bool:
        """One of the network that is neither the host's nor a machine's to be."""
        try:
            found = ipaddress.IPv4Address(address)
        except ValueError:
            return False
        return found in self.network and _HOST < int(found) - int(self.network.network_address) < _FIRST


def cut(ranges: Sequence[str], taken: Iterable[ipaddress.IPv4Network]) -> str:
    """The first part of a range that overlaps nothing that is taken."""
    avoided = sorted(taken)
    for range_ in ranges:
        whole = ipaddress.ip_network(range_, strict=False)
        if not isinstance(whole, ipaddress.IPv4Network) or whole.prefixlen > PREFIX:
            continue
        for part in whole.subnets(new_prefix=PREFIX):
            if not any(part.overlaps(each) for each in avoided):
                return str(part)
    raise NoneLeft(
        f"every /{PREFIX} of the host's ranges ({', '.join(ranges) or 'it has none'}) overlaps a network that is there "
        "already: add a range to networks.ranges of the KVMHost, or delete a cluster"
    )


def free(layout: Layout, taken: Collection[str], leased: Collection[str]) -> str:
    """For a new machine. One that was given out a while ago and may still be in use comes last."""
    candidates = [each for each in layout.machines if each not in taken]
    if not candidates:
        raise NoneLeft(f"all {len(layout.machines)} addresses for machines of {layout.network} are taken")
    fresh = [each for each in candidates if each not in leased]
    if not fresh:
        raise NoneLeft(
            f"the addresses of {layout.network} that no machine has are still given out to machines that are gone: "
            "they come back within an hour"
        )
    return fresh[0]


def free_router(taken: Collection[int], *, first: int) -> int:
    """One that no other cluster on the same bridge has, from `first` on: those of other software are often small."""
    for offset in range(len(ROUTER_IDS)):
        candidate = ROUTER_IDS[(first - 1 + offset) % len(ROUTER_IDS)]
        if candidate not in taken:
            return candidate
    raise NoneLeft("all 255 virtual router ids of this bridge are taken: put the cluster on another bridge")


def is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
