"""What the machine that the platform runs on reaches by itself: networks of clusters must not be in the way of it."""

from __future__ import annotations

import ipaddress
import socket
import struct
from pathlib import Path
from typing import Final

_ROUTES: Final = Path("/proc/net/route")


def known() -> list[ipaddress.IPv4Network]:
    """Of its routing table; without the route to everywhere else, and those of bridges that are ours."""
    try:
        lines = _ROUTES.read_text().splitlines()[1:]
    except OSError:
        return []
    return parsed(lines)


def parsed(lines: list[str]) -> list[ipaddress.IPv4Network]:
    found: list[ipaddress.IPv4Network] = []
    for line in lines:
        fields = line.split()
        if len(fields) < 8 or fields[0].startswith("sy-"):
            continue
        address, mask = (_address(fields[number]) for number in (1, 7))
        network = ipaddress.IPv4Network(f"{address}/{mask}", strict=False)
        if network.prefixlen:
            found.append(network)
    return found


def _address(field: str) -> str:
    return socket.inet_ntoa(struct.pack("<I", int(field, 16)))
