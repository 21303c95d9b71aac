"""What addresses, ranges and ports must look like, in upstream's words."""

from __future__ import annotations

import ipaddress
import re
from typing import Any, Final

from steelyard.kube import fields, namerules
from steelyard.kube.errors import Cause

PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_ADDRESS: Final = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_RANGE: Final = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_LEADING_ZEROS: Final = re.compile(r"(^|\.)0+(?=\d)")
_LINK_LOCAL_MULTICAST: Final = (ipaddress.ip_network("224.0.0.0/24"), ipaddress.ip_network("ff02::/16"))

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def decimal(text: str) -> str:
    """An IPv4 address without leading zeros: some read them as octal, Kubernetes never did."""
    return text if ":" in text else _LEADING_ZEROS.sub(r"\1", text)


def parsed(text: Any) -> Address | None:
    try:
        return ipaddress.ip_address(decimal(str(text)))
    except ValueError:
        return None


def address(text: Any, place: str) -> list[Cause]:
    return [] if parsed(text) is not None else [fields.invalid(place, text, _ADDRESS)]


def parsed_range(text: Any) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(decimal(str(text)), strict=False) if "/" in str(text) else None
    except ValueError:
        return None


def cidr(text: Any, place: str) -> list[Cause]:
    return [] if parsed_range(text) is not None else [fields.invalid(place, text, _RANGE)]


def endpoint_address(text: Any, place: str, *, is_local_fine: bool = False) -> list[Cause]:
    """Addresses that mean something only on one machine lead nobody anywhere.

    Endpoints may be on loopback all the same: that is where programs beside this API, such as webhooks, are reached.
    """
    found = parsed(text)
    if found is None:
        return [fields.invalid(place, text, "must be a valid IP address")]
    if found.is_unspecified:
        return [fields.invalid(place, text, f"may not be unspecified ({text})")]
    if found.is_loopback and not is_local_fine:
        return [fields.invalid(place, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)")]
    if found.is_link_local:
        return [fields.invalid(place, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")]
    if any(found in network for network in _LINK_LOCAL_MULTICAST if network.version == found.version):
        return [fields.invalid(place, text, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")]
    return []


def port(value: Any, place: str) -> list[Cause]:
    """A number, or a name that some container gives to one of its ports."""
    wrong = namerules.port_number(value) if isinstance(value, int) else namerules.port_name(str(value or ""))
    return [fields.invalid(place, value, text) for text in wrong]
